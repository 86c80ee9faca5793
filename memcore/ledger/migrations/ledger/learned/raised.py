"""Memories that a person has raised, and the least authority that a key is shown."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_42"
down_revision = "ledger_41"

_NAMES = ("agent_id", "memory_id", "authority", "digest")


def upgrade() -> None:
    """Create the table, and give keys the column; NULL for keys of older releases, which are shown what they were."""
    op.create_table(
        "raised",
        *(sa.Column(name, sa.String, primary_key=True) for name in ("company", "approval_id")),
        *(sa.Column(name, sa.String, nullable=False) for name in _NAMES),
    )
    op.create_index("raised_of_agent", "raised", ["company", "agent_id"])
    op.add_column("api_keys", sa.Column("min_authority", sa.String))
