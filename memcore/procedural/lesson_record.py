"""A lesson as a memory, and back.

Its texts stand in the memory's text, its confidence and its tags in the metadata, and what was decided about it
beside them, in the payload: so an agent finds it like any other memory, and nothing of it is lost on the way.
"""

from collections.abc import Mapping
from datetime import datetime

from pydantic import ValidationError

from memcore import ids
from memcore.backends.record import LESSON_KEY, Lineage, MemoryRecord
from memcore.models import MAX_KEY_CHARS, MemoryCategory, MemoryEntry, MemoryMetadata
from memcore.procedural.label import MAX_LABELS, SUCCESS_TAG, is_label
from memcore.procedural.lesson_text import LessonText
from memcore.procedural.proposal import ProceduralMemoryProposal
from memcore.procedural.sections import read, written
from memcore.retrieval.memory_filter import NON_INFERABLE_TAG

#: The payload's key for what was decided about a lesson; only workers write it, so a lesson without it is none of ours.
DECIDED = LESSON_KEY

_DECIDED_FIELDS = frozenset(ProceduralMemoryProposal.model_fields) - frozenset(LessonText.model_fields)


def record_of(
    proposal: ProceduralMemoryProposal,
    *,
    company: str,
    agent_id: str,
    task_id: str,
    is_success: bool,
    created_at: datetime,
) -> MemoryRecord:
    """Return the memory that agents find; the same lesson of the same task has the same id.

    Args:
        proposal: the lesson.
        company: whose agent.
        agent_id: whose memory.
        task_id: the task that taught it.
        is_success: whether that task went well.
        created_at: now.
    """
    source = f"{'success' if is_success else 'failure'}:{task_id}"[:MAX_KEY_CHARS]
    content = written(proposal)
    entry = MemoryEntry(
        id=ids.memory_id(
            company=company,
            agent_id=agent_id,
            category=MemoryCategory.PROCEDURAL,
            namespace="default",
            content=content,
            source=source,
        ),
        agent_id=agent_id,
        category=MemoryCategory.PROCEDURAL,
        content=content,
        metadata=MemoryMetadata(
            source=source,
            confidence=proposal.confidence,
            tags=(NON_INFERABLE_TAG, *((SUCCESS_TAG,) if is_success else ()), *proposal.tags),
        ),
        created_at=created_at,
    )
    decided = proposal.model_dump(mode="json", include=set(_DECIDED_FIELDS))
    return MemoryRecord(entry=entry, lineage=Lineage(task_id=task_id), extra={DECIDED: decided})


def proposal_of(record: MemoryRecord) -> ProceduralMemoryProposal | None:
    """Return the lesson that a memory holds, or None when it holds something else."""
    decided: object = record.extra.get(DECIDED)
    texts = read(record.entry.content)
    if not isinstance(decided, Mapping) or texts is None:
        return None
    metadata = record.entry.metadata
    try:
        return ProceduralMemoryProposal.model_validate(
            {
                **{name: decided[name] for name in _DECIDED_FIELDS if name in decided},
                **texts,
                "confidence": metadata.confidence,
                # Those that code gave, and what a later tag would be too many, are no part of the lesson.
                "tags": [tag for tag in metadata.tags if is_label(tag)][:MAX_LABELS],
            }
        )
    except ValidationError:
        return None
