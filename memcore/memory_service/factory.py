"""The memory service of an installation."""

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from memcore.backends.factory import create_worker_backend
from memcore.clock import Clock, utc_now
from memcore.finetune.execution.factory import execution_of
from memcore.finetune.factory import create_deployment
from memcore.finetune.run_folder import RUNS
from memcore.ledger.ledger import Ledger
from memcore.memory_service.needs import Bell
from memcore.memory_service.service import MemoryService
from memcore.reindex.factory import create_mirror

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from memcore.backends.factory import WorkerBackend
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.finetune.deployment import CheckpointDeployment


def create_memory_service(
    settings: "Settings", policy: "Policy", ledger: Ledger, bell: Bell, *, clock: Clock = utc_now
) -> MemoryService:
    """Return the service of an installation; the caller closes the ledger, the service what else it opens."""
    return MemoryService(
        ledger,
        company=settings.company,
        bell=bell,
        rooms=InstalledRooms(settings, policy, ledger),
        runs=settings.home / RUNS,
        execution=execution_of(settings, policy),
        clock=clock,
    )


class InstalledRooms:
    """Opens an installation's store, anew for each call that needs it.

    Args:
        settings: where it runs.
        policy: what is decided.
        ledger: beside it.
    """

    def __init__(self, settings: "Settings", policy: "Policy", ledger: Ledger) -> None:
        self._settings = settings
        self._policy = policy
        self._ledger = ledger

    @asynccontextmanager
    async def backend(self) -> "AsyncIterator[WorkerBackend]":
        """Open the memories."""
        backend = create_worker_backend(self._settings, self._policy)
        await backend.connect()
        try:
            yield backend
        finally:
            await backend.disconnect()

    @asynccontextmanager
    async def deployment(self) -> "AsyncIterator[CheckpointDeployment]":
        """Open what deploys checkpoints."""
        async with create_mirror(self._settings, self._policy) as mirror:
            yield create_deployment(self._settings, self._policy, self._ledger, mirror)
