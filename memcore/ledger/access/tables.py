"""Tables of keys and of requests that may come again; a test compares them with what the migrations made."""

from sqlalchemy import Column, Index, LargeBinary, String, Table

from memcore.ledger.database import UtcDateTime, json_document
from memcore.ledger.tables import metadata

#: Keys of callers. Of the secret only the hash is kept.
api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", String, primary_key=True),
    *(Column(name, String, nullable=False) for name in ("company", "name", "hash")),
    # None for every agent of the company.
    Column("agents", json_document(none_as_null=True)),
    Column("verbs", json_document(), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("revoked_at", UtcDateTime),
    Column("last_used_at", UtcDateTime),
    Index("api_keys_of_company", "company", "created_at"),
)

#: Requests with an Idempotency-Key: a hash of each, and its response once there is one.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    *(Column(name, String, primary_key=True) for name in ("company", "key_id", "idempotency_key")),
    Column("request_hash", String, nullable=False),
    Column("response", LargeBinary),
    Column("created_at", UtcDateTime, nullable=False),
    Index("idempotency_keys_oldest", "company", "created_at"),
)
