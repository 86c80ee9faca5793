"""A memory as selection sees it: what decides about it, without its text, so that a hundred thousand fit in memory."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from memcore.backends.record import MemoryRecord
from memcore.models import MemoryCategory

#: UTF-8 bytes that count as one token: about four letters of English, about one and a third Chinese characters.
#: An estimate on the safe side of what tokenizers do; counting exactly would tie selection to one model.
BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One candidate for consolidation.

    Attributes:
        project_id: memories of different projects are never merged; a project's end removes its summaries too.
        expires: memories that expire are merged apart from those that stay, which would otherwise die with them.
        relevance: None unless the entry answers a text query.
        tokens: estimated length of its text.
    """

    id: str
    category: MemoryCategory
    namespace: str
    project_id: str | None
    expires: bool
    created_at: datetime
    relevance: float | None
    tokens: int
    tags: tuple[str, ...]

    @classmethod
    def of(cls, record: MemoryRecord) -> Self:
        """Take from a record what selection needs."""
        entry = record.entry
        return cls(
            id=entry.id,
            category=entry.category,
            namespace=entry.namespace,
            project_id=record.lineage.project_id,
            expires=entry.expires_at is not None,
            created_at=entry.created_at,
            relevance=entry.relevance_score,
            tokens=-(-len(entry.content.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN),
            tags=entry.metadata.tags,
        )

    @property
    def age_key(self) -> tuple[datetime, str]:
        """Order oldest first, ties by id."""
        return (self.created_at, self.id)
