"""Counts the applications of lessons and skills, and holds a lesson's confidence against what came of them."""

from dataclasses import KW_ONLY, dataclass
from typing import Self

from memcore.backends.protocol import BatchBackend
from memcore.company import CompanyContext
from memcore.jobs import AppliedPayload
from memcore.ledger.ledger import Ledger
from memcore.models.memory import require_memory_id


@dataclass(frozen=True, eq=False)
class ApplicationService:
    """Counts what one company's agents applied."""

    backend: BatchBackend
    ledger: Ledger
    _: KW_ONLY
    company: str

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        return cls(context.backend, context.ledger, company=context.company)

    async def count(self, payload: AppliedPayload) -> bool:
        """Count it and return True; False when it was counted before. The agent's own lesson gets its confidence.

        A skill that was published again under another id counts under its first one. No memory with the id needs to
        exist: a lesson may have been forgotten since it was applied. After an error it can be called again.

        Raises MemoryInputError for an id that no memory can have; MemoryStoreError, MemoryConnectionError.
        """
        is_new = self._count(payload)
        await self._correct(payload.agent_id, payload.skill_id)
        return is_new

    def _count(self, payload: AppliedPayload) -> bool:
        lines = self.ledger.shared_log.history(self.company, require_memory_id(payload.skill_id))
        return self.ledger.skills.apply(payload, skill_id=lines[0].memory_id if lines else payload.skill_id)

    async def _correct(self, agent_id: str, memory_id: str) -> None:
        """Set a lesson's confidence to what its applications allow."""
        for record in await self.backend.get_many(agent_id, [memory_id]):
            applied = self.ledger.skills.applications(self.company, [memory_id])
            metadata = record.entry.metadata
            if record.is_lesson and memory_id in applied:
                confidence = applied[memory_id].corrected(metadata.confidence)
                if confidence != metadata.confidence:
                    corrected = metadata.model_copy(update={"confidence": confidence})
                    await self.backend.set_metadata_many(agent_id, [memory_id], corrected)
