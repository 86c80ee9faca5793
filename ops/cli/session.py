"""Resources of a command: the stack's settings, client, ledger and backend, closed when it ends."""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from memcore.client import JobState, MemoryClient, StoreReceipt
from memcore.config.loader import effective_policy
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.errors import MemoryConnectionError, MemoryInputError, MemoryStoreError
from memcore.ledger.learning.skill_cycles import Cycle
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import Confirmation
from memcore.ledger.runs import Run
from memcore.service import MemoryService, create_memory_service
from ops.cli.console import warn

if TYPE_CHECKING:
    from memcore.backends.factory import WorkerBackend
    from workers.dispatcher import BrokerDispatcher

#: The option that says which stack is meant.
HomeOption = Annotated[Path | None, typer.Option("--home", help="Data folder; else MEMTEND_HOME, else ~/.memtend.")]


def settings_of(home: Path | None) -> Settings:
    """Return the settings of the stack; raises MemoryConfigError when nothing runs there."""
    return Settings.load(os.environ, home)


def policy_of(settings: Settings) -> Policy:
    """Return the policy in force; raises MemoryConfigError."""
    return effective_policy(settings.policy_path)


@contextmanager
def client_of(home: Path | None) -> Iterator[MemoryClient]:
    """Yield a client of the stack."""
    with MemoryClient.from_settings(settings_of(home)) as client:
        yield client


@contextmanager
def ledger_of(settings: Settings) -> Iterator[Ledger]:
    """Yield the stack's ledger."""
    ledger = Ledger.open(settings.ledger_urls)
    try:
        yield ledger
    finally:
        ledger.close()


@contextmanager
def backend_of(settings: Settings) -> Iterator[tuple["WorkerBackend", asyncio.Runner]]:
    """Yield the stack's backend, connected, and the runner for its coroutines."""
    # The store's client and the embedder take a second to import, and few commands search.
    from memcore.backends.factory import create_worker_backend  # noqa: PLC0415  # see above

    backend = create_worker_backend(settings, policy_of(settings))
    with asyncio.Runner() as runner:
        runner.run(backend.connect())
        try:
            yield backend, runner
        finally:
            runner.run(backend.disconnect())


@contextmanager
def one_sentence(prefix: str = "") -> Iterator[None]:
    """Turn a value object's error into one sentence that names the field."""
    try:
        yield
    except ValidationError as error:
        raise MemoryInputError.of(error, prefix=prefix) from None


#: How long a command waits until stored memories can be found, in seconds.
STORE_SECONDS = 60.0

#: How long a command waits for a run, in seconds (one hour, the longest a run may take).
RUN_SECONDS = 3_600.0


def await_stored(client: MemoryClient, receipt: StoreReceipt, *, timeout_seconds: float = STORE_SECONDS) -> int:
    """Wait until every job of the receipt has written its memories; return how many are in the store.

    Raises:
        MemoryStoreError: a job was given up, stored nothing because of the agent's level, or did not finish in time.
    """
    return _await(client, receipt.job_ids, timeout_seconds, skips=False)


def await_run(client: MemoryClient, run_id: str, *, timeout_seconds: float = RUN_SECONDS) -> None:
    """Wait until the run's job has ended; raises MemoryStoreError when it was given up or takes too long."""
    _await(client, (run_id,), timeout_seconds)


def is_paused(agent_id: str, home: Path | None) -> bool:
    """Return whether an agent's runs wait for somebody to resume maintenance, after saying so."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        agent = ledger.agents.get(settings.company, agent_id)
        if not (ledger.switches.paused(settings.company) or (agent and agent.paused)):
            return False
    warn("maintenance is paused: the run waits until it is resumed")
    return True


def _await(client: MemoryClient, job_ids: tuple[str, ...], timeout_seconds: float, *, skips: bool = True) -> int:
    stored = 0
    try:
        for status in client.wait(job_ids, timeout_seconds=timeout_seconds):
            if status.state is JobState.DEAD:
                msg = f"job {status.job_id} was given up: {status.reason}"
                raise MemoryStoreError(msg)
            if status.state is JobState.SKIPPED and not skips:
                msg = f"nothing was stored: {status.reason}"
                raise MemoryStoreError(msg)
            stored += status.facts.get("stored", 0)
    except TimeoutError as error:
        msg = f"{error}; they are still in the queue: see `memtend status`"
        raise MemoryStoreError(msg) from None
    return stored


def dispatch(settings: Settings, runs: Iterable[Run], *, cycles: Iterable[Cycle] = ()) -> None:
    """Send the message of each run and cycle; for one that is active already, the message does nothing."""

    def dispatching(dispatcher: "BrokerDispatcher") -> None:
        dispatcher.dispatch_runs(runs)
        dispatcher.dispatch_skill_cycles(settings.company, cycles)

    _dispatch(settings, dispatching)


def dispatch_reindex(settings: Settings) -> None:
    """Send the message of the company's reindex; while a worker holds it, the message does nothing."""
    _dispatch(settings, lambda dispatcher: dispatcher.dispatch_reindex(settings.company))


def dispatch_finetune(settings: Settings, run_id: str) -> None:
    """Send the message of a fine-tune run's next stage; while a worker holds it, the message does nothing."""
    _dispatch(settings, lambda dispatcher: dispatcher.dispatch_finetune(settings.company, run_id))


def _dispatch(settings: Settings, dispatching: Callable[["BrokerDispatcher"], None]) -> None:
    # The workers' app takes a second to import, and few commands dispatch.
    from workers.app import create_app  # noqa: PLC0415  # see above
    from workers.dispatcher import BrokerDispatcher  # noqa: PLC0415  # see above

    app = create_app(settings)
    try:
        dispatching(BrokerDispatcher(app))
    except MemoryConnectionError:
        return  # the change is made, and the sweep dispatches when the broker is back
    finally:
        app.close()


By = Annotated[str, typer.Option("--by", help="Your name; it is kept in the audit.")]

Reason = Annotated[str, typer.Option("--reason", help="Why; it is kept in the audit.")]

#: What the audit says where a person gives no reason: that they typed it.
TYPED = "asked for by a command"


def confirmation_phrase(by: str, reason: str) -> Confirmation:
    """Return the confirmation by the person who typed the command. Raises MemoryInputError."""
    return Confirmation(actor=by, confirm=True, reason=reason)


@contextmanager
def memory_service_of(settings: Settings) -> Iterator[tuple[MemoryService, asyncio.Runner]]:
    """Yield the stack's memory service, and the runner for its coroutines."""
    with ledger_of(settings) as ledger, asyncio.Runner() as runner:
        yield create_memory_service(settings, policy_of(settings), ledger, CommandDispatcher(settings)), runner


class CommandDispatcher:
    """Publishes over a broker connection of its own for each dispatch: no command dispatches twice."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def dispatch_runs(self, runs: Iterable[Run]) -> None:
        """Send the messages of runs."""
        dispatch(self._settings, runs)

    def dispatch_reindex(self, company: str) -> None:
        """Send the message of the stack's one company."""
        del company
        dispatch_reindex(self._settings)

    def dispatch_finetune(self, company: str, run_id: str) -> None:
        """Send the message of a run's next stage."""
        del company
        dispatch_finetune(self._settings, run_id)
