"""What the services of one company are built from, and what all companies of a process share."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from memcore.backends.factory import WorkerBackend, create_worker_backend, embedder_choice, mem0_config_of
from memcore.clock import Clock, utc_now
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.embedding.protocol import Embedder
from memcore.event_loop import LoopThread
from memcore.jobs import Payload
from memcore.ledger.companies import CompanyPolicies
from memcore.ledger.ledger import Ledger
from memcore.ledger.work_items import WorkItem
from memcore.llm.accounting import create_model
from memcore.llm.protocol import Model

if TYPE_CHECKING:
    from memcore.backends.mem0.collection import StoreConnections


class JobDispatcher(Protocol):
    """Publishes a job for ledger rows that are ready; the sweep dispatches again what a lost message named."""

    def dispatch(self, items: Iterable[WorkItem]) -> None:
        """Send the messages of work items. Raises MemoryConnectionError."""
        ...


def dispatch_open(dispatcher: JobDispatcher, ledger: Ledger, company: str, kind: type[Payload]) -> None:
    """Send the messages of a company's open work of a kind of which there is little at once.

    Raises MemoryConnectionError.
    """
    dispatcher.dispatch(ledger.work.open(company, kind.task))


@dataclass(frozen=True, eq=False, kw_only=True)
class SharedConnections:
    """What all companies of one process share; open it after the fork, and close it behind their contexts.

    Attributes:
        settings: of the installation, as are the policy and the embedder.
        store: the connections of their backends.
        loop: runs what all services await.
    """

    settings: Settings
    policy: Policy
    policies: CompanyPolicies
    ledger: Ledger
    store: "StoreConnections"
    loop: LoopThread
    dispatcher: JobDispatcher
    embedder: Embedder | None
    clock: Clock

    @classmethod
    def open(
        cls,
        settings: Settings,
        policy: Policy,
        dispatcher: JobDispatcher,
        *,
        embedder: Embedder | None = None,
        clock: Clock = utc_now,
    ) -> Self:
        """Start the event loop, and prepare ledger and store, which connect with their first calls."""
        # The store's client takes a third of a second to import, and the doctor imports the jobs.
        from memcore.backends.mem0.collection import StoreConnections  # noqa: PLC0415  # see above

        return cls(
            settings=settings,
            policy=policy,
            policies=CompanyPolicies(settings, policy),
            ledger=Ledger.open(settings.ledger_urls, clock=clock),
            store=StoreConnections(mem0_config_of(settings), clock=clock),
            loop=LoopThread("worker-loop"),
            dispatcher=dispatcher,
            embedder=embedder,
            clock=clock,
        )

    def configuration(self, company: str) -> tuple[Settings, Policy]:
        """Return the settings and the policy of a company as they are now.

        Raises MemoryNotFoundError for a company that is not registered, or removed; MemoryConfigError.
        """
        if company == self.settings.company and self.ledger.companies.get(company) is None:
            return self.settings, self.policy
        return self.policies.of(self.ledger.companies.served(company))

    def close(self) -> None:
        """Close ledger and store, and stop the loop."""
        self.store.close()
        self.ledger.close()
        self.loop.close()


@dataclass(frozen=True, eq=False, kw_only=True)
class CompanyContext:
    """What the services of one company are built from.

    Attributes:
        policies: the policies of all companies.
        model: the language model; None where none is connected.
        dispatcher: publishes jobs for rows.
        loop: runs what services await; backend and model belong to it.
        opened: what closes with the context; a service that opens something adds it.
    """

    settings: Settings
    policy: Policy
    policies: CompanyPolicies
    ledger: Ledger
    backend: WorkerBackend
    model: Model | None
    dispatcher: JobDispatcher
    loop: LoopThread
    clock: Clock = utc_now
    opened: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def open(cls, shared: SharedConnections, company: str) -> Self:
        """Connect to the company's memories.

        Raises MemoryNotFoundError for a company that is not registered; MemoryConfigError; MemoryConnectionError.
        """
        settings, policy = shared.configuration(company)
        is_shared = embedder_choice(settings, policy) == embedder_choice(shared.settings, shared.policy)
        loop, clock = shared.loop, shared.clock
        with ExitStack() as opened:
            backend = create_worker_backend(
                settings,
                policy,
                embedder=shared.embedder if is_shared else None,
                connections=shared.store,
                clock=clock,
            )
            loop.run(backend.connect())
            opened.callback(lambda: loop.run(backend.disconnect()))
            model = create_model(settings, policy, shared.ledger, clock=clock)
            if model is not None:
                opened.callback(lambda: loop.run(model.close()))
            return cls(
                settings=settings,
                policy=policy,
                policies=shared.policies,
                ledger=shared.ledger,
                backend=backend,
                model=model,
                dispatcher=shared.dispatcher,
                loop=loop,
                clock=clock,
                opened=opened.pop_all(),
            )

    @property
    def company(self) -> str:
        """The company's name."""
        return self.settings.company


class CompanyService(Protocol):
    """A service that a job may declare."""

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build it for a company; called once, when a job first needs it."""
        ...
