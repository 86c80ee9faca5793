"""How a request becomes a memory when an engine stores straight into a backend, past the queue."""

from collections.abc import Callable
from datetime import datetime

from pydantic import ValidationError

from memcore import ids
from memcore.backends.owner import require_new_agent_id
from memcore.backends.record import MemoryRecord
from memcore.errors import MemoryInputError
from memcore.models import MemoryEntry, MemoryStoreRequest


def fresh_record(agent_id: str, request: MemoryStoreRequest, *, company: str, now: datetime) -> MemoryRecord:
    """Return the record of this request: its id says what it holds, so storing it twice is one memory.

    Raises MemoryInputError when the agent id is reserved or the expiry lies before now.
    """
    return _record(ids.memory_id, agent_id, request, company=company, now=now)


def fact_record(agent_id: str, request: MemoryStoreRequest, *, company: str, now: datetime) -> MemoryRecord:
    """Return the record of what an agent publishes, under the id of its fact; raises what fresh_record raises."""
    return _record(ids.fact_id, agent_id, request, company=company, now=now)


def _record(
    id_of: Callable[..., str], agent_id: str, request: MemoryStoreRequest, *, company: str, now: datetime
) -> MemoryRecord:
    memory_id = id_of(
        company=company,
        agent_id=require_new_agent_id(agent_id),
        category=request.category,
        namespace=request.namespace,
        content=request.content,
        source=request.metadata.source,
    )
    try:
        entry = MemoryEntry(
            id=memory_id,
            agent_id=agent_id,
            namespace=request.namespace,
            category=request.category,
            content=request.content,
            metadata=request.metadata,
            created_at=now,
            expires_at=request.expires_at,
        )
    except ValidationError as error:
        raise MemoryInputError.of(error) from error
    return MemoryRecord(entry=entry)
