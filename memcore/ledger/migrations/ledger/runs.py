"""Runs are work items; what is particular to them stays in their table."""

from alembic import op

from memcore.ledger.migrations.ledger.work_items import insert_of_items, is_sqlite, time_of

revision = "ledger_20"
down_revision = "ledger_13"

#: What the items hold now.
MOVED = ("state", "attempt", "token", "lease_until", "reason", "rung_at", "wake_at", "started_at", "finished_at")


def insert_of_runs(table: str) -> str:
    """Return the SQL that inserts the item of each run of a table with the columns of then."""
    return insert_of_items(
        "memory.maintenance.run",
        table,
        key="run_id",
        queue="'memory.maintenance'",
        payload={
            "company": "company",
            "version": "CASE kind WHEN 'restore' THEN 2 WHEN 'remove' THEN 3 ELSE 1 END",
            "agent_id": "agent_id",
            "run_id": "run_id",
            "kind": "kind",
            "origin": "origin",
            "planned_at": time_of("planned_at"),
            "undo_of": "undo_of",
            "allow_large": "allow_large",
            "scope_id": "scope_id",
        },
        agent_id="agent_id",
        lock="'agent:' || agent_id",
        state="CASE WHEN state = 'queued' AND wake_at IS NOT NULL THEN 'waiting' WHEN state = 'queued' THEN 'available'"
        " WHEN state = 'running' THEN 'leased' ELSE state END",
        attempt="attempt",
        token="token",  # noqa: S106  # a column's name
        reason="reason",
        lease_until="lease_until",
        dispatch_after="CASE state WHEN 'running' THEN lease_until WHEN 'queued' THEN coalesce(wake_at, rung_at) END",
        created_at="created_at",
        started_at="started_at",
        finished_at="finished_at",
    )


def upgrade() -> None:
    """Make an item of each run."""
    op.execute(insert_of_runs("runs"))
    op.drop_index("runs_active_once", "runs")
    # SQLite drops a constraint only with its table.
    with op.batch_alter_table("runs", recreate="always" if is_sqlite() else "never") as runs:
        runs.drop_constraint("runs_planned_once", type_="unique")
        for column in MOVED:
            runs.drop_column(column)
