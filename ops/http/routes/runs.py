"""Maintenance runs: list, plan, start, undo; decide about those that are held; pause and resume all."""

from typing import Annotated, Self

from fastapi import APIRouter, Query
from pydantic import Field, StrictInt, model_validator

from memcore.errors import MemoryInputError
from memcore.ledger.access.keys import Verb
from memcore.ledger.consolidation_groups import ConsolidationGroup, GroupState
from memcore.ledger.work_items import WorkState
from memcore.maintenance.consolidation.proposals import ShownGroup
from memcore.maintenance.plan import HeldPlan, MaintenancePlan
from memcore.maintenance.undo import UndoPlan
from memcore.models.base import Frozen
from memcore.models.memory import StoredKey
from memcore.service.operation import JobAccepted
from memcore.service.runs import MAX_PAGE, Release, RunEntry, RunInfo
from ops.http.access import CurrentCaller, ReadAgent
from ops.http.context import Service
from ops.http.operators import (
    ConfirmBody,
    MaintainAgent,
    MaintainedRun,
    ReadableRun,
    ReasonBody,
    SomeAgent,
    company_wide,
)

router = APIRouter(prefix="/v1", tags=["runs"])


#: The numbers of groups; left out, all of them.
Places = Annotated[
    tuple[Annotated[StrictInt, Field(ge=0, le=1_000_000)], ...] | None, Field(min_length=1, max_length=1_000)
]


class RunPage(Frozen):
    """Runs, newest first."""

    runs: tuple[RunInfo, ...]


class RunView(RunInfo):
    """A run with the ids that it moved.

    Attributes:
        undoable: whether its journal still holds all that an undo needs.
        archived: memories that it archived.
        entries: its journal, in order.
        summaries: the memories that each of its summaries was made of.
    """

    undoable: bool
    archived: int
    entries: tuple[RunEntry, ...]
    summaries: dict[str, tuple[str, ...]]


class MaintainBody(Frozen):
    """How an agent's maintenance is to run now.

    Attributes:
        allow_large: let the run merge and remove a large share of the memories; it needs ``confirm`` and ``reason``.
    """

    allow_large: bool = False
    confirmation: ConfirmBody | None = None

    @model_validator(mode="after")
    def _is_confirmed(self) -> Self:
        if self.allow_large and self.confirmation is None:
            raise MemoryInputError("confirmation", "must have confirm and reason where allow_large is true")
        return self


class Groups(Frozen):
    """The groups that a run proposes or the gate refused, with the texts of their memories."""

    run: RunInfo
    groups: tuple[ShownGroup, ...]


class ReleaseBody(ConfirmBody):
    """A confirmation of a held run's plan.

    Attributes:
        plan: the version of the plan that was read; refused where it is another one now.
    """

    plan: StoredKey | None = None


class GroupsBody(ConfirmBody):
    """A decision about groups that a run proposes.

    Attributes:
        groups: their numbers; left out, all of them.
    """

    groups: Places = None


class GroupInfo(Frozen):
    """How a group of a run stands.

    Attributes:
        group: its number in the run.
        memories: how many it merges.
    """

    group: int
    state: GroupState
    memories: int

    @classmethod
    def of(cls, group: ConsolidationGroup) -> Self:
        """Return how a group stands."""
        return cls(group=group.place, state=group.state, memories=len(group.source_ids))


class Decided(Frozen):
    """The groups of a run after a decision."""

    groups: tuple[GroupInfo, ...]


class Releases(Frozen):
    """What became of each held run."""

    runs: tuple[Release, ...]


class MaintenanceState(Frozen):
    """Whether the maintenance of the whole company is paused."""

    is_paused: bool


@router.get("/runs")
async def list_runs(
    agent_id: SomeAgent,
    service: Service,
    state: WorkState | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
) -> RunPage:
    """Return runs, newest first; a key for some agents names one of them."""
    found = await service.runs.list(agent_id=agent_id, state=state, limit=limit)
    return RunPage(runs=tuple(map(RunInfo.of, found)))


@router.post("/agents/{agent_id}/runs", status_code=202)
async def maintain(agent_id: MaintainAgent, body: MaintainBody, caller: CurrentCaller, service: Service) -> JobAccepted:
    """Run an agent's maintenance now, beside its schedule."""
    receipt = await service.runs.maintain(
        agent_id,
        allow_large=body.allow_large,
        by=caller.name if body.confirmation else None,
        reason=body.confirmation.reason if body.confirmation else None,
    )
    return JobAccepted(run_id=receipt.job_id)


