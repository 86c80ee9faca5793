"""The paths of the router: ``/router/v1/...`` forwards to a model with what is remembered of the person.

The caller's key of the model goes on in its own header and is kept nowhere; memtend's own key stands in
``x-memtend-key``. A memory that is away costs the call nothing but the memory.
"""

import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx
from fastapi import FastAPI, Request
from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from memcore.config.conversation import RouterConfig
from memcore.errors import MemoryError, MemoryInputError, MemoryNotFoundError, ProviderUnavailableError  # noqa: A004  # the reference fixes the name
from memcore.jobs import MAX_TURN_CHARS
from memcore.ledger.access.keys import Verb
from memcore.models.memory import MAX_KEY_CHARS, require_agent_id
from memcore.telemetry.events import Event
from ops.http.access import current_caller
from ops.http.context import CompanyService, ServeContext
from ops.http.router.dialects import BETWEEN, DIALECTS, Dialect, Reply, Turn
from ops.http.router.forwarding import OWN, Upstream, Upstreams, given_back, passed_on

_log = logging.getLogger(__name__)

#: What goes through without a memory: method and path.
_PLAIN = frozenset({("GET", "models"), ("POST", "embeddings"), ("POST", "messages/count_tokens")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose turn it is."""

    agent: str
    user: str | None
    session: str


@dataclass(eq=False, kw_only=True)
class Router:
    """Forwards the requests of one process."""

    context: ServeContext
    upstreams: Upstreams = field(default_factory=Upstreams)
    _known: dict[str, CompanyService] = field(default_factory=dict)

    async def answer(self, request: Request) -> Response:
        """Forward a request.

        Raises MemoryUnauthorizedError, MemoryForbiddenError, MemoryInputError, MemoryNotFoundError,
        ProviderUnavailableError.
        """
        caller = await current_caller(request)
        service = await self._service(caller.company)
        config = service.policy.memory.router
        path = request.path_params["path"]
        upstream = _upstream(config, request.headers.get(f"{OWN}upstream"))
        dialect = DIALECTS.get(path) if request.method == "POST" else None
        if dialect is None and (request.method, path) not in _PLAIN:
            raise MemoryNotFoundError(f"path: the router forwards {', '.join(DIALECTS)} and models")
        agent = require_agent_id(_named(request, "agent") or config.agent)
        for verb in (Verb.READ, Verb.WRITE):
            caller.require(verb, agent_id=agent)
        body, state = await request.body(), "off"
        turn = owner = None
        if dialect is not None and request.headers.get(f"{OWN}memory", "on").lower() != "off":
            state, turn = "none", dialect.turn(body)
            owner = None if turn is None else self._owner(request, agent, turn)
        if turn is not None and owner is not None:
            state, memory = await self._remembered(service, owner, turn, token_budget=config.token_budget)
            body = turn.with_memory(memory) if memory else body
        found = await self.upstreams.send(
            upstream,
            request.method,
            path,
            query=request.scope["query_string"],
            headers=passed_on(request.headers.raw),
            body=body,
        )
        passing = _Passing(found, dialect if owner is not None else None)

        async def keep() -> None:
            if turn is not None and owner is not None and passing.said:
                await _keep(service, owner, turn, passing.said)

        response = StreamingResponse(passing.parts(), status_code=found.status_code, background=BackgroundTask(keep))
        response.raw_headers = [*given_back(found.headers.raw), (f"{OWN}memory".encode(), state.encode())]
        return response

    async def _service(self, company: str) -> CompanyService:
        try:
            found = self._known[company] = await self.context.service(company)
        except MemoryNotFoundError:
            raise
        except (MemoryError, TimeoutError):
            # The ledger is away: what was known of the company a moment ago will do to forward a call.
            if company not in self._known:
                raise
            return self._known[company]
        return found

    def _owner(self, request: Request, agent: str, turn: Turn) -> Owner | None:
        user = _named(request, "user") or turn.user
        session = _named(request, "session") or turn.session
        if user is None and session is None:
            # Whoever it is: what is remembered of one person is shown to no other.
            return None
        if session is None:
            # Clients send the whole conversation each time, from its first words on.
            begun = f"{self.context.clock():%Y-%m-%d}\0{user}\0{turn.begun}"
            session = hashlib.blake2b(begun.encode("utf-8", "replace"), digest_size=16).hexdigest()
        return Owner(agent=agent, user=user, session=session)

    async def _remembered(
        self, service: CompanyService, owner: Owner, turn: Turn, *, token_budget: int
    ) -> tuple[str, str]:
        try:
            found = await service.engine.load_turn(
                owner.agent,
                _clean(turn.text),
                user_id=owner.user,
                session_id=owner.session,
                token_budget=token_budget,
            )
        except Exception as error:  # noqa: BLE001  # whatever is wrong here, the person gets the model's answer
            _warn(owner, error)
            return "away", ""
        said = BETWEEN.join(each.content for each in found.messages())
        return ("shown" if said else "none"), said


class _Passing:
    """An answer on its way, read as it goes by."""

    def __init__(self, found: httpx.Response, dialect: Dialect | None) -> None:
        self._found = found
        is_stream = found.headers.get("content-type", "").lower().startswith("text/event-stream")
        is_read = dialect is not None and found.status_code == HTTPStatus.OK
        self._reply = Reply(dialect, is_stream=is_stream, most=MAX_TURN_CHARS) if dialect and is_read else None

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes. Raises ProviderUnavailableError where it breaks off: the caller's does, too."""
        try:
            async for part in self._found.aiter_raw():
                if self._reply is not None:
                    self._reply.feed(part)
                yield part
            if self._reply is not None:
                self._reply.end()
        except httpx.HTTPError:
            raise ProviderUnavailableError("the upstream broke off") from None
        finally:
            await self._found.aclose()

    @property
    def said(self) -> str | None:
        """What the model said, once all of it has gone by."""
        return None if self._reply is None else self._reply.text


def _upstream(config: RouterConfig, named: str | None) -> Upstream:
    name = named or next(iter(config.upstreams), None)
    if name is None:
        raise MemoryNotFoundError("router: the policy names no upstream: see memory.router.upstreams")
    if name not in config.upstreams:
        raise MemoryInputError(f"{OWN}upstream", "is none of memory.router.upstreams")
    return Upstream(name, config.upstreams[name])


def _named(request: Request, what: str) -> str | None:
    given = request.headers.get(f"{OWN}{what}", "").strip()
    if len(given) > MAX_KEY_CHARS:
        raise MemoryInputError(f"{OWN}{what}", f"has {len(given)} characters; the limit is {MAX_KEY_CHARS}")
    return given or None


def _clean(text: str) -> str:
    """Return a text as memory takes it: not too long, without NUL and halves of characters."""
    return text[:MAX_TURN_CHARS].replace("\0", " ").encode("utf-8", "replace").decode()


async def _keep(service: CompanyService, owner: Owner, turn: Turn, said: str) -> None:
    # Under a name of its own, so that a request that is sent again is kept once.
    name = hashlib.blake2b(turn.body.encode(), digest_size=16).hexdigest()
    try:
        await service.engine.extract_turn(
            owner.agent,
            session_id=owner.session,
            user_id=owner.user,
            user_text=_clean(turn.text),
            assistant_text=_clean(said),
            turn=name,
        )
    except (MemoryError, TimeoutError) as error:
        _warn(owner, error)


def _warn(owner: Owner, error: Exception) -> None:
    _log.warning(Event.MEMORY_ROUTER_AWAY, extra={"agent_id": owner.agent, "error": type(error).__name__})


def mount(app: FastAPI, context: ServeContext) -> None:
    """Add ``/router/v1/...`` to the app of ``serve``; its connections end with it."""
    router = Router(context=context)
    app.router.routes.append(Route("/router/v1/{path:path}", endpoint=router.answer, methods=["GET", "POST"]))
    outer = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(served: Any) -> AsyncIterator[Any]:
        async with outer(served) as state:
            try:
                yield state
            finally:
                await router.upstreams.close()

    app.router.lifespan_context = lifespan
