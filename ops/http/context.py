"""What a running ``serve`` holds: settings, ledger, keys, limits, and of each company one connected service."""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Annotated, Self

from fastapi import Depends, Request

from memcore.client.async_client import AsyncMemoryClient
from memcore.clock import Clock, utc_now
from memcore.config.loader import effective_policy
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.ledger.companies import CompanyPolicies
from memcore.ledger.ledger import Ledger
from memcore.memory.async_memory import AsyncMemory
from ops.http.access import Callers, company_service
from ops.http.limits import BURST, MAX_BODY_BYTES, RATE_PER_SECOND, RateLimiter
from ops.http.operations import Operations

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanyService:
    """The memories of one company, with one connected backend, which opens with the first read.

    Attributes:
        engine: what engines call: search, prompts, single memories, conversations.
        client: sends every other job.
    """

    company: str
    settings: Settings
    policy: Policy
    engine: AsyncMemory
    client: AsyncMemoryClient
    ledger: Ledger
    clock: Clock


@dataclass(slots=True)
class _Kept:
    service: CompanyService
    believed_until: float


@dataclass(eq=False, kw_only=True)
class ServeContext:
    """What the routes of one process share; made before the event loop runs, closed at its end.

    Each company's service opens with its first request and stays open. A change of its policy takes effect when
    ``serve`` is started again; a company that is removed is refused within seconds.
    """

    settings: Settings
    options: ServeOptions
    policies: CompanyPolicies
    ledger: Ledger
    callers: Callers
    operations: Operations
    clock: Clock = utc_now
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
            settings, policy = await asyncio.to_thread(self._configuration, company)
            kept = self._services.get(company)
            if kept is None:
                kept = self._services[company] = _Kept(self._made(company, settings, policy), 0.0)
            kept.believed_until = now + CHECK_SECONDS
            return kept.service

    def _configuration(self, company: str) -> tuple[Settings, Policy]:
        if company == self.settings.company and self.ledger.companies.get(company) is None:
            return self.settings, self.policies.policy
        return self.policies.of(self.ledger.companies.served(company))

    def _made(self, company: str, settings: Settings, policy: Policy) -> CompanyService:
        engine = AsyncMemory.from_settings(settings, policy)
        return CompanyService(
            company=company,
            settings=settings,
            policy=policy,
            engine=engine,
            client=engine.client,
            ledger=self.ledger,
            clock=self.clock,
        )

    async def close(self) -> None:
        """Close every service, and the ledger."""
        async with AsyncExitStack() as closing:
            closing.callback(self.ledger.close)
            closing.push_async_callback(self.callers.close)
            for kept in self._services.values():
                closing.push_async_callback(kept.service.engine.close)
            self._services.clear()


async def serving(request: Request) -> ServeContext:
    """Return what this process serves with; a dependency."""
    found: ServeContext = request.app.state.serving
    return found


#: The context of a route.
Serving = Annotated[ServeContext, Depends(serving)]

#: The connected service of the caller's company.
Service = Annotated[CompanyService, Depends(company_service)]
