"""Runs to and from their rows."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from memcore.ledger.run import NewRun, Run, RunState, RunStep

_FIRST_STEPS = {
    "maintenance": RunStep.RETENTION,
    "undo": RunStep.UNDO,
    "restore": RunStep.RESTORE,
    "remove": RunStep.REMOVE,
}


def new_row(run: NewRun, *, now: datetime) -> dict[str, Any]:
    """Return the row of a run that is about to be queued."""
    return {
        **run.model_dump(),
        "state": RunState.QUEUED.value,
        "step": _FIRST_STEPS.get(run.kind, RunStep.END).value,
        "attempt": 0,
        "counts": {},
        "created_at": now,
        "rung_at": now,
    }


def run_of(row: Mapping[Any, Any]) -> Run:
    """Return the run of a row; when it is rung for is the sweep's own business."""
    return Run.model_validate({key: value for key, value in row.items() if key != "rung_at"})
