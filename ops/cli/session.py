"""What a command works with: the settings of the stack it talks to, and what they lead to, closed at its end."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from memcore.client import MemoryClient
from memcore.config.loader import effective_policy
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.errors import MemoryInputError
from memcore.ledger.ledger import Ledger

if TYPE_CHECKING:
    from memcore.backends.factory import WorkerBackend

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
