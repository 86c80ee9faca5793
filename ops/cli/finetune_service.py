"""The memory service for commands, with the broker's bell of this one, and the word of the person who typed it."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from memcore.config.settings import Settings
from memcore.ledger.guardrail import Guardrail
from memcore.ledger.run import Run
from memcore.memory_service.factory import create_memory_service
from memcore.memory_service.service import MemoryService
from ops.cli.ringing import ring, ring_finetune, ring_reindex
from ops.cli.session import ledger_of, policy_of

By = Annotated[str, typer.Option("--by", help="Your name; it is kept in the audit.")]

Reason = Annotated[str, typer.Option("--reason", help="Why; it is kept in the audit.")]

#: What the audit says where a person gives no reason: that they typed it.
TYPED = "asked for by a command"


def word(by: str, reason: str) -> Guardrail:
    """Return the word of the person who typed the command. Raises MemoryInputError."""
    return Guardrail(actor=by, confirm=True, reason=reason)


@contextmanager
def memory_service_of(settings: Settings) -> Iterator[tuple[MemoryService, asyncio.Runner]]:
    """Yield the stack's memory service, and the runner for its coroutines."""
    with ledger_of(settings) as ledger, asyncio.Runner() as runner:
        yield create_memory_service(settings, policy_of(settings), ledger, CommandBell(settings)), runner


class CommandBell:
    """Rings through a broker connection that lives as long as one ring: few commands ring, and none twice."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def ring_many(self, runs: Iterable[Run]) -> None:
        """Send the messages of runs."""
        ring(self._settings, runs)

    def ring_reindex(self, company: str) -> None:
        """Send the message of the stack's one company."""
        del company
        ring_reindex(self._settings)

    def ring_finetune(self, company: str, run_id: str) -> None:
        """Send the message of a run's next stage."""
        del company
        ring_finetune(self._settings, run_id)
