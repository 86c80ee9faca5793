"""Fleet: every agent with its schedule, its last run and its memories; pause, resume, run now."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.ledger.access.keys import Verb
from memcore.ledger.agents import LATE, Agent
from memcore.ledger.runs import Run
from memcore.ledger.work_items import WorkState
from memcore.models.memory import ConsolidationInterval
from ops.http.access import CurrentCaller
from ops.http.context import CompanyService, Service
from ops.web.agents import seen_by
from ops.web.forms import Form
from ops.web.pages import back_to, page

router = APIRouter()

#: Agents of a page.
PAGE = 50

_FAR = datetime.max.replace(tzinfo=UTC)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)

#: How agents can be sorted.
Sort = Literal["agent", "next", "last"]

#: Which agents are shown.
Shown = Literal["all", "held", "late", "paused"]

_ORDERS: dict[Sort, Callable[[Agent], Any]] = {
    "agent": lambda agent: agent.agent_id,
    "next": lambda agent: (agent.next_due_at or _FAR, agent.agent_id),
    "last": lambda agent: (agent.last_run_at or _LONG_AGO, agent.agent_id),
}


class Row(NamedTuple):
    """An agent as the page shows it.

    Attributes:
        held: the run of the agent that waits for a person.
        last: its newest run.
        memories: None where the store does not answer.
    """

    agent: Agent
    interval: ConsolidationInterval
    is_late: bool
    held: Run | None
    last: Run | None
    memories: int | None


@router.get("/fleet")
async def fleet(
    request: Request,
    caller: CurrentCaller,
    service: Service,
    q: Annotated[str, Query(max_length=200)] = "",
    sort: Sort = "agent",
    show: Shown = "all",
    at: Annotated[int, Query(ge=1, le=100_000)] = 1,
    *,
    down: bool = False,
) -> Response:
    """Show the agents that the key is for."""
    agents = await seen_by(caller, service)
    held = await _held(service, agents)
    now, usual = service.clock(), service.policy.memory.consolidation.interval
    late = {each.agent_id for each in agents if _is_late(each, each.interval or usual, now)}
    paused = {each.agent_id for each in agents if each.paused}
    among: dict[Shown, Any] = {"held": held, "late": late, "paused": paused}
    wanted = [
        each for each in agents if _matches(each, q.casefold()) and (show == "all" or each.agent_id in among[show])
    ]
    wanted.sort(key=_ORDERS[sort], reverse=down)
    pages = max(1, -(-len(wanted) // PAGE))
    at = min(at, pages)
    shown = wanted[(at - 1) * PAGE : at * PAGE]
    last = await service.runs.last_of([each.agent_id for each in shown])
    counts = await _counts(service, shown)
    rows = [
        Row(
            each,
            each.interval or usual,
            each.agent_id in late,
            held.get(each.agent_id),
            last.get(each.agent_id),
            counts.get(each.agent_id),
        )
        for each in shown
    ]
    return page(
        request,
        "fleet",
        rows=rows,
        total=len(agents),
        found=len(wanted),
        counts={"held": len(held), "late": len(late), "paused": len(paused)},
        is_paused=await service.runs.is_paused(),
        asked={"q": q, "sort": sort, "show": show, "down": down or None},
        sort=sort,
        down=down,
        show=show,
        q=q,
        at=at,
        pages=pages,
        may_maintain=Verb.MAINTAIN in caller.verbs,
        sees_all=caller.agents is None,
        has_counts=bool(counts) or not shown,
    )


@router.post("/fleet/pause")
async def pause(caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Pause an agent's maintenance: an active run stops before its next removal."""
    agent_id = form.agent(caller, Verb.MAINTAIN)
    await service.agents.pause(agent_id, **form.decision(caller))
    return back_to("fleet", "paused", q=agent_id)


@router.post("/fleet/resume")
async def resume(caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Resume an agent's maintenance."""
    agent_id = form.agent(caller, Verb.MAINTAIN)
    await service.agents.resume(agent_id, **form.decision(caller))
    return back_to("fleet", "resumed", q=agent_id)


@router.post("/fleet/run")
async def run_now(caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Run an agent's maintenance now, beside its schedule."""
    agent_id = form.agent(caller, Verb.MAINTAIN)
    await service.runs.maintain(agent_id, **form.decision(caller))
    return back_to("runs", "asked", agent=agent_id)


@router.post("/fleet/pause-all")
async def pause_all(caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Stop all maintenance of the company now."""
    caller.require(Verb.MAINTAIN)
    await service.runs.pause_all(**form.decision(caller))
    return back_to("fleet", "paused")


@router.post("/fleet/resume-all")
async def resume_all(caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Let the company's maintenance go on."""
    caller.require(Verb.MAINTAIN)
    await service.runs.resume_all(**form.decision(caller))
    return back_to("fleet", "resumed")


async def _held(service: CompanyService, agents: Sequence[Agent]) -> dict[str, Run]:
    seen = {each.agent_id for each in agents}
    runs = await service.runs.list(state=WorkState.HELD, limit=None)
    return {run.agent_id: run for run in runs if run.agent_id in seen}


async def _counts(service: CompanyService, agents: Sequence[Agent]) -> dict[str, int]:
    try:
        counts = await asyncio.gather(*(service.memories.count(each.agent_id) for each in agents))
    except MemoryError:
        # The page is looked at most when a part does not answer.
        return {}
    return dict(zip((each.agent_id for each in agents), counts, strict=True))


def _is_late(agent: Agent, interval: ConsolidationInterval, now: datetime) -> bool:
    is_planned = not agent.paused and interval is not ConsolidationInterval.NEVER and agent.next_due_at is not None
    return is_planned and agent.next_due_at is not None and agent.next_due_at < now - LATE


def _matches(agent: Agent, text: str) -> bool:
    return any(text in (each or "").casefold() for each in (agent.agent_id, agent.role, agent.department))
