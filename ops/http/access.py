"""Who calls: keys of callers, what each may do, and the dependencies by which a route asks for it."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from fastapi import Depends, Path, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from memcore.clock import Clock, utc_now
from memcore.deadline.limits import limited_parts
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.ledger.access.keys import ApiKey, ApiKeys, Verb
from memcore.models.memory import MAX_KEY_CHARS, require_agent_id
from memcore.models.origin import ENGINE, Writer, writing_as
from ops.http.limits import ROUTER, RateLimiter
from ops.http.problems import (
    MemoryForbiddenError,
    MemoryRateLimitError,
    MemoryUnauthorizedError,
    problem_response,
)

__all__ = ["Authenticate", "Caller", "Callers", "CurrentCaller", "ReadAgent", "Verb", "WriteAgent", "agent_for"]

#: How long a key is believed after the ledger was asked, in seconds: so long a revoked one may still be used.
CACHE_SECONDS = 5.0

#: Most keys that are believed at once.
_MOST_CACHED = 10_000

#: How often the last use of a key is saved, in seconds.
_NOTE_SECONDS = 60.0

#: Paths that need no key: they say nothing of any company.
OPEN_PATHS = frozenset({"/health", "/ready", "/openapi.json", "/docs"})

#: Where the console is. Its own app asks for a session there, see ``ops.web.sessions``.
CONSOLE = "/console"

#: The header with the key of a caller of the router, whose Authorization header is for the model's server.
ROUTER_KEY = "x-memtend-key"

#: Schemes of the Authorization header: mem0's clients say Token.
_SCHEMES = frozenset({"bearer", "token"})

#: The key id of the caller where no key is asked for.
NO_KEY = "loopback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sends a request: a key's company, agents and verbs.

    Attributes:
        name: the key's name; the audit names it as the actor.
        agents: None for every agent of the company.
        writer: whose is what it writes.
    """

    key_id: str
    name: str
    company: str
    agents: frozenset[str] | None
    verbs: frozenset[Verb]
    writer: Writer

    @classmethod
    def of(cls, key: ApiKey) -> "Caller":
        """Return the caller of a key."""
        return cls(
            key_id=key.key_id,
            name=key.name,
            company=key.company,
            agents=key.agents,
            verbs=key.verbs,
            writer=key.writer,
        )

    def sees(self, agent_id: str | None) -> bool:
        """Return whether the key is for an agent; for None, whether it is for all of its company."""
        return self.agents is None or agent_id in self.agents

    def require(self, verb: Verb, *, agent_id: str | None = None) -> None:
        """Raise MemoryForbiddenError unless the key may do this with an agent, or, for None, with its company."""
        if verb not in self.verbs:
            raise MemoryForbiddenError(f"the key is not for the verb {verb}")
        if not self.sees(agent_id):
            raise MemoryForbiddenError(
                "the key is not for all agents" if agent_id is None else "the key is not for this agent"
            )


