"""What the memory service is given: how workers hear of rows, and what is opened when a call needs it."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from memcore.ledger.run import Run

if TYPE_CHECKING:
    from memcore.backends.factory import WorkerBackend
    from memcore.finetune.deployment import CheckpointDeployment


class Bell(Protocol):
    """Tells workers that rows wait for them; a message that is lost is sent again by the sweep."""

    def ring_many(self, runs: Iterable[Run]) -> None:
        """Send the messages of runs. Raises MemoryConnectionError."""
        ...

    def ring_reindex(self, company: str) -> None:
        """Send the message of the company's reindex. Raises MemoryConnectionError."""
        ...

    def ring_finetune(self, company: str, run_id: str) -> None:
        """Send the message of a fine-tune run's next stage. Raises MemoryConnectionError."""
        ...


class Rooms(Protocol):
    """Opens what few calls need, and closes it behind them."""

    def backend(self) -> AbstractAsyncContextManager["WorkerBackend"]:
        """Open the memories. Raises MemoryConfigError, MemoryConnectionError."""
        ...

    def deployment(self) -> AbstractAsyncContextManager["CheckpointDeployment"]:
        """Open what deploys checkpoints. Raises MemoryBackendUnsupportedError where no backend embeds anything."""
        ...
