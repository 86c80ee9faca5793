"""What a running ``serve`` holds: settings, ledger, keys, limits, and of each company one connected service."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Self

from fastapi import Depends, Request

from memcore.backends.factory import WorkerBackend, create_configured_embedder
from memcore.backends.protocol import MemoryBackend
from memcore.clock import Clock, utc_now
from memcore.company import JobDispatcher
from memcore.config.loader import effective_policy
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.deadline.limits import limited_parts
from memcore.errors import MemoryBackendUnsupportedError
from memcore.ledger.companies import CompanyPolicies
from memcore.ledger.ledger import Ledger
from memcore.ledger.work_items import WorkItem
from memcore.memory.async_memory import AsyncMemory, memory_over
from memcore.memory.reader import open_shared_backend
from memcore.service import MemoryService
from memcore.service.resources import ServiceResources
from ops.http.access import Callers, CurrentCaller
from ops.http.limits import BURST, MAX_BODY_BYTES, RATE_PER_SECOND, RateLimiter
from ops.http.operations import Operations
from ops.metrics.collector import Collector
from ops.metrics.latency import ServeTimes, TimedEmbedder
from workers.broker import BrokerDispatcher, broker_app

if TYPE_CHECKING:
    from memcore.client.publisher import OwnCelery

#: How long a company is believed to be served after the ledger was asked, in seconds.
CHECK_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """How a ``serve`` runs.

    Attributes:
        requires_key: False lets everybody who reaches the address do everything with the installation's own company.
        rate_per_second: requests a second of one key.
        burst: requests that a key may send at once.
        max_body_bytes: largest body of a request.
    """

    requires_key: bool = True
    rate_per_second: float = RATE_PER_SECOND
    burst: int = BURST
    max_body_bytes: int = MAX_BODY_BYTES


class CompanyService(MemoryService):
    """The service of one company, with one connected backend, which opens with the first read.

    Attributes:
        engine: what an engine does: store, search, get, change and forget; conversations.
    """

    def __init__(
        self,
        settings: Settings,
        policy: Policy,
        ledger: Ledger,
        dispatcher: JobDispatcher,
        *,
        times: ServeTimes,
        clock: Clock,
    ) -> None:
        self.engine = memory_over(
            AsyncMemory,
            settings,
            policy,
            lambda: _timed_backend(settings, policy, times),
            # Its clients go on with their sessions when it is started anew.
            ends_conversations=False,
        )
        # One backend and one client for both.
        resources = ServiceResources(
            settings,
            policy,
            ledger,
            dispatcher,
            open_backend=self._engine_backend,
            client=self.engine.client,
            clock=clock,
        )
        super().__init__(resources)

    async def close(self) -> None:
        """Send what was counted, and disconnect; a call after it connects again."""
        await super().close()
        await self.engine.close()

    @asynccontextmanager
    async def _engine_backend(self) -> AsyncIterator[WorkerBackend]:
        backend = await self.engine.backend()
        if not isinstance(backend, WorkerBackend):
            raise MemoryBackendUnsupportedError(f"the backend {backend.backend_name} has no batch protocol")
        # The engine's own close disconnects it.
        yield backend


def _timed_backend(settings: Settings, policy: Policy, times: ServeTimes) -> MemoryBackend:
    embedder = create_configured_embedder(settings, policy)
    timed = None if embedder is None else TimedEmbedder(embedder, times)
    return open_shared_backend(settings, policy, embedder=timed)


class LazyDispatcher:
    """Publishes jobs for ledger rows; it connects to the broker with the first one. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._app: OwnCelery | None = None
        self._opening = threading.Lock()

    def dispatch(self, items: Iterable[WorkItem]) -> None:
        """Send the messages of work items. Raises MemoryConnectionError."""
        with self._opening:
            if self._app is None:
                self._app = broker_app(self._settings)
        BrokerDispatcher(self._app).dispatch(items)

    def close(self) -> None:
        """Close the connections."""
        with self._opening:
            app, self._app = self._app, None
        if app is not None:
            app.close()


