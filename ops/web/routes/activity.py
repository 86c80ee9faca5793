"""What happened: of each agent since yesterday, and what needs a person; an agent's growth and its timeline."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from memcore.ledger.access.keys import Verb
from memcore.ledger.monitoring.activity import REMOVALS, RETURNED, AgentActivity
from memcore.models.approval import ApprovalState
from memcore.models.memory_test import Outcome
from memcore.service.approvals import MAX_PAGE
from ops.http.access import Caller, CurrentCaller
from ops.http.context import CompanyService, Service
from ops.web.agents import ChosenAgent, NamedAgent
from ops.web.charts import Figure, Point, bars, lines, lying_bars, points
from ops.web.pages import link, page, part, word
from ops.web.quality import quality

router = APIRouter()

#: Agents of the first page, and those of them that its picture shows.
MOST_AGENTS, DRAWN_AGENTS = 25, 12

#: What the first page looks back on.
RECENT = timedelta(hours=24)

#: What becomes of memories, in the order of charts: each removal once.
FATES = tuple(dict.fromkeys(REMOVALS.values()))

#: Times at which growth is counted, and bars of a timeline: each is one count of the store.
TIMES, BINS = 13, 24

#: Runs of a timeline, the newest.
MOST_RUNS = 100

#: Tests of a page, those that failed first.
MOST_TESTS = 200

#: Days that growth may look back on, and the lengths of a timeline; None is all that is known.
GROWTH_DAYS = (30, 90, 365)
ZOOMS: dict[str, timedelta | None] = {
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=30),
    "all": None,
}
Zoom = Literal["day", "week", "month", "all"]

_DAY = timedelta(days=1)


@router.get("/activity")
async def recent(request: Request, caller: CurrentCaller, service: Service) -> Response:
    """Show what happened in the last 24 hours, agent by agent, and what needs a person."""
    caller.require(Verb.READ, agent_id=next(iter(sorted(caller.agents or ())), None))
    since = service.clock() - RECENT
    found, stored = await service.agents.recent(since=since, most=MOST_AGENTS, among=caller.agents)
    approvals, letters = await _waiting(caller, service)
    return page(
        request,
        "activity",
        agents=found.agents,
        others=found.others,
        held=found.held,
        failed=sum(each.failed_id is not None for each in found.agents),
        approvals=approvals,
        most_approvals=MAX_PAGE,
        letters=letters,
        failed_tests=await service.memory_tests.failed(among=caller.agents),
        stored=stored,
        has_stored=bool(stored) or not found.agents,
        fates=FATES,
        figure=_by_agent(found.agents, stored),
    )


@router.get("/memories/growth")
async def growth(
    request: Request, service: Service, agent: NamedAgent, days: Annotated[int, Query(ge=2, le=366)] = GROWTH_DAYS[0]
) -> Response:
    """Show what an agent has, has archived, and lost by reason over time."""
    now = service.clock()
    times = _between(now - days * _DAY, now, TIMES)
    found = await service.agents.growth(agent, times)
    labels = [f"{each:%Y-%m-%d}" for each in times]
    return page(
        request,
        "growth",
        agent=agent,
        days=days,
        choices=GROWTH_DAYS,
        live=found.live[-1],
        archived=found.archived[-1],
        gone=sum(times for _, fate, times in found.removed if fate != RETURNED),
        figures=(
            lines(
                "kept",
                "Live and archived",
                "Live: what is in the store now, up to each day. Archived: what lay in the archive on that day.",
                labels,
                {"live": found.live, "archived": found.archived},
                of="Day",
            ),
            _removed_by_day(found.removed, now, days),
        ),
    )


@router.get("/memories/timeline")
async def timeline(request: Request, service: Service, agent: NamedAgent, zoom: Zoom = "week") -> Response:
    """Show an agent's memories, runs, and what can be undone, on one axis of time."""
    now, length = service.clock(), ZOOMS[zoom]
    began = await service.agents.began_at(agent) if length is None else now - length
    since = min(began or now - _DAY, now - timedelta(minutes=1))
    times = _between(since, now, BINS + 1)
    found = await service.agents.timeline(agent, times, most=MOST_RUNS)
    stored = [
        Point(at=start, label=f"{count} stored", weight=count)
        for start, count in zip(times[:-1], found.stored, strict=True)
        if count
    ]
    shown = [
        Point(at=each.at, label=f"{word(each.kind)}, {word(each.state)}", address=_run_address(each.run_id))
        for each in found.runs
    ]
    undo = [point for point, each in zip(shown, found.runs, strict=True) if each.run_id in found.undoable]
    return page(
        request,
        "timeline",
        agent=agent,
        zoom=zoom,
        zooms=tuple(ZOOMS),
        runs=[(each, each.run_id in found.undoable) for each in reversed(found.runs)],
        most=MOST_RUNS,
        figure=points(
            "timeline",
            f"Timeline of {agent}",
            "Memories that are in the store still, by their time; runs; and the runs that can be undone.",
            {"memories": stored, "runs": shown, "can be undone": undo},
            since=since,
            until=now,
        ),
    )