class Callers:
    """Finds the caller of a token, and counts its requests.

    Args:
        keys: the table of keys; None where no key is asked for.
        company: the installation's own company: the caller's where no key is asked for.
        limiter: how many requests a key may send.
        monotonic: seconds that only grow.
    """

    def __init__(
        self,
        keys: ApiKeys | None,
        *,
        company: str,
        limiter: RateLimiter,
        clock: Clock = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = keys
        # Without keys everybody is a process of this machine, as an engine is.
        self._anyone = Caller(
            key_id=NO_KEY, name=NO_KEY, company=company, agents=None, verbs=frozenset(Verb), writer=ENGINE
        )
        self._limiter = limiter
        self._clock = clock
        self._monotonic = monotonic
        # By what it is, a key or a session, so that neither passes as the other, and by its hash, so that this process
        # keeps no secret.
        self._believed: dict[tuple[str, bytes], tuple[Caller, float]] = {}
        self._noted: dict[str, float] = {}
        self._noting: set[asyncio.Task[None]] = set()

    async def of(self, authorization: str | None) -> Caller:
        """Return the caller of a request by its Authorization header.

        Raises MemoryUnauthorizedError, MemoryRateLimitError, MemoryConnectionError.
        """
        return self._counted(self._anyone if self._keys is None else await self._with_key(self._keys, authorization))

    async def _with_key(self, keys: ApiKeys, authorization: str | None) -> Caller:
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() not in _SCHEMES or not token:
            raise MemoryUnauthorizedError("send the header Authorization: Bearer mt_...; see `memtend keys create`")
        return await self._known(keys, "key", token, keys.of_token)

    async def of_session(self, cookie: str | None, find: Callable[[str], ApiKey | None]) -> Caller:
        """Return the caller of a session of the console; ``find`` gives the key of its cookie, and may block.

        Raises MemoryUnauthorizedError, MemoryRateLimitError, MemoryConnectionError.
        """
        if self._keys is None:
            caller = self._anyone
        elif cookie is None:
            raise MemoryUnauthorizedError("sign in with a key; see `memtend keys create`")
        else:
            caller = await self._known(self._keys, "session", cookie, find)
        return self._counted(caller)

    def _counted(self, caller: Caller) -> Caller:
        wait = self._limiter.take(caller.key_id)
        if wait:
            raise MemoryRateLimitError(wait)
        return caller

    async def _known(self, keys: ApiKeys, kind: str, secret: str, find: Callable[[str], ApiKey | None]) -> Caller:
        name = kind, hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
        now = self._monotonic()
        caller, until = self._believed.get(name, (None, 0.0))
        if caller is None or now >= until:
            with limited_parts():
                key = await asyncio.to_thread(find, secret)
            if key is None:
                self._believed.pop(name, None)
                raise MemoryUnauthorizedError("the key is not valid, or was revoked")
            if len(self._believed) >= _MOST_CACHED:
                self._believed.clear()
            caller = Caller.of(key)
            self._believed[name] = caller, now + CACHE_SECONDS
            self._note(keys, caller.key_id, now)
        return caller

    def _note(self, keys: ApiKeys, key_id: str, now: float) -> None:
        if now - self._noted.get(key_id, float("-inf")) < _NOTE_SECONDS:
            return
        self._noted[key_id] = now
        task = asyncio.get_running_loop().create_task(_note_use(keys, key_id, self._clock()))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def close(self) -> None:
        """Wait until the last uses are saved."""
        await asyncio.gather(*self._noting)


async def _note_use(keys: ApiKeys, key_id: str, at: datetime) -> None:
    # For people who look for keys that nobody uses: no request fails for it.
    with suppress(MemoryError):
        await asyncio.to_thread(keys.note_use, key_id, at=at)


class Authenticate:
    """Middleware: refuses a request without a valid key before its body is read, whatever its path.

    Routes that are mounted or added later are behind it too; each then says which verb it asks for. Where no key is
    asked for, a request must name this machine as its host, and come from no page of another site.
    """

    def __init__(
        self, app: ASGIApp, *, caller_of: Callable[[str | None], Awaitable[Caller]], requires_key: bool
    ) -> None:
        self._app = app
        self._caller_of = caller_of
        self._requires_key = requires_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS and not is_of_console(scope["path"]):
            headers = Headers(scope=scope)
            try:
                if not self._requires_key:
                    require_loopback(headers.get("host", ""))
                    require_no_other_site(headers)
                scope["caller"] = caller = await self._caller_of(_sent_key(headers, scope["path"]))
            except MemoryError as error:
                await problem_response(error)(scope, receive, send)
                return
            with writing_as(caller.writer):
                await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            # Nothing here speaks it; closed before it is accepted, it is refused.
            await send({"type": "websocket.close", "code": 1008})
            return
        await self._app(scope, receive, send)


def require_loopback(host: str) -> None:
    """Raise MemoryForbiddenError unless the header Host names this machine.

    Without keys everybody who reaches the address comes in: another site must not lead a browser here by a name of its
    own that points to this machine.
    """
    if _split(f"//{host}").hostname not in {"127.0.0.1", "localhost", "::1"}:
        raise MemoryForbiddenError("without keys serve is for http://127.0.0.1 and http://localhost alone")


def require_no_other_site(headers: Headers) -> None:
    """Raise MemoryForbiddenError where a browser sends a request for a page of another site.

    Without keys every page that somebody visits on this machine could store, read and delete. Programs send neither
    of these headers.
    """
    is_foreign = "origin" in headers and not is_same_origin(headers)
    if is_foreign or headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}:
        raise MemoryForbiddenError("without keys serve takes no request of another site's page")


def is_same_origin(headers: Headers) -> bool:
    """Return whether the header Origin is there and names the host that the request names.

    The scheme is not compared: a proxy that speaks TLS hides it.
    """
    site = _split(headers.get("origin", "")).netloc.lower()
    return site != "" and site == headers.get("host", "").lower()


def _split(address: str) -> SplitResult:
    # A header may hold what is no address, such as an open bracket.
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def is_of_console(path: str) -> bool:
    """Return whether a path is one of the console's."""
    return path == CONSOLE or path.startswith(f"{CONSOLE}/")


def _sent_key(headers: Headers, path: str) -> str | None:
    """Return the Authorization header, or the key of the header that clients of mem0's server or the router's send."""
    is_router = path.startswith(ROUTER)
    key = headers.get(ROUTER_KEY if is_router else "x-api-key")
    authorization = None if is_router else headers.get("authorization")
    return authorization or (None if key is None else f"Bearer {key}")


async def current_caller(request: Request) -> Caller:
    """Return who sends the request; a dependency."""
    caller = request.scope.get("caller")
    if not isinstance(caller, Caller):
        raise MemoryUnauthorizedError("send the header Authorization: Bearer mt_...; see `memtend keys create`")
    return caller


#: The caller of a route.
CurrentCaller = Annotated[Caller, Depends(current_caller)]


def agent_for(verb: Verb) -> Callable[..., Awaitable[str]]:
    """Return a dependency that gives a route its agent, once the caller may do this with that agent."""

    async def agent(
        agent_id: Annotated[str, Path(min_length=1, max_length=MAX_KEY_CHARS, description="The agent's id.")],
        caller: CurrentCaller,
    ) -> str:
        caller.require(verb, agent_id=agent_id)
        return require_agent_id(agent_id)

    return agent


#: The agent of a route that reads.
ReadAgent = Annotated[str, Depends(agent_for(Verb.READ))]

#: The agent of a route that writes.
WriteAgent = Annotated[str, Depends(agent_for(Verb.WRITE))]
