"""Forms of memories: change the version that a page showed, propose more authority for it, add one.

What was typed stays in the form where it is refused.
"""

from asyncio import to_thread
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import APIRouter, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from memcore.errors import MemoryConflictError, MemoryError, MemoryNotFoundError  # noqa: A004  # the reference's name
from memcore.ledger.access.keys import Verb
from memcore.models.approval import RaisedTo
from memcore.models.base import naming_fields
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryStoreRequest
from ops.http.access import Caller, CurrentCaller
from ops.http.context import CompanyService, Service
from ops.http.problems import problem_of
from ops.web.agents import NamedAgent
from ops.web.forms import Form, Given
from ops.web.memory_form import FIELDS, REFUSED, Typed, changes, lines, tags_of, wrong
from ops.web.pages import back_to, page
from ops.web.routes.memories import memory_page
from ops.web.text_diff import DiffRow, difference

router = APIRouter(prefix="/memories")

_RAISED_TO: TypeAdapter[RaisedTo] = TypeAdapter(RaisedTo)


@router.post("/edit")
async def edit(request: Request, caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Change the version of a memory that the page showed; where another is there, show both texts, write nothing."""
    agent_id, memory_id = _named(form, caller)
    typed = {name: lines(form.fields[name]) for name in FIELDS if name in form.fields}
    try:
        entry = await _shown(service, agent_id, memory_id)
        changed = changes(entry, typed)
        if not changed:
            return back_to("memories/one", "nothing", agent=agent_id, id=entry.id)
        decider = form.decision(caller)
        new = await service.memories.update(agent_id, memory_id, expected=memory_id, **changed, **decider)
    except REFUSED as error:
        typed["reason"] = form.fields.get("reason", "")
        return await _again(request, caller, service, (agent_id, memory_id), error, typed)
    return back_to("memories/one", "changed", agent=agent_id, id=new.id)


@router.post("/raise")
async def ask_to_raise(request: Request, caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Propose to raise the memory that the page showed; a person who has read it decides."""
    agent_id, memory_id = _named(form, caller)
    try:
        with naming_fields(name="to"):
            to = _RAISED_TO.validate_python(form.text("to"))
        if (await _shown(service, agent_id, memory_id)).id != memory_id:
            raise MemoryConflictError("memory_id: another version is there now")
        found = await service.approvals.propose_raise(agent_id, memory_id, to=to, by=caller.name)
    except REFUSED as error:
        return await _again(request, caller, service, (agent_id, memory_id), error, {})
    if caller.agents is None:
        return back_to(f"approvals/{found.approval_id}", "proposed")
    return back_to("memories/one", "proposed", agent=agent_id, id=memory_id)


@router.get("/new")
async def new_memory(request: Request, caller: CurrentCaller, agent: NamedAgent) -> Response:
    """Show the form of a new memory."""
    caller.require(Verb.WRITE, agent_id=agent)
    return _new_page(request, agent, {})


@router.post("/new")
async def add(request: Request, caller: CurrentCaller, service: Service, form: Form) -> Response:
    """Write a new memory."""
    agent_id = form.agent(caller, Verb.WRITE)
    typed = {name: lines(form.fields.get(name, "")) for name in ("content", "category", "tags", "reason")}
    try:
        decider = form.decision(caller)
        with naming_fields():
            wanted = MemoryStoreRequest.model_validate(
                {
                    "category": typed["category"],
                    "content": typed["content"],
                    "metadata": {"tags": tags_of(typed["tags"])},
                }
            )
        entry = await service.memories.put(agent_id, wanted, **decider)
    except REFUSED as error:
        return _new_page(request, agent_id, typed, error)
    return back_to("memories/one", "added", agent=agent_id, id=entry.id)


def _named(form: Given, caller: Caller) -> tuple[str, str]:
    """Return the agent and the memory that a form names.

    Who may not read is shown no memory in an answer either. Raises MemoryInputError, MemoryForbiddenError.
    """
    named = form.agent(caller, Verb.WRITE), form.text("id")
    caller.require(Verb.READ, agent_id=named[0])
    return named


async def _shown(service: CompanyService, agent_id: str, memory_id: str) -> MemoryEntry:
    entry = await service.memories.get(agent_id, memory_id)
    if entry is None:
        raise MemoryNotFoundError("memory_id: names no memory of this agent")
    return entry


async def _again(
    request: Request,
    caller: Caller,
    service: CompanyService,
    named: tuple[str, str],
    error: MemoryError,
    typed: Mapping[str, str],
) -> Response:
    """Return the page of what is there now, with what was typed beside it, and what is wrong."""
    agent_id, memory_id = named
    entry = await service.memories.get(agent_id, memory_id)
    here = memory_id if entry is None else entry.id
    rows: list[DiffRow] = []
    if entry is not None and here != memory_id and "content" in typed:
        # In a thread: two large texts take a second.
        rows = await to_thread(difference, entry.content, typed["content"])
    again = Typed(fields=typed, wrong=wrong(error), rows=tuple(rows))
    return await memory_page(request, caller, service, agent_id, here, typed=again, status=problem_of(error).status)


def _new_page(request: Request, agent: str, typed: Mapping[str, str], error: MemoryError | None = None) -> Response:
    return page(
        request,
        "new_memory",
        status=HTTPStatus.OK if error is None else problem_of(error).status,
        agent=agent,
        given=typed,
        wrong={} if error is None else wrong(error),
        categories=list(MemoryCategory),
    )
