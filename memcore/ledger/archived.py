"""A memory in the archive, with everything that brings it back as it was."""

from dataclasses import dataclass, replace
from datetime import datetime

from memcore.archival_models import ArchivalEntry, ArchivalMode
from memcore.backends.record import MemoryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """An entry of the archive.

    Attributes:
        archival_id: its id here; the memory's own is ``original_id``.
        mode: how the summary that replaced it was written.
        run_id: the run that removed it; None for one that was archived by itself.
        returned_at: when it came back into the store; None while it is out.
        vector_space: what its vectors mean; None when they mean what the backend was given.
        record: the memory, whole; a search leaves the vectors out.
    """

    archival_id: str
    mode: ArchivalMode
    archived_at: datetime
    run_id: str | None
    returned_at: datetime | None
    vector_space: str | None
    record: MemoryRecord

    @property
    def original_id(self) -> str:
        """Its id in the store."""
        return self.record.entry.id

    @property
    def entry(self) -> ArchivalEntry:
        """The entry as the reference has it."""
        entry = self.record.entry
        return ArchivalEntry(
            original_id=entry.id,
            agent_id=entry.agent_id,
            content=entry.content,
            category=entry.category,
            metadata=entry.metadata,
            created_at=entry.created_at,
            archived_at=self.archived_at,
            archival_mode=self.mode,
        )

    def record_for(self, vector_space: str | None) -> MemoryRecord:
        """Return the memory for a store: with its vectors if they mean the same there, else to be embedded anew."""
        return self.record if self.vector_space == vector_space else replace(self.record, vectors=None)
