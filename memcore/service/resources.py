"""What the subjects of a company's service share: its ledger, one backend and one client, opened when first needed."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from memcore.backends.factory import WorkerBackend, create_worker_backend
from memcore.client.async_client import AsyncMemoryClient
from memcore.clock import Clock, utc_now
from memcore.company import JobDispatcher, dispatch_open
from memcore.deadline.limits import unlimited
from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.jobs import Payload
from memcore.ledger.erasure.hidden import Hidden
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import done_by
from memcore.ledger.work_items import WorkItem
from memcore.models.origin import Authority, Origin, is_shown, least_shown
from memcore.telemetry.events import Event

if TYPE_CHECKING:
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings

#: Most rows that a page passes over: databases count no further than 2**63.
MAX_OFFSET = 1_000_000_000


def check_page(limit: int, most: int, *, offset: int = 0) -> None:
    """Raise MemoryInputError for a page that nobody may ask for."""
    if not 1 <= limit <= most:
        raise MemoryInputError("limit", f"must be 1 to {most}")
    if not 0 <= offset <= MAX_OFFSET:
        raise MemoryInputError("offset", f"must be 0 to {MAX_OFFSET}")


#: Opens the company's memories, and closes them when its block ends.
BackendOpener = Callable[[], AbstractAsyncContextManager[WorkerBackend]]

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)


class ServiceResources:
    """The ledger, the backend and the client of one company's service.

    The backend connects with the first call that needs it and stays connected until ``close``. It belongs to the event
    loop of that call. The opener of the ledger closes it.

    Args:
        policy: the policy in force, or a function that returns it: most subjects need none, and go on with a policy
            file that is broken.
        company: whose; that of the settings when left out.
        open_backend: opens the memories; left out, as settings and policy say.
        client: sends jobs, and its opener closes it; left out, one of the service's own.
    """

    def __init__(
        self,
        settings: "Settings",
        policy: "Policy | Callable[[], Policy]",
        ledger: Ledger,
        dispatcher: JobDispatcher,
        *,
        company: str | None = None,
        open_backend: BackendOpener | None = None,
        client: AsyncMemoryClient | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self.settings = settings
        self.ledger = ledger
        self.dispatcher = dispatcher
        self.company = settings.company if company is None else company
        self.clock = clock
        self._policy = policy
        self._given_client = client
        self._open_backend = self._configured_backend if open_backend is None else open_backend
        self._connected: WorkerBackend | None = None
        self._opened = AsyncExitStack()
        self._connecting = asyncio.Lock()

    @cached_property
    def policy(self) -> "Policy":
        """The policy in force; raises MemoryConfigError."""
        return self._policy() if callable(self._policy) else self._policy

    @cached_property
    def client(self) -> AsyncMemoryClient:
        """Sends jobs; it connects with the first one, and ``close`` closes it."""
        if self._given_client is not None:
            return self._given_client
        client = AsyncMemoryClient.from_settings(self.settings)
        self._opened.push_async_callback(client.close)
        return client

    @property
    def connected(self) -> WorkerBackend | None:
        """The backend where it is connected already, else None."""
        return self._connected

    async def backend(self) -> WorkerBackend:
        """Return the company's connected backend. Raises MemoryConnectionError, MemoryConfigError."""
        if self._connected is None:
            # It loads libraries and a model, which takes seconds, and is no wait for a part that is away.
            with unlimited():
                async with self._connecting:
                    if self._connected is None:
                        self._connected = await self._opened.enter_async_context(self._open_backend())
        return self._connected

    async def close(self) -> None:
        """Disconnect backend and client; the next call that needs one connects again."""
        opened, self._opened, self._connected = self._opened, AsyncExitStack(), None
        self.__dict__.pop("client", None)
        await opened.aclose()

    async def run(self, call: Callable[_Given, _Result], *args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        """Return what a blocking call returns, made in a thread: the ledger waits for its database."""
        return await asyncio.to_thread(call, *args, **kwargs)

    async def hidden(self) -> Hidden:
        """Return what is being erased: nobody is shown it. Raises MemoryConnectionError."""
        return await self.run(self.ledger.hidden.of, self.company)

    async def note(self, by: str | None, action: str, subject: str, *, reason: str | None = None) -> None:
        """Add what a person did to the audit."""
        await self.run(self.ledger.audit.note, self.company, done_by(by, action, subject, reason=reason))

    async def note_given(self, by: str | None, action: str, subject: str, *, reason: str | None) -> None:
        """Add it as ``note`` does, where a name or a reason is given."""
        if by is not None or reason is not None:
            await self.note(by, action, subject, reason=reason)

    async def dispatch(self, items: Iterable[WorkItem]) -> None:
        """Send the messages of work items; what the broker does not take, the sweep dispatches."""
        await self._dispatched(self.dispatcher.dispatch, list(items))

    async def dispatch_open(self, kind: type[Payload]) -> None:
        """Send the messages of the company's open work of a kind, as ``dispatch`` does."""
        await self._dispatched(dispatch_open, self.dispatcher, self.ledger, self.company, kind)

    async def _dispatched(self, dispatch: Callable[..., None], *given: object) -> None:
        try:
            await asyncio.to_thread(dispatch, *given)
        except MemoryConnectionError:
            # What was asked for stands in its row, and the sweep dispatches when the broker is back.
            _log.warning(Event.MEMORY_SERVICE_BELL_UNHEARD, extra={"company": self.company})

    @asynccontextmanager
    async def _configured_backend(self) -> AsyncIterator[WorkerBackend]:
        backend = create_worker_backend(self.settings, self.policy, is_readers=True, clock=self.clock)
        await backend.connect()
        try:
            yield backend
        finally:
            await backend.disconnect()


class CompanyPart:
    """A part of a company's service: its resources, the ledger, and the company's name."""

    def __init__(self, resources: ServiceResources) -> None:
        self._resources = resources
        self._ledger = resources.ledger
        self._company = resources.company

    def _is_shown(self, origin: Origin | None) -> bool:
        """Return whether this reader is shown what has this origin, as the policy and its key say."""
        # A person reads on with a policy file that is broken.
        shows_all = least_shown(Authority.QUARANTINED) is Authority.QUARANTINED
        return shows_all or is_shown(origin, self._resources.policy.memory.origins.authority)

    async def _ask(
        self, call: Callable[Concatenate[str, _Given], _Result], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> _Result:
        """Return what a call of the ledger says of the company."""
        return await self._resources.run(call, self._company, *args, **kwargs)
