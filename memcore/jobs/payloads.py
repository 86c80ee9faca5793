"""What travels in a job: versioned, validated, JSON only.

A newer worker reads older versions; an older worker puts a newer version back (SPEC Q3).
"""

from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from memcore.clock import BoundedTime
from memcore.frozen import Frozen, NotBlankStr
from memcore.jobs.payload import Payload
from memcore.models import AgentId, Key, MemoryStoreRequest, StoredKey

#: The newest version of payloads that this code knows; each newer one also reads the older. A payload carries the
#: least version whose workers understand it, so that they need not wait for newer ones; version 2 brings restores,
#: version 3 plans of fine-tune runs and the removal of single memories.
VERSION = 3

#: Most memories in one store job; a longer list is cut into several jobs.
MAX_STORE_ITEMS = 256

#: Largest store job on the wire, in bytes (1 MiB): the broker keeps it in memory until it is acknowledged.
MAX_PAYLOAD_BYTES = 1_048_576

#: Largest message that a worker reads, in bytes (8 MiB): JSON inside JSON inside Base64 makes of a payload of 1 MiB at
#: most 4 MiB. A larger one comes from no client of ours; it is kept as a dead letter, cut.
MAX_MESSAGE_BYTES = 8_388_608


class _Envelope(BaseModel):
    model_config = ConfigDict(extra="ignore")
    version: int = 1


def is_newer(payload: str) -> bool:
    """Tell whether a payload was written by newer code than this, so that it must wait for a newer worker."""
    try:
        return _Envelope.model_validate_json(payload).version > VERSION
    except ValidationError:
        return False


def _least_version(fields: dict[str, Any]) -> Literal[1, 2, 3]:
    match fields.get("kind"):
        case "restore":
            return 2
        case "remove":
            return 3
        case _:
            return 1


class StoreItem(Frozen):
    """One memory of a store job.

    Attributes:
        id: deterministic (memcore.ids.memory_id), so that a redelivered message writes nothing new.
        agent_id: the agent whose memory this is.
        request: the memory as the caller gave it.
        created_at: when the memory was made; an import may carry an old time.
        sent_at: when the client sent it; a removal after this time wins over a late redelivery.
        session_id: the session that ends a session-level memory.
        project_id: the project that ends a project-level memory.
        task_id: the task that ends a working memory.
    """

    id: NotBlankStr
    agent_id: AgentId
    request: MemoryStoreRequest
    created_at: BoundedTime
    sent_at: BoundedTime
    session_id: Key | None = None
    project_id: Key | None = None
    task_id: Key | None = None

    @model_validator(mode="after")
    def _ordered_times(self) -> Self:
        if self.request.expires_at is not None and self.request.expires_at < self.created_at:
            raise ValueError("expires_at: lies before created_at")
        return self


class StorePayload(Payload):
    """Memories to write, of any agents of one company.

    Attributes:
        version: the version of this payload.
        items: the memories.
    """

    version: Literal[1] = 1
    items: tuple[StoreItem, ...] = Field(min_length=1, max_length=MAX_STORE_ITEMS)


class MaintenancePayload(Payload):
    """One run: maintenance, an undo, the end of a session, project or task, a return from the archive, or a removal.

    Attributes:
        agent_id: the agent whose memories the run may change.
        run_id: the row of the run; the row is the truth.
        kind: what the run does.
        version: 2 for a restore, 3 for a removal, which older workers put back; 1 for everything else.
        origin: who asked for the run.
        planned_at: the slot for which the run was planned; of an end, the time of the request, and later memories stay.
        undo_of: the run to undo, for kind "undo".
        allow_large: whether a person has approved a run that the removal guard stopped.
        scope_id: the session, project or task that ends, the archived memory that returns, or the memory that is
            removed.
    """

    agent_id: StoredKey
    run_id: NotBlankStr
    kind: Literal["maintenance", "undo", "end_session", "end_project", "end_task", "restore", "remove"] = "maintenance"
    version: Literal[1, 2, 3] = Field(default_factory=_least_version)
    origin: Literal["scheduled", "manual", "engine"] = "scheduled"
    planned_at: BoundedTime
    undo_of: NotBlankStr | None = None
    allow_large: bool = False
    scope_id: StoredKey | None = None
