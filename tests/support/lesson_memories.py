"""Lessons as memories of a small company, of any age."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from memcore.procedural.records import ProceduralMemoryProposal, record_of
from memcore.records import MemoryRecord
from support.lessons import ANSWER
from support.maintenance_fixture import AGENT, COMPANY, START


def lesson_memory(
    number: int,
    *,
    days_old: float = 30.0,
    agent_id: str = AGENT,
    more_tags: Sequence[str] = (),
    is_success: bool = False,
    **changed: Any,
) -> MemoryRecord:
    """The n-th lesson of an agent, as a worker stores it; tags that people gave it later come on top."""
    proposal = ProceduralMemoryProposal.model_validate(
        {**ANSWER, "discovery": f"Import number {number} stops when the disk is full.", **changed}
    )
    record = record_of(
        proposal,
        company=COMPANY,
        agent_id=agent_id,
        task_id=f"task-{number}",
        is_success=is_success,
        created_at=START - timedelta(days=days_old),
    )
    metadata = record.entry.metadata
    tagged = metadata.model_copy(update={"tags": (*metadata.tags, *more_tags)})
    return replace(record, entry=record.entry.model_copy(update={"metadata": tagged}))