@router.get("/activity/tests")
async def registered(request: Request, caller: CurrentCaller, service: Service, agent: ChosenAgent) -> Response:
    """Show the registered memory tests and what came of each last, those that failed first."""
    caller.require(Verb.READ, agent_id=agent or next(iter(sorted(caller.agents or ())), None))
    found = await service.memory_tests.list(agent_id=agent)
    shown = [each for each in found if caller.agents is None or each.agent_id in caller.agents]
    counts = Counter(each.outcome for each in shown)
    order = (Outcome.FAILED, Outcome.ERROR, None, Outcome.PASSED)
    return page(
        request,
        "tests",
        agent=agent,
        tests=sorted(shown, key=lambda each: order.index(each.outcome))[:MOST_TESTS],
        others=max(0, len(shown) - MOST_TESTS),
        total=len(shown),
        failed=counts[Outcome.FAILED],
        errors=counts[Outcome.ERROR],
        figures=await quality(service, agent, among=caller.agents),
    )


async def _waiting(caller: Caller, service: CompanyService) -> tuple[int | None, int | None]:
    """Return how many approvals and dead letters wait for a person; None of what the key does not show."""
    if caller.agents is not None:
        return None, None
    approvals = len(await service.approvals.list(state=ApprovalState.PENDING, limit=MAX_PAGE))
    return approvals, await service.dead_letters.count() if Verb.ADMIN in caller.verbs else None


def _by_agent(agents: Sequence[AgentActivity], stored: dict[str, int]) -> Figure:
    shown = agents[:DRAWN_AGENTS]
    series = {"stored": [stored.get(each.agent_id, 0) for each in shown]}
    series |= {fate: [each.moved[fate] for each in shown] for fate in FATES}
    names = [each.agent_id for each in shown]
    about = "Memories of the first agents of the list that were stored, or that runs removed."
    return lying_bars("recent", "The last 24 hours", about, names, series, of="Agent")


def _removed_by_day(removed: Collection[tuple[datetime, str, int]], now: datetime, days: int) -> Figure:
    # Of a long time there is no place for each day.
    width = 1 if days <= GROWTH_DAYS[0] else 7
    ends = [now.astimezone(UTC) - place * width * _DAY for place in reversed(range(-(-days // width)))]
    labels = [f"{each:%Y-%m-%d}" for each in ends]
    counts = Counter[tuple[str, str]]()
    for at, fate, times in removed:
        counts[labels[-1 - min((now - at) // (width * _DAY), len(labels) - 1)], fate] += times
    return bars(
        "removed",
        "Removed",
        "Memories that runs removed, by reason, and those that came back.",
        labels,
        {fate: [counts[label, fate] for label in labels] for fate in (*FATES, RETURNED)},
        of="Day" if width == 1 else "Week until",
    )


def _between(since: datetime, until: datetime, count: int) -> list[datetime]:
    return [since + (until - since) * place / (count - 1) for place in range(count)]


def _run_address(run_id: str) -> str:
    return link(f"runs/{part(run_id)}")