@router.get("/agents/{agent_id}/runs:plan")
async def plan(agent_id: ReadAgent, service: Service, *, allow_large: bool = False) -> MaintenancePlan:
    """Return what a run would do to an agent now; nothing is written, and no model is asked.

    With ``allow_large`` as if a person had allowed a large removal.
    """
    return await service.runs.plan(agent_id, allow_large=allow_large)


@router.post("/runs:release", dependencies=[company_wide(Verb.MAINTAIN)])
async def release_all(body: ConfirmBody, caller: CurrentCaller, service: Service) -> Releases:
    """Approve what the plans of all held runs showed; those that propose groups are decided one by one."""
    return Releases(runs=await service.runs.release_all(by=caller.name, reason=body.reason))


@router.get("/runs/{run_id}")
async def get_run(run: ReadableRun, service: Service) -> RunView:
    """Return a run: its state, its counts, and the ids that it moved."""
    found = await service.runs.detail(run.run_id)
    return RunView(
        **RunInfo.of(found.run).model_dump(),
        undoable=found.undoable,
        archived=found.archived,
        entries=found.entries,
        summaries=found.summaries,
    )


@router.get("/runs/{run_id}/groups")
async def groups(run: ReadableRun, service: Service) -> Groups:
    """Return the groups that a run proposes: memories, proposed summary, the gate's figures."""
    return Groups(run=RunInfo.of(run), groups=await service.runs.groups(run.run_id))


@router.get("/runs/{run_id}/plan")
async def plan_held(run: ReadableRun, service: Service) -> HeldPlan:
    """Return what a held run would do now: which memories become which, and how many would be there."""
    return await service.runs.plan_held(run.run_id)


@router.get("/runs/{run_id}/undo")
async def plan_undo(run: ReadableRun, service: Service) -> UndoPlan:
    """Return what the undo of a run would do now; nothing is written."""
    return await service.runs.plan_undo(run.run_id)


@router.post("/runs/{run_id}/undo", status_code=202)
async def undo(run: MaintainedRun, body: ConfirmBody, caller: CurrentCaller, service: Service) -> JobAccepted:
    """Undo a run: what it removed comes back, what it made goes. An undo can be undone."""
    receipt = await service.runs.undo(run.run_id, by=caller.name, reason=body.reason)
    return JobAccepted(run_id=receipt.job_id)


@router.post("/runs/{run_id}/release")
async def release(run: MaintainedRun, body: ReleaseBody, caller: CurrentCaller, service: Service) -> Release:
    """Approve what a held run's plan showed; a run whose plan has grown since is held again."""
    return await service.runs.release(run.run_id, plan=body.plan, by=caller.name, reason=body.reason)


@router.post("/runs/{run_id}/dismiss")
async def dismiss(run: MaintainedRun, body: ConfirmBody, caller: CurrentCaller, service: Service) -> RunInfo:
    """Decide against a held run: it removes nothing more. The agent's next run looks again."""
    return RunInfo.of(await service.runs.dismiss(run.run_id, by=caller.name, reason=body.reason))


@router.post("/runs/{run_id}/groups:adopt")
async def adopt(run: MaintainedRun, body: GroupsBody, caller: CurrentCaller, service: Service) -> Decided:
    """Adopt groups that a held run proposes: a worker replaces their memories, if they are still as shown."""
    found = await service.runs.adopt(run.run_id, places=body.groups, by=caller.name, reason=body.reason)
    return Decided(groups=tuple(map(GroupInfo.of, found)))


@router.post("/runs/{run_id}/groups:dismiss")
async def dismiss_groups(run: MaintainedRun, body: GroupsBody, caller: CurrentCaller, service: Service) -> Decided:
    """Decide against groups that a held run proposes."""
    found = await service.runs.dismiss_groups(run.run_id, places=body.groups, by=caller.name, reason=body.reason)
    return Decided(groups=tuple(map(GroupInfo.of, found)))


@router.get("/maintenance", dependencies=[company_wide(Verb.READ)])
async def maintenance(service: Service) -> MaintenanceState:
    """Return whether the maintenance of the whole company is paused."""
    return MaintenanceState(is_paused=await service.runs.is_paused())


@router.post("/maintenance/pause", status_code=204, dependencies=[company_wide(Verb.MAINTAIN)])
async def pause(body: ReasonBody, caller: CurrentCaller, service: Service) -> None:
    """Stop all maintenance of the company now; storing and searching go on."""
    await service.runs.pause_all(by=caller.name, reason=body.reason)


@router.post("/maintenance/resume", status_code=204, dependencies=[company_wide(Verb.MAINTAIN)])
async def resume(body: ReasonBody, caller: CurrentCaller, service: Service) -> None:
    """Let the company's maintenance go on."""
    await service.runs.resume_all(by=caller.name, reason=body.reason)
