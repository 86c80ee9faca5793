"""A compressed experience as a memory, and back: an episodic one whose text is JSON that agents and people can read."""

import json

from pydantic import ValidationError

from memcore.backends.record import Lineage, MemoryRecord
from memcore.experience_models import COMPRESSED_TAG, CompressedExperience
from memcore.models import MemoryCategory, MemoryEntry

#: What stands in the text; the rest stands in the entry's own fields.
_TOLD = (
    "strategic_decisions",
    "applicable_contexts",
    "source_artifact_ids",
    "compression_ratio",
    "compressor_version",
)


def record_of(experience: CompressedExperience, *, task_id: str | None = None) -> MemoryRecord:
    """Return the memory that agents find.

    Args:
        experience: what was learned.
        task_id: the task that it comes from, if any.
    """
    told = experience.model_dump(mode="json", include=set(_TOLD))
    entry = MemoryEntry(
        id=experience.id,
        agent_id=experience.agent_id,
        category=MemoryCategory.EPISODIC,
        content=json.dumps({key: told[key] for key in _TOLD}, ensure_ascii=False),
        metadata=experience.metadata,
        created_at=experience.created_at,
    )
    return MemoryRecord(entry=entry, lineage=Lineage(task_id=task_id))


def experience_of(entry: MemoryEntry) -> CompressedExperience | None:
    """Return the compressed experience that a memory holds, or None when it holds something else."""
    if COMPRESSED_TAG not in entry.metadata.tags:
        return None
    try:
        told = json.loads(entry.content)
        return CompressedExperience.model_validate(
            {
                **{key: told[key] for key in _TOLD},
                "id": entry.id,
                "agent_id": entry.agent_id,
                "metadata": entry.metadata,
                "created_at": entry.created_at,
            }
        )
    except (ValueError, TypeError, KeyError, RecursionError, ValidationError):
        # Any agent may put this tag on a memory of its own.
        return None
