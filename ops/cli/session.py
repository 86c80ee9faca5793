"""What every command has: the stack that it is for, its resources, its output, and options that are one object."""

import inspect
import logging
import os
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, wraps
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from pydantic import BaseModel

from memcore.config.loader import effective_policy
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.errors import MemoryConnectionError, MemoryStoreError
from memcore.models.origin import OPERATOR, writing_as
from ops.cli import console
from ops.cli.console import AsJson
from workers.logs import FieldsFormatter

# Ledger, client and event loop are imported where they are used: the supervisor keeps what it imports for months.
if TYPE_CHECKING:
    import asyncio

    from memcore.backends.factory import WorkerBackend
    from memcore.client.client import MemoryClient
    from memcore.client.results import StoreReceipt
    from memcore.ledger.ledger import Ledger
    from memcore.ledger.work_items import WorkItem
    from memcore.service import MemoryService

Result = TypeVar("Result")


@dataclass(frozen=True)
class Command:
    """The stack that a command is for, and its resources, each closed when its block ends."""

    home: Annotated[Path | None, typer.Option("--home", help="Data folder; else MEMTEND_HOME, else ~/.memtend.")] = None

    @cached_property
    def settings(self) -> Settings:
        """The settings of the stack; raises MemoryConfigError when nothing runs there."""
        return Settings.load(os.environ, self.home)

    @cached_property
    def company(self) -> str:
        """The stack's company."""
        return self.settings.company

    @cached_property
    def policy(self) -> Policy:
        """The policy in force for the company; raises MemoryConfigError."""
        return self.policy_from(policy_of(self.settings))

    def policy_from(self, policy: Policy) -> Policy:
        """Return the company's policy where the installation has this one; raises MemoryConfigError."""
        from memcore.ledger.companies import CompanyPolicies  # noqa: PLC0415  # see above

        with self.ledger() as ledger:
            row = ledger.companies.get(self.company)
        return policy if row is None else CompanyPolicies(self.settings, policy).of(row)[1]

    def ledger(self) -> "AbstractContextManager[Ledger]":
        """Open the stack's ledger."""
        return ledger_of(self.settings)

    def client(self) -> "MemoryClient":
        """Open a client of the stack."""
        from memcore.client.client import MemoryClient  # noqa: PLC0415  # see above

        return MemoryClient.from_settings(self.settings)

    @contextmanager
    def backend(self) -> "Iterator[tuple[WorkerBackend, asyncio.Runner]]":
        """Yield the stack's backend, connected, and the runner for its coroutines."""
        # The store's client and the embedder take a second to import, and few commands search.
        import asyncio  # noqa: PLC0415  # see above

        from memcore.backends.factory import create_worker_backend  # noqa: PLC0415  # see above

        backend = create_worker_backend(self.settings, self.policy, is_readers=True)
        with asyncio.Runner() as runner:
            runner.run(backend.connect())
            try:
                yield backend, runner
            finally:
                runner.run(backend.disconnect())

    def dispatch(self, items: "Iterable[WorkItem]") -> None:
        """Send the messages of work items; for what a worker holds already, a message does nothing."""
        # The broker takes half a second to import, and few commands dispatch.
        from workers.broker import BrokerDispatcher, broker_app  # noqa: PLC0415  # see above

        # The change is made: where the broker does not answer, the sweep dispatches when it is back.
        with closing(broker_app(self.settings)) as app, suppress(MemoryConnectionError):
            BrokerDispatcher(app).dispatch(items)

    @contextmanager
    def service(self, *, company: str | None = None) -> "Iterator[tuple[MemoryService, asyncio.Runner]]":
        """Yield the memory service of the company, or of another whose ledger rows alone are used, and its runner."""
        # It takes a tenth of a second to import, and the shell waits for ``--help`` too.
        import asyncio  # noqa: PLC0415  # see above

        from memcore.service import create_memory_service  # noqa: PLC0415  # see above

        # The runner's calls know who wrote when it was made.
        with writing_as(OPERATOR), self.ledger() as ledger, asyncio.Runner() as runner:
            # The policy when a call needs it: a broken file must not keep anybody from pausing maintenance.
            service = create_memory_service(
                self.settings, lambda: self.policy, ledger, self, company=company or self.company
            )
            try:
                yield service, runner
            finally:
                runner.run(service.close())

    def run(self, call: "Callable[[MemoryService], Coroutine[Any, Any, Result]]") -> Result:
        """Return the result of one call of the company's memory service."""
        with self.service() as (service, runner):
            return runner.run(call(service))


