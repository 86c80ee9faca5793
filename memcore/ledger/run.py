"""One run: a night, an undo, the end of a session, project or task, a return from the archive, or a removal."""

from datetime import UTC
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from memcore import ids
from memcore.clock import BoundedTime
from memcore.errors import MemoryInputError
from memcore.frozen import Frozen, NotBlankStr
from memcore.models import Key, StoredKey
from memcore.validated import ValidatedModel

RunKind = Literal["maintenance", "undo", "end_session", "end_project", "end_task", "restore", "remove"]
EndKind = Literal["end_session", "end_project", "end_task"]

#: The kinds that end something.
END_KINDS: tuple[EndKind, ...] = ("end_session", "end_project", "end_task")

#: The kinds that somebody asks for once, of one thing: they wait for as long as another run is under way.
SCOPED_KINDS: tuple[RunKind, ...] = (*END_KINDS, "restore", "remove")

#: Who asked for a run: the schedule, a person, or an engine that deleted a memory.
RunOrigin = Literal["scheduled", "manual", "engine"]


class RunState(StrEnum):
    """Where a run is.

    ::

        queued --claim--> running --finish--> done | skipped | failed
          ^                 |  |
          +---give_back-----+  +--finish--> held --release--> queued

    A night that was given back also goes from queued to skipped: it gives way to a run of another kind.
    """

    QUEUED = "queued"
    RUNNING = "running"
    HELD = "held"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


class RunStep(StrEnum):
    """What a run does next."""

    RETENTION = "retention"
    CONSOLIDATION = "consolidation"
    ENFORCEMENT = "enforcement"
    UNDO = "undo"
    END = "end"
    RESTORE = "restore"
    REMOVE = "remove"
    FINISHED = "finished"


def _run_id(fields: dict[str, Any]) -> str:
    # In UTC, so that one instant written in two zones is one run.
    planned_at = fields["planned_at"].astimezone(UTC).isoformat()
    return ids.run_id(company=fields["company"], agent_id=fields["agent_id"], job=fields["kind"], planned_at=planned_at)


class NewRun(ValidatedModel):
    """A run to create.

    Attributes:
        planned_at: the slot, or the time a person asked.
        undo_of: the run to undo; needed for kind "undo", refused otherwise.
        allow_large: a person has released the brake.
        scope_id: the session, project or task that ends, the archived memory that returns, or the memory that goes;
            needed for these kinds, refused otherwise.
        run_id: left out, it is made from company, agent, kind and slot (memcore.ids.run_id).

    Raises:
        MemoryInputError: a value breaks its limit; the message names the field.
    """

    company: Key
    agent_id: StoredKey
    kind: RunKind = "maintenance"
    origin: RunOrigin = "scheduled"
    planned_at: BoundedTime
    undo_of: NotBlankStr | None = None
    allow_large: bool = False
    scope_id: StoredKey | None = None
    run_id: NotBlankStr = Field(default_factory=_run_id)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.kind == "undo") != (self.undo_of is not None):
            raise MemoryInputError("undo_of", "names the run to undo for kind undo, and only then")
        if (self.kind in SCOPED_KINDS) != (self.scope_id is not None):
            raise MemoryInputError(
                "scope_id", "names what ends, returns or goes for the kinds that need it, and only then"
            )
        return self


class Run(Frozen):
    """A run's row.

    Attributes:
        step: what it does next; what lies before is done and saved.
        attempt: how often it was claimed, without the claims that were given back.
        token: the fencing token of the worker that holds it; None when nobody does.
        lease_until: when another worker may take it over.
        counts: small figures per step.
        reason: why it is held, skipped, failed or queued again.
        wake_at: until when it sleeps, queued; None when it does not.
    """

    run_id: str
    company: str
    agent_id: str
    kind: RunKind
    origin: RunOrigin
    state: RunState
    step: RunStep
    planned_at: BoundedTime
    undo_of: str | None = None
    allow_large: bool = False
    attempt: int = 0
    token: str | None = None
    lease_until: BoundedTime | None = None
    counts: dict[str, int] = Field(default_factory=dict)
    reason: str | None = None
    created_at: BoundedTime
    started_at: BoundedTime | None = None
    finished_at: BoundedTime | None = None
    scope_id: str | None = None
    wake_at: BoundedTime | None = None

    @property
    def gives_way(self) -> bool:
        """Whether it is a night that was given back and waits, and so makes room for a run of another kind."""
        return self.kind == "maintenance" and self.state is RunState.QUEUED and self.reason is not None
