// Verify what memtend sends to a webhook; copy it into a receiver, which needs nothing but Node.

import { createHmac, timingSafeEqual } from "node:crypto";

// Seconds by which the sender's clock and yours may differ; an older request may be a copy that somebody sends again.
const TOLERANCE = 300;

// Return whether a request is of whoever knows the secret (whsec_...), unchanged and sent just now.
// Pass the body as a Buffer, as it came, before it is read as JSON, and Node's headers.
export function verify(headers, body, secret, now = Date.now() / 1000) {
  const id = headers["webhook-id"];
  const sentAt = headers["webhook-timestamp"];
  const signatures = headers["webhook-signature"];
  if (!id || !signatures || !/^[0-9]+$/.test(sentAt ?? "")) return false;
  if (Math.abs(now - Number(sentAt)) > TOLERANCE) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const hmac = createHmac("sha256", key).update(`${id}.${sentAt}.`).update(body);
  const expected = Buffer.from(`v1,${hmac.digest("base64")}`);
  // For a day after a rotation there is one of the old secret and one of the new.
  return signatures.split(" ").some((each) => {
    const given = Buffer.from(each);
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}
