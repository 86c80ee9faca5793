"""A memory service for tests: real rows and a real backend, and a dispatcher that writes down what it dispatches."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from memcore.backends.factory import WorkerBackend
from memcore.clock import Clock
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.errors import MemoryBackendUnsupportedError
from memcore.finetune.deployment import CheckpointDeployment
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import Confirmation
from memcore.service import MemoryService
from memcore.service.resources import ServiceResources
from support.job_contexts import RecordingDispatcher
from support.ledger_records import COMPANY

WORD = Confirmation(actor="grace", confirm=True, reason="it finds the wrong hall")


class TestResources:
    """Gives the resources that the test has opened; others are unsupported."""

    __test__ = False

    def __init__(self, backend: WorkerBackend | None, deployment: CheckpointDeployment | None) -> None:
        self._backend = backend
        self._deployment = deployment

    @asynccontextmanager
    async def backend(self) -> AsyncIterator[WorkerBackend]:
        if self._backend is None:
            raise MemoryBackendUnsupportedError("no memories here")
        yield self._backend

    @asynccontextmanager
    async def deployment(self) -> AsyncIterator[CheckpointDeployment]:
        if self._deployment is None:
            raise MemoryBackendUnsupportedError("nothing here embeds anything")
        yield self._deployment


def memory_service(
    ledger: Ledger,
    dispatcher: RecordingDispatcher,
    clock: Clock,
    folder: Path,
    *,
    company: str = COMPANY,
    backend: WorkerBackend | None = None,
    deployment: CheckpointDeployment | None = None,
) -> MemoryService:
    resources = TestResources(backend, deployment)
    settings = Settings(
        company=company,
        home=folder,
        broker_url="redis://127.0.0.1:1/0",
        database_url="sqlite:///never-opened.db",
        qdrant_url="http://127.0.0.1:1",
    )
    shared = ServiceResources(settings, Policy(), ledger, dispatcher, open_backend=resources.backend, clock=clock)
    return MemoryService(shared, open_deployment=resources.deployment)


def noted(ledger: Ledger, company: str = COMPANY) -> list[tuple[str, str, str | None, str | None]]:
    """Return who did what with what and why, as the audit has it."""
    return [(line.actor, line.action, line.subject, line.reason) for line in ledger.audit.page(company)]
