"""What the operators' routes share: who may, who confirms what, and what is shown of runs and checkpoints."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Self

from fastapi import Depends, Path, Query
from pydantic import AfterValidator

from memcore.finetune.preflight import PreflightCheck, PreflightResult
from memcore.finetune.sizing import Sizes
from memcore.ledger.access.keys import Verb
from memcore.ledger.collections import Checkpoint, CollectionPointer, CollectionUse, Verdict
from memcore.ledger.finetune_runs import FineTuneRun
from memcore.ledger.organization.audit import Confirmation, Confirmed
from memcore.ledger.runs import Run
from memcore.models.approval import Name as PersonName
from memcore.models.approval import Reason
from memcore.models.base import Frozen
from memcore.models.finetune import FineTuneStage
from memcore.models.memory import MAX_KEY_CHARS, BoundedTime
from memcore.service.operation import said
from memcore.service.runs import found_run
from ops.http.access import NO_KEY, Caller, CurrentCaller, agent_for
from ops.http.context import Service

#: An id in a path, and a name or an id in a query.
PathId = Annotated[str, Path(min_length=1, max_length=MAX_KEY_CHARS), AfterValidator(said)]
Named = Annotated[str, Query(min_length=1, max_length=MAX_KEY_CHARS), AfterValidator(said)]


def company_wide(verb: Verb) -> Any:
    """Return a dependency that refuses a key that is not for a verb of all agents, before the body is looked at."""

    async def check(caller: CurrentCaller) -> None:
        caller.require(verb)

    return Depends(check)


def named_agent(verb: Verb) -> Callable[..., Awaitable[str | None]]:
    """Return a dependency that gives a route the agent of its query, if any, once the caller may do this with it."""

    async def agent_of_query(caller: CurrentCaller, agent_id: Named | None = None) -> str | None:
        caller.require(verb, agent_id=agent_id)
        return agent_id

    return agent_of_query


#: The agent that a list is narrowed to; a key for some agents names one of them.
SomeAgent = Annotated[str | None, Depends(named_agent(Verb.READ))]

#: The agent of a route that changes its settings, and of one that changes its maintenance.
AdminAgent = Annotated[str, Depends(agent_for(Verb.ADMIN))]
MaintainAgent = Annotated[str, Depends(agent_for(Verb.MAINTAIN))]


def run_for(verb: Verb) -> Callable[..., Awaitable[Run]]:
    """Return a dependency that gives a route the run of its path, once the caller may do this with its agent."""

    async def run_of_path(run_id: PathId, caller: CurrentCaller, service: Service) -> Run:
        run = await service.runs.get(run_id)
        # As if there were none: a key learns nothing of other agents.
        found_run(run if caller.sees(run.agent_id) else None)
        caller.require(verb, agent_id=run.agent_id)
        return run

    return run_of_path


#: The run of a route that reads it, and of one that decides about it.
ReadableRun = Annotated[Run, Depends(run_for(Verb.READ))]
MaintainedRun = Annotated[Run, Depends(run_for(Verb.MAINTAIN))]


class ReasonBody(Frozen):
    """Why somebody asks for it; the audit keeps it with the name of the key."""

    reason: Reason


class ConfirmBody(ReasonBody):
    """A confirmation of what cannot simply be undone.

    Attributes:
        confirm: true, and nothing like it.
    """

    confirm: Confirmed

    def confirmation(self, caller: Caller) -> Confirmation:
        """Return the confirmation of a caller; its actor is the name of the key."""
        return Confirmation(actor=caller.name, confirm=self.confirm, reason=self.reason)


class AdminBody(ConfirmBody):
    """A confirmation as the reference sends it.

    Attributes:
        actor: who confirms, where the installation asks for no keys; else the name of the key counts.
    """

    actor: PersonName | None = None

    def confirmation(self, caller: Caller) -> Confirmation:
        """Return the confirmation of a caller."""
        actor = self.actor if caller.key_id == NO_KEY and self.actor is not None else caller.name
        return Confirmation(actor=actor, confirm=self.confirm, reason=self.reason)


class DeployBody(AdminBody):
    """A confirmation of a deployment.

    Attributes:
        force: also a checkpoint that the gate rejected.
    """

    force: bool = False


class FineTuneRunView(Frozen):
    """A fine-tune run: without the machine and the lease of its worker.

    Attributes:
        progress: of the stage in work, 0 to 1; None while none is reported.
        error: why it failed, or was cancelled.
        waits_for_a_worker: whether no worker has claimed it.
        plan: what it is to do.
    """

    run_id: str
    stage: FineTuneStage
    progress: float | None
    error: str | None
    stages_completed: tuple[FineTuneStage, ...]
    waits_for_a_worker: bool
    cancel_requested_at: BoundedTime | None
    started_at: BoundedTime
    updated_at: BoundedTime
    completed_at: BoundedTime | None
    duration_seconds: float | None
    plan: dict[str, Any]

    @classmethod
    def of(cls, run: FineTuneRun) -> Self:
        """Return what is shown of a run."""
        made = {
            "error": run.reason,
            "waits_for_a_worker": not run.stage.is_end and run.token is None,
            "completed_at": run.finished_at,
            "duration_seconds": None if run.duration is None else run.duration.total_seconds(),
        }
        return cls(**{name: getattr(run, name) for name in cls.model_fields if name not in made}, **made)


class FineTuneRuns(Frozen):
    """A page of runs, newest first, and how many there are in all."""

    items: tuple[FineTuneRunView, ...]
    total: int


class CheckpointView(Frozen):
    """A checkpoint: without its place on a disk.

    Attributes:
        verdict: what the gate says of it.
        reason: why.
        report: the gate's figures, without texts.
        use: whether it serves, is being filled, or is kept for going back.
    """

    checkpoint_id: str
    run_id: str
    kind: str
    base_model: str
    dims: int
    sha256: str
    size_bytes: int
    doc_count: int
    report: dict[str, Any]
    verdict: Verdict
    reason: str
    created_at: BoundedTime
    use: CollectionUse | None

    @classmethod
    def of(cls, checkpoint: Checkpoint, pointer: CollectionPointer | None = None) -> Self:
        """Return what is shown of a checkpoint."""
        shown = {name: getattr(checkpoint, name) for name in cls.model_fields if name != "use"}
        return cls(**shown, use=None if pointer is None else pointer.use_of(checkpoint))


class Checkpoints(Frozen):
    """A page of checkpoints, newest first, and how many there are in all."""

    items: tuple[CheckpointView, ...]
    total: int


class ServingView(Frozen):
    """What serves a company, and what is being filled or kept.

    Attributes:
        current: the collection that is searched; ``current_checkpoint_id`` is of the checkpoint that filled it.
        target: the collection that is being filled to become the current one.
        previous: the collection that is kept for going back.
        phase: how far the switch is; None where none is under way.
    """

    version: int
    current: str
    current_checkpoint_id: str | None
    target: str | None
    target_checkpoint_id: str | None
    previous: str | None
    phase: str | None

    @classmethod
    def of(cls, pointer: CollectionPointer) -> Self:
        """Return what is shown of a pointer."""
        target, previous = pointer.target, pointer.previous
        return cls(
            version=pointer.version,
            current=pointer.current.name,
            current_checkpoint_id=pointer.current.checkpoint_id,
            target=None if target is None else target.name,
            target_checkpoint_id=None if target is None else target.checkpoint_id,
            previous=None if previous is None else previous.name,
            phase=None if pointer.phase is None else str(pointer.phase),
        )


class Cancelled(Frozen):
    """The run that was cancelled; None when none was active."""

    cancelled_run_id: str | None


class PreflightView(Frozen):
    """All checks of a plan, and what a measured step promises.

    Attributes:
        can_proceed: whether no check failed.
    """

    checks: tuple[PreflightCheck, ...]
    recommended_batch_size: int | None
    estimates: tuple[Sizes, ...]
    can_proceed: bool

    @classmethod
    def of(cls, result: PreflightResult) -> Self:
        """Return what is shown of a preflight."""
        return cls(**{name: getattr(result, name) for name in cls.model_fields})
