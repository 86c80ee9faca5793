"""The paths of mem0's clients and of its self-hosted server; docs/how-to/use-mem0-clients.md lists what they do."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel

from memcore.errors import MemoryCapabilityError, MemoryError  # noqa: A004  # the reference's name
from memcore.telemetry.events import Event
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.http.mem0.api import Mem0Api
from ops.http.mem0.filters import from_query
from ops.http.mem0.models import (
    MAX_PAGE_SIZE,
    PASSED_OVER,
    AddBody,
    BatchDeleteBody,
    BatchUpdateBody,
    EntityId,
    FeedbackBody,
    Identified,
    ListBody,
    SearchBody,
    UpdateBody,
)
from ops.http.mem0.people import People
from ops.http.problems import (
    MEDIA_TYPE,
    Problem,
    log_failure,
    problem_of,
    problem_of_validation,
    problem_response,
)

#: Memories of a page, where a client does not say.
_PAGE_SIZE = 100


class Mem0Route(APIRoute):
    """Answers errors as mem0 does: a JSON object whose ``detail`` its clients show."""

    passed_over = PASSED_OVER

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handler = super().get_route_handler()

        async def handling(request: Request) -> Response:
            try:
                return await handler(request)
            except RequestValidationError as error:
                return _in_their_form(problem_of_validation(error.errors()))
            except (MemoryError, TimeoutError) as error:
                problem = problem_of(error)
                if problem.status >= 500 and not isinstance(error, MemoryCapabilityError):  # noqa: PLR2004  # a status
                    log_failure(error, request.scope, event=Event.MEMORY_HTTP_UNAVAILABLE)
                return _in_their_form(problem, headers=dict(problem_response(error).headers))

        return handling


def _in_their_form(problem: Problem, *, headers: dict[str, str] | None = None) -> Response:
    # There a broken limit is 400.
    status = 400 if problem.status == 422 else problem.status  # noqa: PLR2004  # a status
    kept = {name: value for name, value in (headers or {}).items() if name in {"retry-after", "www-authenticate"}}
    body = Refusal(detail=problem.detail, error=problem.domain_code, field=problem.field)
    return JSONResponse(body.model_dump(exclude_none=True), status_code=status, headers=kept)


class Refusal(BaseModel):
    """An error as mem0's clients read it.

    Attributes:
        detail: one sentence that says what to change.
        error: what kind it is, as ``domain_code`` of a problem.
        field: the field that breaks a limit.
    """

    detail: str
    error: str
    field: str | None = None


#: The errors of every path; the check of the key, before the paths, answers with a problem.
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": description,
        "content": {
            "application/json": {"schema": Refusal.model_json_schema()},
            MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}},
        },
    }
    for status, description in (
        ("4XX", "The request cannot be served as it is; ``detail`` says why."),
        ("5XX", "A part of the installation failed, or does not support this."),
    )
}

router = APIRouter(route_class=Mem0Route, tags=["mem0"])


async def _api(caller: CurrentCaller, service: Service) -> Mem0Api:
    memory, settings = service.policy.memory, service.resources.settings
    named = memory.conversation.model or settings.llm(memory.llm).model
    people = People(
        engine=service.engine,
        conversation=service.conversation,
        can_infer=settings.llm_url is not None and named is not None,
    )

    async def known_agents(after: str | None) -> list[str]:
        return [agent.agent_id for agent in await service.agents.list(after=after)]

    return Mem0Api(
        memories=service.engine,
        operations=service.memories,
        people=people,
        caller=caller,
        known_agents=known_agents,
    )


Api = Annotated[Mem0Api, Depends(_api)]
Page = Annotated[int, Query(ge=1, le=1_000_000)]
PageSize = Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)]


def _matched(
    user_id: EntityId | None = None,
    agent_id: EntityId | None = None,
    app_id: EntityId | None = None,
    run_id: EntityId | None = None,
    filters: Annotated[str | None, Query(max_length=8_192)] = None,
) -> Identified:
    """Return whose memories a query string names."""
    named = {"user_id": user_id, "agent_id": agent_id, "app_id": app_id, "run_id": run_id}
    within = None if filters is None else dict(from_query(filters, field="filters"))
    return Identified.model_validate({**named, "filters": within})


Matched = Annotated[Identified, Depends(_matched)]


@router.get("/v1/ping/", summary="Say whose key it is, in mem0's words")
async def ping(caller: CurrentCaller) -> dict[str, Any]:
    """Answer with the company, under the names that mem0's clients look for."""
    return {"status": "ok", "org_id": caller.company, "project_id": caller.company, "user_email": None}


