"""Maintenance runs: list, plan, start, undo; decide about those that are held; pause and resume all."""

from typing import Self

from pydantic import model_validator

from memcore.errors import MemoryInputError
from memcore.ledger.access.keys import Verb
from memcore.maintenance.consolidation.proposals import ShownGroup
from memcore.maintenance.plan import HeldPlan, MaintenancePlan
from memcore.maintenance.undo import UndoPlan
from memcore.models.base import Frozen
from memcore.service.operation import JobAccepted
from memcore.service.runs import Release, RunInfo, RunOperations
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.http.declared import router_of
from ops.http.operators import (
    ConfirmBody,
    MaintainAgent,
    ReadableRun,
    company_wide,
    run_for,
)

_PLANS = {each.__name__: each for each in (HeldPlan, MaintenancePlan, UndoPlan)}

router = router_of("runs", RunOperations, named={"run_id": run_for}, types=_PLANS)


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


class Releases(Frozen):
    """What became of each held run."""

    runs: tuple[Release, ...]


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


@router.post("/runs:release", dependencies=[company_wide(Verb.MAINTAIN)])
async def release_all(body: ConfirmBody, caller: CurrentCaller, service: Service) -> Releases:
    """Approve what the plans of all held runs showed; those that propose groups are decided one by one."""
    return Releases(runs=await service.runs.release_all(by=caller.name, reason=body.reason))


@router.get("/runs/{run_id}/groups")
async def groups(run: ReadableRun, service: Service) -> Groups:
    """Return the groups that a run proposes: memories, proposed summary, the gate's figures."""
    return Groups(run=RunInfo.of(run), groups=await service.runs.groups(run.run_id))
