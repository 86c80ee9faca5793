"""The highest channel that a key may claim for what it stores."""

import sqlalchemy as sa
from alembic import op

revision = "ledger_39"
down_revision = "ledger_38"


def upgrade() -> None:
    """Give keys the channel; NULL for those of older releases, which may claim what their verbs say."""
    op.add_column("api_keys", sa.Column("channel", sa.String))