@router.post("/v3/memories/add/", summary="Keep messages")
@router.post("/v1/memories/", summary="Keep messages (older clients)")
@router.post("/memories", summary="Keep messages (mem0's server)")
async def add(body: AddBody, api: Api) -> dict[str, Any]:
    """Keep what a language model draws from messages, or with ``infer`` false the texts as they are."""
    return await api.add(body)


@router.post("/v3/memories/search/", summary="Search")
@router.post("/v2/memories/search/", summary="Search (older clients)")
@router.post("/search", summary="Search (mem0's server)")
async def search(body: SearchBody, api: Api) -> dict[str, Any]:
    """Return the memories and facts that match a question, best first."""
    return await api.search(body)


@router.post("/v3/memories/", summary="List")
@router.post("/v2/memories/", summary="List (older clients)")
async def get_all(
    request: Request, body: ListBody, api: Api, page: Page = 1, page_size: PageSize = _PAGE_SIZE
) -> dict[str, Any]:
    """Return a page of what the filters match."""
    results, count = await api.listed(body, page=page, page_size=page_size)
    return _paged(request, results, count, page=page, page_size=page_size)


@router.get("/memories", summary="List (mem0's server)")
async def get_all_of_server(
    matched: Matched, api: Api, top_k: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = _PAGE_SIZE
) -> dict[str, Any]:
    """Return the memories of a user, an agent or a run."""
    body = ListBody.model_validate(matched.model_dump())
    results, _ = await api.listed(body, page=1, page_size=top_k)
    return {"results": results}


@router.get("/v1/memories/{memory_id}/", summary="Read a memory")
@router.get("/memories/{memory_id}", summary="Read a memory (mem0's server)")
async def get(memory_id: str, api: Api) -> dict[str, Any]:
    """Return a memory or a fact by its id."""
    return await api.get(memory_id)


@router.put("/v1/memories/{memory_id}/", summary="Change a memory")
@router.put("/memories/{memory_id}", summary="Change a memory (mem0's server)")
async def update(memory_id: str, body: UpdateBody, api: Api) -> dict[str, Any]:
    """Change text, metadata or expiry; what is left out stays."""
    return {**await api.update(memory_id, body), "message": "Memory updated successfully!"}


@router.delete("/v1/memories/{memory_id}/", summary="Forget a memory")
@router.delete("/memories/{memory_id}", summary="Forget a memory (mem0's server)")
async def delete(
    memory_id: str, api: Api, *, delete_linked: Annotated[bool, Query(include_in_schema=False)] = False
) -> dict[str, str]:
    """Forget a memory; `memtend runs undo` can bring it back."""
    if delete_linked:
        raise MemoryCapabilityError("delete_linked is not supported: what a memory superseded is not kept under it")
    await api.delete(memory_id)
    return {"message": "Memory deleted successfully!"}


@router.delete("/v1/memories/", summary="Forget what matches")
@router.delete("/memories", summary="Forget what matches (mem0's server)")
async def delete_all(matched: Matched, api: Api) -> dict[str, Any]:
    """Forget everything of a user, an agent, an app or a run."""
    count = await api.delete_matching(matched)
    return {"message": "Memories deleted successfully!", "count": count}


@router.get("/v1/memories/{memory_id}/history/", summary="Show what became of a memory")
@router.get("/memories/{memory_id}/history", summary="Show what became of a memory (mem0's server)")
async def history(memory_id: str, api: Api) -> list[dict[str, Any]]:
    """Return the versions of a memory, oldest first."""
    return await api.history(memory_id)


