"""Lessons become work items."""

from memcore.ledger.migrations.ledger.work_items import add_items, drop_columns

revision = "ledger_13"
down_revision = "ledger_12"


def upgrade() -> None:
    """Make an item of each lesson; one that slept waits until the same time."""
    add_items(
        "memory.lessons.draw",
        "lessons",
        key="lesson_id",
        agent_id="agent_id",
        queue="'memory.synthesis'",
        payload={"company": "company", "version": "1", "agent_id": "agent_id", "lesson_id": "lesson_id"},
        state="CASE WHEN outcome IS NOT NULL THEN 'done' WHEN tries > 0 THEN 'waiting' ELSE 'available' END",
        attempt="tries",
        created_at="created_at",
        finished_at="drawn_at",
        dispatch_after="CASE WHEN outcome IS NULL THEN rung_at END",
    )
    drop_columns("lessons", "rung_at", "tries", index="lessons_waiting")