@dataclass(slots=True)
class _Kept:
    service: CompanyService
    believed_until: float


@dataclass(eq=False, kw_only=True)
class ServeContext:
    """What the routes of one process share; made before the event loop runs, closed at its end.

    Each company's service opens with its first request and stays open. A change of its policy takes effect when
    ``serve`` is started again; a company that is removed is refused within seconds.

    Attributes:
        stopping: set when the process is asked to stop: answers that have no end of their own end then.
    """

    settings: Settings
    options: ServeOptions
    policies: CompanyPolicies
    ledger: Ledger
    callers: Callers
    operations: Operations
    dispatcher: LazyDispatcher
    times: ServeTimes = field(default_factory=ServeTimes)
    clock: Clock = utc_now
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _services: dict[str, _Kept] = field(default_factory=dict)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def open(cls, settings: Settings, options: ServeOptions | None = None, *, clock: Clock = utc_now) -> Self:
        """Return the context of an installation; nothing is connected to yet. Raises MemoryConfigError."""
        options = options or ServeOptions()
        ledger = Ledger.open(settings.ledger_urls, clock=clock)
        callers = Callers(
            ledger.api_keys if options.requires_key else None,
            company=settings.company,
            limiter=RateLimiter(rate=options.rate_per_second, burst=options.burst),
            clock=clock,
        )
        return cls(
            settings=settings,
            options=options,
            policies=CompanyPolicies(settings, effective_policy(settings.policy_path)),
            ledger=ledger,
            callers=callers,
            operations=Operations(settings),
            dispatcher=LazyDispatcher(settings),
            clock=clock,
        )

    async def service(self, company: str) -> CompanyService:
        """Return the service of a company.

        Raises MemoryNotFoundError for a company that is not registered, or removed; MemoryConfigError,
        MemoryConnectionError.
        """
        kept, now = self._services.get(company), time.monotonic()
        if kept is not None and now < kept.believed_until:
            return kept.service
        async with self._opening:
            with limited_parts():
                settings, policy = await asyncio.to_thread(self._configuration, company)
            kept = self._services.get(company)
            if kept is None:
                kept = self._services[company] = _Kept(self._made(settings, policy), 0.0)
            kept.believed_until = now + CHECK_SECONDS
            return kept.service

    def _configuration(self, company: str) -> tuple[Settings, Policy]:
        own = self.settings
        if company == own.company and self.ledger.companies.get(company) is None:
            return own, self.policies.policy
        return self.policies.of(self.ledger.companies.served(company))

    def _made(self, settings: Settings, policy: Policy) -> CompanyService:
        return CompanyService(settings, policy, self.ledger, self.dispatcher, times=self.times, clock=self.clock)

    @cached_property
    def collector(self) -> Collector:
        """What gathers the metrics."""
        return Collector(self.settings, self.policies, self.ledger, self.times, clock=self.clock)

    async def close(self) -> None:
        """Close every service, and the ledger."""
        async with AsyncExitStack() as closing:
            closing.callback(self.ledger.close)
            closing.callback(self.dispatcher.close)
            closing.push_async_callback(self.callers.close)
            for kept in self._services.values():
                closing.push_async_callback(kept.service.close)
            self._services.clear()


async def serving(request: Request) -> ServeContext:
    """Return what this process serves with; a dependency."""
    found: ServeContext = request.app.state.serving
    return found


#: The context of a route.
Serving = Annotated[ServeContext, Depends(serving)]


async def company_service(serving: Serving, caller: CurrentCaller) -> CompanyService:
    """Return the service of the caller's company, connected; a dependency."""
    return await serving.service(caller.company)


#: The connected service of the caller's company.
Service = Annotated[CompanyService, Depends(company_service)]
