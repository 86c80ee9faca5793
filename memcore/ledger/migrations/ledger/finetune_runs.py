"""Fine-tune runs are work items; their own table says what is particular."""

from alembic import op

from memcore.ledger.migrations.ledger.work_items import add_items, drop_columns

revision = "ledger_17"
down_revision = "ledger_21"


def upgrade() -> None:
    """Make an item of each run."""
    add_items(
        "memory.finetune.stage",
        "finetune_runs",
        "token",
        "lease_until",
        key="run_id",
        lock="'finetune'",
        queue="'memory.finetune'",
        payload={"company": "company", "version": "1", "run_id": "run_id"},
        state="CASE WHEN completed_at IS NULL THEN CASE WHEN token IS NULL THEN 'available' ELSE 'leased' END "
        "WHEN stage = 'complete' THEN 'done' WHEN stage = 'failed' THEN 'failed' ELSE 'dismissed' END",
        attempt="tries",
        reason="error",
        created_at="started_at",
        finished_at="completed_at",
        dispatch_after="CASE WHEN completed_at IS NULL THEN COALESCE(lease_until, rung_at) END",
    )
    moved = ("stage", "error", "token", "tries", "lease_until", "rung_at", "completed_at")
    drop_columns("finetune_runs", *moved, index="finetune_runs_active_once")
    op.alter_column("finetune_runs", "attempt", new_column_name="claims")
