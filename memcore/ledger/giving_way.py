"""Giving way: a night that waits makes room for a run that somebody asked for, and the next night does its work."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, update

from memcore.ledger.insert import insert_new
from memcore.ledger.ledger_tables import ACTIVE, runs
from memcore.ledger.run import RunState


def take_place(connection: Connection, row: dict[str, Any], *, now: datetime) -> bool:
    """Skip the agent's night if it was given back and waits, and insert this run instead; or change nothing.

    A run that merely waits for a worker has no reason, and is never displaced; nor is one that a worker holds.
    """
    waits = (
        (runs.c.company == row["company"])
        & (runs.c.agent_id == row["agent_id"])
        & (runs.c.kind == "maintenance")
        & ACTIVE
        & (runs.c.state == RunState.QUEUED)
        & runs.c.reason.is_not(None)
    )
    skipped = {
        "state": RunState.SKIPPED.value,
        "reason": f"gave way to {row['kind']}; the next night goes on",
        "finished_at": now,
        "wake_at": None,
    }
    # The run's id or its slot may be taken: then the night must not have been displaced for nothing.
    with connection.begin_nested() as both:
        if connection.execute(update(runs).where(waits).values(**skipped)).rowcount:
            if insert_new(connection, runs, [row], key="run_id"):
                return True
            both.rollback()
    return False
