"""A lesson for another agent: the same text, under an id of its own, and a tag that says where it comes from."""

import hashlib

from memcore import ids
from memcore.backends.record import MemoryRecord
from memcore.models import MAX_KEY_CHARS, MemoryEntry, MemoryMetadata
from memcore.procedural.label import SUCCESS_TAG
from memcore.procedural.lesson_record import DECIDED, proposal_of
from memcore.procedural.scope import ProceduralMemoryScope
from memcore.retrieval.memory_filter import NON_INFERABLE_TAG

#: What the tag of a lesson begins with that an agent has from another one.
PROPAGATED_TAG = "propagated:"

#: Characters of the hash that stands for the end of an agent's id too long for a tag.
_HASH_CHARS = 16


def propagated_tag(agent_id: str) -> str:
    """Return the tag that names the agent whose lesson it was; a very long id is cut and ends with a hash."""
    tag = f"{PROPAGATED_TAG}{agent_id}"
    if len(tag) <= MAX_KEY_CHARS:
        return tag
    digest = hashlib.sha256(agent_id.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    return f"{tag[: MAX_KEY_CHARS - _HASH_CHARS - 1]}~{digest}"


def is_copy(record: MemoryRecord) -> bool:
    """Tell whether an agent has this lesson from another one; such a lesson is never passed on."""
    return any(tag.startswith(PROPAGATED_TAG) for tag in record.entry.metadata.tags)


def copy_of(record: MemoryRecord, *, company: str, target: str, scope: ProceduralMemoryScope) -> MemoryRecord | None:
    """Return the lesson as the memory of another agent, as old as it is; None for what must not be passed on.

    Not passed on are copies, lessons in whose place another one stands, and what is no lesson. What people made of it
    where it was drawn, such as a pin, stays behind, and so does how often it was applied there.

    Args:
        record: the lesson, as its own agent has it.
        company: whose agents.
        target: who gets it; the same lesson has the same id there each time.
        scope: how far it reaches.
    """
    lesson = proposal_of(record)
    if lesson is None or lesson.superseded_by is not None or is_copy(record):
        return None
    entry, tags = record.entry, record.entry.metadata.tags
    kept = [tag for tag in (NON_INFERABLE_TAG, SUCCESS_TAG) if tag in tags]
    decided = record.extra[DECIDED]
    return MemoryRecord(
        entry=MemoryEntry(
            id=ids.memory_id(
                company=company,
                agent_id=target,
                category=entry.category,
                namespace=entry.namespace,
                content=entry.content,
                source=entry.metadata.source,
            ),
            agent_id=target,
            category=entry.category,
            namespace=entry.namespace,
            content=entry.content,
            metadata=MemoryMetadata(
                source=entry.metadata.source,
                confidence=lesson.confidence,
                tags=(*kept, *lesson.tags, propagated_tag(entry.agent_id)),
            ),
            created_at=entry.created_at,
        ),
        extra={DECIDED: {**decided, "scope": str(scope), "application_count": 0, "last_applied_at": None}},
    )
