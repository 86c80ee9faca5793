"""Reindexes are work items; their own table says what is particular."""

from memcore.ledger.migrations.ledger.work_items import add_items, drop_columns

revision = "ledger_16"
down_revision = "ledger_20"


def upgrade() -> None:
    """Make an item of each company's reindex."""
    add_items(
        "memory.reindex.run",
        "reindexes",
        "token",
        "lease_until",
        "finished_at",
        key="reindex_id",
        lock="'reindex'",
        queue="'memory.reindex'",
        payload={"company": "company", "version": "1"},
        state="CASE WHEN finished_at IS NULL THEN CASE WHEN token IS NULL THEN 'available' ELSE 'leased' END "
        "WHEN stage = 'cancelled' THEN 'dismissed' ELSE 'done' END",
        reason="trouble",
        created_at="started_at",
        dispatch_after="CASE WHEN finished_at IS NULL THEN COALESCE(lease_until, rung_at) END",
    )
    drop_columns("reindexes", "token", "lease_until", "rung_at", "finished_at", "trouble")
