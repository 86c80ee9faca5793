"""Runs: the list, and one run with its summaries, their sources, the gate's figures, and a person's decisions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from memcore.errors import MemoryError, MemoryInputError, MemoryNotFoundError  # noqa: A004  # the reference's name
from memcore.ledger.access.keys import Verb
from memcore.ledger.consolidation_groups import GroupState
from memcore.ledger.runs import Run, RunStep
from memcore.ledger.work_items import WorkState
from memcore.maintenance.consolidation.proposals import ShownGroup
from memcore.maintenance.plan import HeldPlan, PlannedMerge
from memcore.maintenance.undo import UndoPlan
from memcore.service.runs import MAX_PAGE, RunDetail
from ops.http.access import CurrentCaller
from ops.http.context import CompanyService, Service
from ops.http.operators import MaintainedRun, ReadableRun
from ops.web.agents import MOST_OFFERED, ChosenAgent, seen_by
from ops.web.forms import Form
from ops.web.pages import back_to, facts, page

router = APIRouter()

#: Summaries and groups of a page: each is shown with the texts of its memories.
PAGE = 10

#: Ids of a reason that are shown.
MOST_IDS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A memory that went into a summary; its text is None where it is kept no longer."""

    memory_id: str
    at: datetime | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A summary, or a group that has none yet: the memories on the left, the text on the right.

    Attributes:
        group: what the gate measured, and how it was decided; None of a summary that lost no words.
        text: that of the summary; None where there is none, or it is kept no longer.
    """

    group: ShownGroup | None
    summary_id: str | None
    sources: tuple[Source, ...]
    text: str | None = None

    @property
    def is_proposed(self) -> bool:
        """Whether a person has to decide about it."""
        return self.group is not None and self.group.state is GroupState.PROPOSED


@router.get("/runs")
async def list_runs(
    request: Request,
    caller: CurrentCaller,
    service: Service,
    agent: ChosenAgent,
    state: WorkState | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
) -> Response:
    """Show runs, newest first; a key for some agents sees one of them at a time."""
    agents = [each.agent_id for each in await seen_by(caller, service)]
    if agent is None and caller.agents is not None:
        agent = min(caller.agents)
    found = await service.runs.list(agent_id=agent, state=state, limit=limit)
    return page(
        request,
        "runs",
        runs=[(run, _counts(run)) for run in found],
        agents=agents[:MOST_OFFERED],
        agent=agent,
        state=state,
        states=list(WorkState),
        limit=limit,
        most=MAX_PAGE,
        may_maintain=Verb.MAINTAIN in caller.verbs,
    )


@router.get("/runs/{run_id}")
async def show_run(
    request: Request,
    run: ReadableRun,
    caller: CurrentCaller,
    service: Service,
    at: Annotated[int, Query(ge=1, le=100_000)] = 1,
    *,
    plan: bool = False,
) -> Response:
    """Show a run: what it made of what, what it removed and why, and what a person can still decide."""
    detail = await service.runs.detail(run.run_id)
    groups = await _groups(service, run)
    cards = _cards(detail, groups)
    held = await service.runs.plan_to_release(run)
    pages = max(1, -(-max(len(cards), 0 if held is None else len(held.merges)) // PAGE))
    at = min(at, pages)
    merges = () if held is None else held.merges[(at - 1) * PAGE : at * PAGE]
    shown = [await _with_texts(service, run.agent_id, each) for each in cards[(at - 1) * PAGE : at * PAGE]]
    undo_plan, undo_problem = await _undo_plan(service, run) if plan else (None, None)
    return page(
        request,
        "run",
        run=run,
        counts=_counts(run),
        undoable=detail.undoable,
        archived=detail.archived,
        cards=shown,
        total=len(cards),
        removed=_removed(detail),
        most_ids=MOST_IDS,
        at=at,
        pages=pages,
        held=held,
        merges=merges,
        texts=await _texts_of(service, run.agent_id, held, merges),
        plan=undo_plan,
        plan_problem=undo_problem,
        is_held=run.state is WorkState.HELD,
        proposes=run.step is RunStep.ADOPTION,
        is_under_way=run.finished_at is None,
        may_maintain=Verb.MAINTAIN in caller.verbs,
    )


@router.post("/runs/{run_id}/undo")
async def undo(run: MaintainedRun, caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Undo a run: what it removed comes back, what it made goes."""
    await service.runs.undo(run.run_id, **form.decision(caller))
    return back_to("runs", "asked", agent=run.agent_id)