@dataclass(frozen=True)
class JsonCommand(Command):
    """A command that prints a table, or with ``--json`` JSON."""

    as_json: AsJson = False

    def show_rows(self, rows: Iterable[Mapping[str, Any] | BaseModel], *columns: str) -> None:
        """Print rows: all their fields as JSON, or these columns as a table."""
        console.show_rows(rows, columns=columns, as_json=self.as_json)

    def show_facts(self, facts: Mapping[str, Any] | BaseModel) -> None:
        """Print one thing's fields, a line each, or as a JSON object."""
        if self.as_json:
            console.show_json(facts if isinstance(facts, BaseModel) else dict(facts))
            return
        shown = dict(facts)
        width = max(map(len, shown), default=0)
        for name, value in shown.items():
            console.say(f"{name:<{width}}  {console.cell(value)}")


@dataclass(frozen=True)
class CompanyCommand(JsonCommand):
    """A command that shows one of the companies that the stack serves."""

    of: Annotated[str | None, typer.Option("--company", help="Another company of `memtend companies list`.")] = None

    @cached_property
    def company(self) -> str:
        """The company that is named, or else the installation's own; raises MemoryNotFoundError."""
        if self.of is None:
            return self.settings.company
        with self.ledger() as ledger:
            return ledger.companies.known(self.of).company


#: Any function that is a command.
Function = TypeVar("Function", bound=Callable[..., None])

#: The options of every command.
_EVERYWHERE = frozenset(each.name for each in fields(JsonCommand))


class Commands(typer.Typer):
    """The commands of a module: a group of that name, or without a name some of the root.

    A parameter of a command that is a dataclass stands for its fields, so what several commands take is written once.
    """

    def __init__(self, name: str | None = None, about: str | None = None) -> None:
        super().__init__(name=name, help=about, no_args_is_help=True)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Register a function as a command."""
        register = super().command(name, **settings)

        def add(function: Function) -> Function:
            register(_with_options(function))
            return function

        return add


def _with_options(function: Callable[..., None]) -> Callable[..., None]:
    hints = get_type_hints(function, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint) and isinstance(hint, type)}
    options: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        options += inspect.signature(groups[name]).parameters.values() if name in groups else [parameter]
    # The options of every command come last.
    options.sort(key=lambda each: each.name in _EVERYWHERE)

    @wraps(function)
    def run(**given: Any) -> None:
        if logging.lastResort is not None:
            # A warning on the way shows its fields, as in any log.
            logging.lastResort.setFormatter(FieldsFormatter(as_json=False))
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        function(**given)

    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in options]
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]  # where inspect looks for one
    return run


def policy_of(settings: Settings) -> Policy:
    """Return the policy in force; raises MemoryConfigError."""
    return effective_policy(settings.policy_path)


def ledger_of(settings: Settings) -> "AbstractContextManager[Ledger]":
    """Open the stack's ledger."""
    from memcore.ledger.ledger import Ledger  # noqa: PLC0415  # see above

    return closing(Ledger.open(settings.ledger_urls))


#: How long a command waits until stored memories can be found, and for a run (the longest it may take), in seconds.
STORE_SECONDS = 60.0
RUN_SECONDS = 3_600.0

#: Seconds between two looks at what a run waits for.
LOOK_SECONDS = 2.0


def await_stored(client: "MemoryClient", receipt: "StoreReceipt") -> Counter[str]:
    """Wait until every job of the receipt has written its memories, and return what the jobs counted, together.

    Raises MemoryStoreError when one did not in time.
    """
    try:
        return _await(client, receipt.job_ids, STORE_SECONDS, skips=False)
    except TimeoutError as error:
        raise _late(error) from None


def await_run(client: "MemoryClient", run_id: str, *, look: Callable[[], None] | None = None) -> None:
    """Wait until the run's job has ended; raises MemoryStoreError when it was given up or takes too long.

    ``look`` is called every two seconds until then.
    """
    until = monotonic() + RUN_SECONDS
    while True:
        left = until - monotonic()
        try:
            _await(client, (run_id,), left if look is None else min(left, LOOK_SECONDS), skips=True)
        except TimeoutError as error:
            if look is None or monotonic() >= until:
                raise _late(error) from None
            look()
        else:
            return


def _await(client: "MemoryClient", job_ids: tuple[str, ...], timeout_seconds: float, *, skips: bool) -> Counter[str]:
    from memcore.client.results import JobState  # noqa: PLC0415  # see above

    facts = Counter[str]()
    for status in client.wait(job_ids, timeout_seconds=timeout_seconds):
        if status.state is JobState.DEAD:
            raise MemoryStoreError(f"job {status.job_id} was given up: {status.reason}")
        if status.state is JobState.SKIPPED and not skips:
            raise MemoryStoreError(f"nothing was stored: {status.reason}")
        facts.update(status.facts)
    return facts


def _late(error: TimeoutError) -> MemoryStoreError:
    return MemoryStoreError(f"{error}; they are still in the queue: see `memtend status`")
