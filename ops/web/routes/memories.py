"""Memory: search and list an agent's memories and its archive; one memory with its origin; forget and restore."""

from http import HTTPStatus
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from memcore.ids import SHORT_ID_CHARS
from memcore.ledger.access.keys import Verb
from memcore.maintenance.provenance import MemoryHistory, MemoryTrace
from memcore.models.memory import MAX_KEY_CHARS, MemoryCategory, MemoryQuery
from memcore.models.origin import Authority
from ops.http.access import Caller, CurrentCaller
from ops.http.context import CompanyService, Service
from ops.web.agents import MOST_OFFERED, ChosenAgent, NamedAgent, seen_by
from ops.web.charts import Figure, Node, graph
from ops.web.forms import Form
from ops.web.memory_form import Typed, fields_of
from ops.web.pages import back_to, link, number, page

router = APIRouter()

#: Memories of a page.
PAGE = 50

#: Memories of a tree; one with more is cut there.
MOST_BRANCHES = 500

#: Longest question, in characters: it stands in the address of the page.
MAX_TEXT_CHARS = 4_096

#: Memories of the picture of a lineage, and how far it goes each way.
MOST_NODES, MOST_LAYERS = 60, 3

#: What a node says of a memory of which nobody knows, or may be shown, how far it may be trusted.
UNKNOWN = "unknown"

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
        "may_write": Verb.WRITE in caller.verbs,
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
    return await memory_page(request, caller, service, agent, memory_id)


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


async def memory_page(
    request: Request,
    caller: Caller,
    service: CompanyService,
    agent: str,
    memory_id: str,
    *,
    typed: Typed | None = None,
    status: int = HTTPStatus.OK,
) -> Response:
    """Return the page of a memory, with its form as it was typed where that was refused."""
    history = await service.memories.why(memory_id, agent_id=agent, with_text=True)
    found = await service.memories.get(agent, memory_id)
    entry = found if found is not None and found.id == memory_id else None
    fields = {} if entry is None else fields_of(entry)
    has = None if entry is None else entry.authority
    raises = [] if has is None else [each for each in (Authority.INFORM, Authority.INSTRUCT) if not has.reaches(each)]
    return page(
        request,
        "memory",
        status=status,
        agent=agent,
        history=history,
        entry=entry,
        successor=None if found is None or entry is not None else found.id,
        made_of=branches(history, "made_of"),
        made_into=branches(history, "made_into"),
        figure=lineage(history) if len(history.memories) > 1 else None,
        versions=await service.memories.history(agent, memory_id) if found is not None else (),
        most_branches=MOST_BRANCHES,
        given=fields if typed is None else {**fields, **typed.fields},
        typed=typed,
        wrong={} if typed is None else typed.wrong,
        raises=raises,
        may_write=Verb.WRITE in caller.verbs,
        may_maintain=Verb.MAINTAIN in caller.verbs,
    )


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


def lineage(history: MemoryHistory) -> Figure:
    """Return the picture of what a memory was made of and made into, the nearest of them."""
    layers = {history.memory_id: 0}
    level = [(history.memory, edge, way) for edge, way in (("made_of", -1), ("made_into", 1))]
    for _ in range(MOST_LAYERS):
        further = list[tuple[MemoryTrace, str, int]]()
        for trace, edge, way in level:
            for memory_id in getattr(trace, edge):
                found = history.find(memory_id)
                if found is None or memory_id in layers or len(layers) >= MOST_NODES:
                    continue
                layers[memory_id] = layers[trace.memory_id] + way
                further.append((found, edge, way))
        level = further
    traces = [trace for trace in history.memories if trace.memory_id in layers]
    edges = dict.fromkeys((source, each.memory_id) for each in traces for source in each.made_of)
    edges |= dict.fromkeys((each.memory_id, into) for each in traces for into in each.made_into)
    nodes = [
        Node(
            node_id=each.memory_id,
            layer=layers[each.memory_id],
            label="this memory" if each.memory_id == history.memory_id else each.memory_id[:SHORT_ID_CHARS],
            word=str(each.authority or UNKNOWN),
            kind=str(each.authority or UNKNOWN),
            address=link("memories/one", agent=history.agent_id, id=each.memory_id),
        )
        for each in sorted(traces, key=lambda each: layers[each.memory_id])
    ]
    left = len(history.memories) - len(nodes)
    more = f" {number(left)} more are not drawn." if left else ""
    about = (
        "On the left what it was made of, on the right what it was made into. Word, shape and colour are the authority."
    )
    return graph("lineage", "Lineage", about + more, nodes, list(edges))