@router.put("/v1/batch/", summary="Change memories")
async def batch_update(body: BatchUpdateBody, api: Api) -> dict[str, str]:
    """Change several memories, one after the other."""
    for item in body.memories:
        await api.update(item.memory_id, item)
    return {"message": f"Successfully updated {len(body.memories)} memories"}


@router.delete("/v1/batch/", summary="Forget memories")
async def batch_delete(body: BatchDeleteBody, api: Api) -> dict[str, str]:
    """Forget several memories, one after the other."""
    for item in body.memories:
        await api.delete(item.memory_id)
    return {"message": f"Successfully deleted {len(body.memories)} memories"}


@router.get("/v1/entities/", summary="List users, agents, apps and runs")
@router.get("/entities", summary="List users, agents and runs (mem0's server)")
async def users(request: Request, api: Api, page: Page = 1, page_size: PageSize = MAX_PAGE_SIZE) -> dict[str, Any]:
    """Return whom memories are of, with how many there are."""
    found = await api.entities()
    first = (page - 1) * page_size
    return _paged(request, found[first : first + page_size], len(found), page=page, page_size=page_size)


@router.delete("/v2/entities/{kind}/{name:path}/", summary="Forget everything of a user, an agent, an app or a run")
@router.delete("/v1/entities/{kind}/{name:path}/", summary="The same (older clients)")
@router.delete("/entities/{kind}/{name:path}", summary="The same (mem0's server)")
async def delete_users(kind: str, name: EntityId, api: Api) -> dict[str, Any]:
    """Forget all that a user, an agent, an app or a run has with the key's agents; a name may have slashes."""
    return {"message": "Entity deleted successfully!", "count": await api.delete_entity(kind, name)}


@router.post("/reset", summary="Forget everything (mem0's server)")
async def reset(api: Api) -> dict[str, Any]:
    """Forget everything of the key's agents, for which it needs the verb maintain; `memtend runs undo` undoes it."""
    return {"message": "All memories reset", "count": await api.reset()}


@router.post("/v1/feedback/", summary="Keep what a person thinks of a memory")
async def feedback(body: FeedbackBody, api: Api) -> dict[str, Any]:
    """Keep feedback with the memory; what is negative lowers its confidence."""
    return await api.feedback(body)


#: Paths of mem0's clients and of its server that memtend has nothing for.
_REFUSED = {
    "/v1/exports/": "exports with a schema",
    "/v1/exports/get/": "exports with a schema",
    "/v1/summary/": "summaries of exports",
    "/v1/event/{event_id}/": "events",
    "/v2/entities/{kind}/{name}/profile/": "profiles",
    "/v2/profiles/settings/": "profiles",
    "/v2/profiles/jobs/": "profiles",
    "/v2/profiles/jobs/{job_id}/": "profiles",
    "/api/v1/orgs/organizations/{rest:path}": "projects: `memtend config` has the policy",
    "/api/v1/webhooks/{rest:path}": "webhooks",
    "/configure": "configuration by request: `memtend config` has the policy",
}


def _refusal(what: str) -> Callable[[], Awaitable[None]]:
    async def refuse() -> None:
        raise MemoryCapabilityError(f"not supported: {what}")

    return refuse


for _path, _what in _REFUSED.items():
    router.add_api_route(
        _path,
        _refusal(_what),
        methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        include_in_schema=False,
        dependencies=[Depends(_api)],
    )


def _paged(request: Request, results: list[dict[str, Any]], count: int, *, page: int, page_size: int) -> dict[str, Any]:
    """Return a page with the addresses of those beside it."""

    def address(wanted: int) -> str:
        return str(request.url.include_query_params(page=wanted, page_size=page_size))

    return {
        "count": count,
        "next": address(page + 1) if page * page_size < count else None,
        "previous": address(page - 1) if page > 1 else None,
        "results": results,
    }
