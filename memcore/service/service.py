"""``MemoryService``: one company's memories, runs, agents and people's decisions, each subject an object of its own."""

from functools import cached_property
from typing import TYPE_CHECKING, Self

from memcore.client.async_client import AsyncMemoryClient
from memcore.clock import Clock, utc_now
from memcore.company import JobDispatcher
from memcore.ledger.ledger import Ledger
from memcore.service.agents import AgentOperations
from memcore.service.approvals import ApprovalOperations
from memcore.service.archive import ArchiveOperations
from memcore.service.conversation import ConversationOperations
from memcore.service.dead_letters import DeadLetterOperations
from memcore.service.distrusts import DistrustOperations
from memcore.service.erasures import ErasureOperations
from memcore.service.memories import MemoryOperations
from memcore.service.memory_tests import MemoryTestOperations
from memcore.service.org import OrgOperations
from memcore.service.reindex import ReindexOperations
from memcore.service.resources import ServiceResources
from memcore.service.runs import RunOperations
from memcore.service.skills import SkillOperations
from memcore.service.usage import ModelOperations, UsageOperations
from memcore.service.webhooks import WebhookOperations

if TYPE_CHECKING:
    from collections.abc import Callable

    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.service.finetune import DeploymentOpener, FineTuneOperations


class MemoryService:
    """Carries out what people and programs ask of one company's memories, with the ledger's rows as the truth.

    Build one for each process and company. It connects to the store with the first call that needs it and stays
    connected until its block ends::

        async with create_memory_service(settings, policy, ledger, dispatcher) as service:
            await service.runs.list()

    Args:
        resources: ledger, backend and client that all subjects share.
        open_deployment: opens what deploys checkpoints; left out, as settings and policy say.
    """

    def __init__(self, resources: ServiceResources, *, open_deployment: "DeploymentOpener | None" = None) -> None:
        self.resources = resources
        self.memories = MemoryOperations(resources)
        self.agents = AgentOperations(resources, self.memories)
        self.memory_tests = MemoryTestOperations(resources)
        self.runs = RunOperations(resources)
        self.approvals = ApprovalOperations(resources)
        self.skills = SkillOperations(resources)
        self.org = OrgOperations(resources)
        self.archive = ArchiveOperations(resources)
        self.usage = UsageOperations(resources)
        self.models = ModelOperations(resources)
        self.dead_letters = DeadLetterOperations(resources)
        self.distrusts = DistrustOperations(resources)
        self.erasures = ErasureOperations(resources)
        self.reindex = ReindexOperations(resources)
        self.conversation = ConversationOperations(resources)
        self.webhooks = WebhookOperations(resources)
        self._open_deployment = open_deployment

    @cached_property
    def finetune(self) -> "FineTuneOperations":
        """Fine-tune runs, checkpoints and what serves."""
        # It takes half a second to import, and few callers train.
        from memcore.service.finetune import FineTuneOperations  # noqa: PLC0415  # see above

        return FineTuneOperations(self.resources, open_deployment=self._open_deployment)

    @property
    def client(self) -> AsyncMemoryClient:
        """Sends jobs to the workers."""
        return self.resources.client

    @property
    def ledger(self) -> Ledger:
        """The ledger, which its opener closes."""
        return self.resources.ledger

    @property
    def company(self) -> str:
        """Whose memories they are."""
        return self.resources.company

    @property
    def policy(self) -> "Policy":
        """The policy in force. Raises MemoryConfigError."""
        return self.resources.policy

    @property
    def clock(self) -> Clock:
        """The time."""
        return self.resources.clock

    async def connect(self) -> None:
        """Connect to the store now, not with the first call that needs it. Raises MemoryConnectionError."""
        await self.resources.backend()

    async def close(self) -> None:
        """Disconnect; a call after it connects again."""
        await self.resources.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


def create_memory_service(
    settings: "Settings",
    policy: "Policy | Callable[[], Policy]",
    ledger: Ledger,
    dispatcher: JobDispatcher,
    *,
    company: str | None = None,
    clock: Clock = utc_now,
) -> MemoryService:
    """Return the service of a company: that of the settings, or another whose ledger rows alone are read.

    The policy may be a function, which is called when a subject first needs it. The opener of the ledger closes it; the
    service closes what else it opens.
    """
    return MemoryService(ServiceResources(settings, policy, ledger, dispatcher, company=company, clock=clock))
