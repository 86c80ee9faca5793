"""Memory: search and list an agent's memories and its archive; one memory with its origin; forget and restore."""

from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from memcore.ledger.access.keys import Verb
from memcore.maintenance.provenance import MemoryHistory, MemoryTrace
from memcore.models.memory import MAX_KEY_CHARS, MemoryCategory, MemoryQuery
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.web.agents import MOST_OFFERED, ChosenAgent, NamedAgent, seen_by
from ops.web.forms import Form
from ops.web.pages import back_to, page

router = APIRouter()

#: Memories of a page.
PAGE = 50

#: Memories of a tree; one with more is cut there.
MOST_BRANCHES = 500

#: Longest question, in characters: it stands in the address of the page.
MAX_TEXT_CHARS = 4_096

#: What is searched for.
Text = Annotated[str, Query(max_length=MAX_TEXT_CHARS)]


class Branch(NamedTuple):
    """A memory in the tree of another one's origin.

    Attributes:
        is_repeated: whether it is shown above already, with what lies below it.
    """

    depth: int
    trace: MemoryTrace
    is_repeated: bool


@router.get("/memories")
async def memories(
    request: Request,
    caller: CurrentCaller,
    service: Service,
    agent: ChosenAgent,
    q: Text = "",
    category: MemoryCategory | None = None,
    cursor: Annotated[str | None, Query(max_length=4_096)] = None,
) -> Response:
    """Search an agent's memories, or list them, oldest first."""
    agents = [each.agent_id for each in await seen_by(caller, service)]
    shared: dict[str, Any] = {
        "agents": agents[:MOST_OFFERED],
        "agent": agent,
        "q": q,
        "category": category,
        "categories": list(MemoryCategory),
    }
    if agent is None:
        return page(request, "memories", **shared, entries=None, next_cursor=None, count=None)
    wanted = None if category is None else (category,)
    if q.strip():
        query = MemoryQuery(text=q, categories=None if wanted is None else frozenset(wanted), limit=PAGE)
        entries, next_cursor = await service.memories.search(agent, query), None
    else:
        found = await service.memories.list(agent, limit=PAGE, cursor=cursor, categories=wanted)
        entries, next_cursor = found.entries, found.cursor
    count = await service.memories.count(agent)
    return page(request, "memories", **shared, entries=entries, next_cursor=next_cursor, count=count)


@router.get("/memories/one")
async def one(
    request: Request,
    caller: CurrentCaller,
    service: Service,
    agent: NamedAgent,
    memory_id: Annotated[str, Query(alias="id", min_length=1, max_length=MAX_KEY_CHARS)],
) -> Response:
    """Show a memory: its text, what it was made of and made into, what became of it."""
    history = await service.memories.why(memory_id, agent_id=agent, with_text=True)
    entry = await service.memories.get(agent, memory_id)
    return page(
        request,
        "memory",
        agent=agent,
        history=history,
        entry=entry if entry is not None and entry.id == memory_id else None,
        successor=None if entry is None or entry.id == memory_id else entry.id,
        made_of=branches(history, "made_of"),
        made_into=branches(history, "made_into"),
        versions=await service.memories.history(agent, memory_id) if entry is not None else (),
        most_branches=MOST_BRANCHES,
        may_write=Verb.WRITE in caller.verbs,
        may_maintain=Verb.MAINTAIN in caller.verbs,
    )


@router.post("/memories/forget")
async def forget(caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Forget a memory: its run's undo brings it back."""
    agent_id = form.agent(caller, Verb.WRITE)
    receipt = await service.memories.forget(agent_id, form.text("id"), **form.decision(caller))
    if receipt.run_id is None:
        return back_to("memories", "nothing", agent=agent_id)
    return back_to(f"runs/{receipt.run_id}", "forgotten")


@router.get("/memories/archive")
async def archive(
    request: Request, caller: CurrentCaller, service: Service, agent: NamedAgent, q: Text = ""
) -> Response:
    """Search an agent's archive by words, or show what went there last."""
    found = await service.archive.search(agent, MemoryQuery(text=q.strip() or None, limit=PAGE))
    return page(
        request,
        "archive",
        agent=agent,
        q=q,
        found=found,
        total=await service.archive.count(agent),
        may_maintain=Verb.MAINTAIN in caller.verbs,
    )


@router.post("/memories/restore")
async def restore(caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Restore a memory from the archive, in a run that can be undone."""
    agent_id = form.agent(caller, Verb.MAINTAIN)
    await service.archive.restore(agent_id, form.text("id"), **form.decision(caller))
    return back_to("runs", "asked", agent=agent_id)


def branches(history: MemoryHistory, edge: str) -> list[Branch]:
    """Return the tree from a memory along ``made_of`` or ``made_into``, in the order in which it is drawn."""
    drawn, met = list[Branch](), {history.memory_id}
    waiting = [(1, each) for each in reversed(getattr(history.memory, edge))]
    # Without recursion: the lineage may be of any depth.
    while waiting and len(drawn) < MOST_BRANCHES:
        depth, memory_id = waiting.pop()
        trace = history.find(memory_id)
        if trace is None:
            continue
        is_repeated = memory_id in met
        met.add(memory_id)
        drawn.append(Branch(depth, trace, is_repeated))
        if not is_repeated:
            waiting.extend((depth + 1, each) for each in reversed(getattr(trace, edge)))
    return drawn
