"""The signature of a delivery, by the Standard Webhooks specification (standardwebhooks.com), version 1."""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256

from memcore.ledger.webhooks.endpoints import SECRET_PREFIX


def signed_headers(secrets: Iterable[str], *, message_id: str, timestamp: int, body: bytes) -> Mapping[str, str]:
    """Return the headers that let a receiver verify a body: its id, its time and a signature for each secret.

    The timestamp is in seconds since 1970. A receiver accepts the message when one signature fits.
    """
    signatures = (signature(each, message_id=message_id, timestamp=timestamp, body=body) for each in secrets)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }


def signature(secret: str, *, message_id: str, timestamp: int, body: bytes) -> str:
    """Return ``v1,`` and the HMAC-SHA256 of id, timestamp and body in Base64."""
    key = b64decode(secret.removeprefix(SECRET_PREFIX))
    content = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return "v1," + b64encode(hmac.new(key, content, sha256).digest()).decode()
