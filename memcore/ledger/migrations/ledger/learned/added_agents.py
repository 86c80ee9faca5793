"""When a person added an agent: only the executions of such agents can become skills."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_25"
down_revision = "ledger_24"

#: Whatever of these is set, a person has set.
_SETTINGS = ("role", "department", "level", "interval", "max_memories", "retention_days")


def upgrade() -> None:
    """Give agents the time; an agent with a setting of its own was added when it was registered."""
    op.add_column("agents", sa.Column("added_at", sa.DateTime(timezone=True)))
    is_set = " or ".join(f"{name} is not null" for name in _SETTINGS)
    op.execute(f"update agents set added_at = registered_at where {is_set}")  # noqa: S608  # names of this file