@router.post("/runs/{run_id}/release")
async def release(run: MaintainedRun, caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Approve the plan that the page showed; refused where it is another one now."""
    await service.runs.release(run.run_id, plan=form.text("plan"), **form.decision(caller))
    return back_to(f"runs/{run.run_id}", "released")


@router.post("/runs/{run_id}/dismiss")
async def dismiss(run: MaintainedRun, caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Decide against a held run: it removes nothing more."""
    await service.runs.dismiss(run.run_id, **form.decision(caller))
    return back_to(f"runs/{run.run_id}", "dismissed")


@router.post("/runs/{run_id}/adopt")
async def adopt(run: MaintainedRun, caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Adopt groups that a held run proposes: those that the form names, or all."""
    await service.runs.adopt(run.run_id, groups=form.places(), **form.decision(caller))
    return back_to(f"runs/{run.run_id}", "adopted")


@router.post("/runs/{run_id}/dismiss-groups")
async def dismiss_groups(run: MaintainedRun, caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Decide against groups that a held run proposes."""
    await service.runs.dismiss_groups(run.run_id, groups=form.places(), **form.decision(caller))
    return back_to(f"runs/{run.run_id}", "dismissed")


async def _texts_of(
    service: CompanyService, agent_id: str, held: HeldPlan | None, merges: Sequence[PlannedMerge]
) -> dict[str, str]:
    """Return the texts of the memories that a page of a plan shows."""
    if held is None:
        return {}
    wanted = [*held.evicted, *(each for merge in merges for each in (*merge.members, merge.kept) if each is not None)]
    return await service.memories.texts(agent_id, wanted)


def _counts(run: Run) -> list[tuple[str, str]]:
    return facts({name: count for name, count in run.counts.items() if count})


async def _groups(service: CompanyService, run: Run) -> tuple[ShownGroup, ...]:
    return await service.runs.groups(run.run_id) if run.kind == "maintenance" else ()


def _cards(detail: RunDetail, groups: Sequence[ShownGroup]) -> list[Card]:
    made = detail.summaries
    by_summary = {each.summary_id: each for each in groups if each.summary_id in made}
    cards = [
        Card(
            group=each,
            summary_id=None,
            sources=tuple(Source(memory_id=one.id, at=one.created_at, text=one.content) for one in each.sources),
            text=each.summary,
        )
        for each in groups
        if each.summary_id not in made
    ]
    # First what waits for a person, then what was done, then what the gate refused.
    proposed = [each for each in cards if each.is_proposed]
    done = [
        Card(group=by_summary.get(new), summary_id=new, sources=tuple(Source(memory_id=old) for old in sources))
        for new, sources in made.items()
    ]
    return [*proposed, *done, *(each for each in cards if not each.is_proposed)]


async def _with_texts(service: CompanyService, agent_id: str, card: Card) -> Card:
    """Return a summary that was made with its text and its sources', wherever they are kept now."""
    if card.summary_id is None:
        return card
    try:
        found = await service.memories.why(card.summary_id, agent_id=agent_id, with_text=True)
    except MemoryNotFoundError:
        return card
    known = {each.memory_id: each for each in found.memories}
    texts: Mapping[str, str | None] = {name: each.text for name, each in known.items()}
    sources = tuple(Source(memory_id=each.memory_id, text=texts.get(each.memory_id)) for each in card.sources)
    return Card(group=card.group, summary_id=card.summary_id, sources=sources, text=texts.get(card.summary_id))


def _removed(detail: RunDetail) -> list[tuple[str, int, list[str]]]:
    """Return by reason how many memories left, and the first of their ids."""
    counts, ids = Counter[str](), dict[str, list[str]]()
    for entry in detail.entries:
        if entry.removed and entry.reason != "consolidated":
            counts[entry.reason] += len(entry.removed)
            ids.setdefault(entry.reason, []).extend(entry.removed[:MOST_IDS])
    return [(reason, count, ids[reason][:MOST_IDS]) for reason, count in counts.most_common()]


async def _undo_plan(service: CompanyService, run: Run) -> tuple[UndoPlan | None, str | None]:
    try:
        return await service.runs.plan_undo(run.run_id), None
    except MemoryInputError as error:
        return None, str(error)
    except MemoryError:
        return None, "the store does not answer"
