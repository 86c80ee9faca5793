"""Operator tools of work that waits for a person: maintenance runs, approvals, dead letters, distrust."""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from memcore.ledger.organization.audit import Confirmation
from memcore.ledger.work_items import WorkState
from memcore.models.base import ValidatedModel
from memcore.models.memory import AgentId, Key
from memcore.service.approvals import ApprovalOperations
from memcore.service.dead_letters import DeadLetterOperations
from memcore.service.distrusts import DistrustOperations
from memcore.service.runs import RunInfo, RunOperations
from ops.mcp.declared import tools_of
from ops.mcp.operator_tools import Done, Facts, ToolList

if TYPE_CHECKING:
    from memcore.service import MemoryService

#: Most rows of a list, how many there are when the caller does not say, and most jobs of a replay.
_MAX_ROWS, _ROWS, _MAX_JOBS = 100, 20, 100

#: Groups of a held run's plan that are shown.
_GROUPS = 10


_DECLARED = (
    ("runs", RunOperations),
    ("approvals", ApprovalOperations),
    ("dead_letters", DeadLetterOperations),
    ("distrusts", DistrustOperations),
)

TOOLS = ToolList(tool for part, kind in _DECLARED for tool in tools_of(part, kind))

_Limit = Annotated[int, Field(ge=1, le=_MAX_ROWS, description="Most rows, newest first.")]


class RunsArguments(ValidatedModel):
    """Which maintenance runs."""

    agent_id: AgentId | None = Field(default=None, description="Only this agent's.")
    state: WorkState | None = Field(default=None, description="Only those of this state; held ones wait for a person.")
    limit: _Limit = _ROWS


class RunArguments(ValidatedModel):
    """Names a maintenance run."""

    run_id: Key = Field(description="A run's id, from list_maintenance_runs.")


class PlanArguments(ValidatedModel):
    """Names an agent."""

    agent_id: AgentId = Field(description="The agent whose maintenance is planned.")


class ReplayArguments(ValidatedModel):
    """Names jobs that were given up."""

    job_ids: tuple[Key, ...] = Field(min_length=1, max_length=_MAX_JOBS, description="Ids from list_dead_letters.")


@TOOLS.plain("read")
async def list_maintenance_runs(service: "MemoryService", asked: RunsArguments) -> Facts:
    """List runs over agents' memories (maintenance, undo, restore, remove), newest first."""
    found = await service.runs.list(agent_id=asked.agent_id, state=asked.state, limit=asked.limit)
    return {"items": [RunInfo.of(run).model_dump(mode="json") for run in found]}


@TOOLS.plain("read")
async def show_maintenance_run(service: "MemoryService", asked: RunArguments) -> Facts:
    """Show a run: its state, its counts, the ids that it moved; of a held run its plan."""
    detail = await service.runs.detail(asked.run_id)
    entries = [entry.model_dump(mode="json") for entry in detail.entries]
    run = RunInfo.of(detail.run).model_dump(mode="json")
    facts: dict[str, Any] = {"run": run, "undoable": detail.undoable, "archived": detail.archived}
    if (held := await service.runs.plan_to_release(detail.run)) is not None:
        shown = held.model_dump(mode="json")
        facts["plan"] = {**shown, "merges": shown["merges"][:_GROUPS], "merges_in_all": len(held.merges)}
    # The entries come last and are shortened first: a run may have moved thousands of memories.
    return {**facts, "items": entries}


@TOOLS.plain("read")
async def plan_maintenance(service: "MemoryService", asked: PlanArguments) -> Facts:
    """Show what a maintenance run would do to an agent now; nothing is written."""
    return (await service.runs.plan(asked.agent_id)).model_dump(mode="json")


@TOOLS.destructive("maintain", is_idempotent=True)
async def undo_maintenance_run(service: "MemoryService", asked: RunArguments, confirmation: Confirmation) -> Done:
    """Undo a run: what it removed returns, what it made goes. An undo can be undone."""
    receipt = await service.runs.undo(asked.run_id, by=confirmation.actor, reason=confirmation.reason)
    return Done(facts={"undo_run_id": receipt.job_id}, target_id=asked.run_id)


@TOOLS.destructive("admin")
async def replay_dead_letters(service: "MemoryService", asked: ReplayArguments, confirmation: Confirmation) -> Done:
    """Send given-up jobs again under their ids, once the cause is fixed."""
    sent = await service.dead_letters.replay(asked.job_ids, by=confirmation.actor, reason=confirmation.reason)
    return Done(facts={"replayed": sent}, target_id=", ".join(asked.job_ids) if sent else None)
