"""mem0's history table, unless mem0 was here first."""

import sqlalchemy as sa
from alembic import op

revision = "history_1"
down_revision = None


def upgrade() -> None:
    """Create the history table where it is missing, and the index that mem0 does not make."""
    connection = op.get_bind()
    if not sa.inspect(connection).has_table("history"):
        # mem0 writes ISO strings; only SQLite lets a column that is declared as DATETIME hold them.
        time_text = sa.Text if connection.dialect.name == "postgresql" else sa.DateTime
        op.create_table(
            "history",
            sa.Column("id", sa.Text, primary_key=True),
            sa.Column("memory_id", sa.Text),
            sa.Column("old_memory", sa.Text),
            sa.Column("new_memory", sa.Text),
            sa.Column("event", sa.Text),
            sa.Column("created_at", time_text),
            sa.Column("updated_at", time_text),
            sa.Column("is_deleted", sa.Integer),
            sa.Column("actor_id", sa.Text),
            sa.Column("role", sa.Text),
        )
    op.create_index("history_memory_id", "history", ["memory_id"], if_not_exists=True)
