"""The HTTP API: keys of callers, and requests with an Idempotency-Key."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "ledger_28"
down_revision = "ledger_27"


def upgrade() -> None:
    """Create the tables."""
    document = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
    time = sa.DateTime(timezone=True)
    op.create_table(
        "api_keys",
        sa.Column("key_id", sa.String, primary_key=True),
        *(sa.Column(name, sa.String, nullable=False) for name in ("company", "name", "hash")),
        sa.Column("agents", document),
        sa.Column("verbs", document, nullable=False),
        sa.Column("created_at", time, nullable=False),
        *(sa.Column(name, time) for name in ("revoked_at", "last_used_at")),
    )
    op.create_index("api_keys_of_company", "api_keys", ["company", "created_at"])
    op.create_table(
        "idempotency_keys",
        *(sa.Column(name, sa.String, primary_key=True) for name in ("company", "key_id", "idempotency_key")),
        sa.Column("request_hash", sa.String, nullable=False),
        sa.Column("response", sa.LargeBinary),
        sa.Column("created_at", time, nullable=False),
    )
    op.create_index("idempotency_keys_oldest", "idempotency_keys", ["company", "created_at"])
