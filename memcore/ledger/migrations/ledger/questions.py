"""Questions to models, and the parts of runs that wait for their answers, become work items."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from memcore.ledger.migrations.ledger.work_items import add_items, drop_columns

revision = "ledger_21"
down_revision = "ledger_16"

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")

#: The key of a part's item.
_KEY = "run_id || '.' || place"


def upgrade() -> None:
    """Make an item of each question and of each part; what waits waits until the same time."""
    # The process that asks now keeps its lease: the token and its end go with the row.
    add_items(
        "question",
        "answers",
        key="question_id",
        agent_id="agent_id",
        state="CASE state WHEN 'asking' THEN 'leased' WHEN 'answered' THEN 'done' ELSE 'failed' END",
        token="token",  # noqa: S106  # a column
        reason="reason",
        lease_until="lease_until",
        created_at="asked_at",
        started_at="asked_at",
        finished_at="answered_at",
    )
    drop_columns("answers", "agent_id", "state", "reason", "token", "lease_until", "answered_at")
    add_items(
        "memory.synthesis.ask",
        "syntheses",
        key=_KEY,
        agent_id="agent_id",
        queue="'memory.synthesis'",
        payload={name: name for name in ("company", "agent_id", "run_id", "place")} | {"version": "1"},
        state="CASE WHEN state IN ('ready', 'done') THEN 'done' WHEN state = 'refused' THEN 'failed' "
        "WHEN reason IS NULL THEN 'available' ELSE 'waiting' END",
        reason="reason",
        created_at="CURRENT_TIMESTAMP",
        finished_at="CASE WHEN state <> 'wanted' THEN CURRENT_TIMESTAMP END",
        dispatch_after="CASE WHEN state = 'wanted' THEN COALESCE(ring_at, CURRENT_TIMESTAMP) END",
    )
    _key_by_part()


def _key_by_part() -> None:
    # By way of a copy: the name of a key's index stays when its table is renamed.
    op.execute("CREATE TABLE old_syntheses AS SELECT * FROM syntheses")
    op.drop_table("syntheses")
    op.create_table(
        "syntheses",
        sa.Column("company", sa.String, primary_key=True),
        sa.Column("part_id", sa.String, primary_key=True),
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("agent_id", sa.String, nullable=False),
        sa.Column("category", sa.String, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("source_ids", _JSON, nullable=False),
        sa.Column("kept_id", sa.String),
        sa.Column("replaced_at", sa.DateTime(timezone=True)),
    )
    op.create_index("syntheses_of_run", "syntheses", ["company", "run_id"])
    same = "company, run_id, agent_id, category, place, source_ids, kept_id"
    op.execute(
        f"INSERT INTO syntheses ({same}, part_id, replaced_at) "  # noqa: S608  # our own names
        f"SELECT {same}, {_KEY}, CASE WHEN state = 'done' THEN CURRENT_TIMESTAMP END FROM old_syntheses"
    )
    op.drop_table("old_syntheses")
