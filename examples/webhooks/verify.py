"""Verify what memtend sends to a webhook; copy it into a receiver, which needs nothing but Python."""

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping

#: Seconds by which the sender's clock and yours may differ; an older request may be a copy that somebody sends again.
TOLERANCE = 300


def verify(headers: Mapping[str, str], body: bytes, secret: str, *, now: float | None = None) -> bool:
    """Return whether a request is of whoever knows the secret (whsec_...), unchanged and sent just now.

    Pass the body as it came, before it is read as JSON, and headers with lower-case names. Then answer 2xx within ten
    seconds, and do the work later; a webhook-id that you know already is a copy.
    """
    try:
        message_id, sent_at = headers["webhook-id"], headers["webhook-timestamp"]
        signatures = headers["webhook-signature"].split(" ")
        age = abs((time.time() if now is None else now) - int(sent_at))
    except (KeyError, ValueError):
        return False
    if age > TOLERANCE:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{message_id}.{sent_at}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest())
    # For a day after a rotation there is one of the old secret and one of the new.
    return any(hmac.compare_digest(expected, each.encode()) for each in signatures)
