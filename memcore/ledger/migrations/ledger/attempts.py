"""How often a job that came back was started again."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_2"
down_revision = "ledger_1"


def upgrade() -> None:
    """Create the table of attempts."""
    op.create_table(
        "attempts",
        sa.Column("job_id", sa.String, primary_key=True),
        sa.Column("starts", sa.Integer, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
    )
