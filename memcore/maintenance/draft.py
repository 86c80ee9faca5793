"""What an op wrote: the text of a summary, and how it came about."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memcore.backends.record import MemoryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The text of a summary and the tags that say how it was made, beside those of its sources."""

    content: str
    tags: tuple[str, ...] = ()


class ConsolidationOp(Protocol):
    """Turn memories into the text of one summary; storing and deleting is the bookkeeper's."""

    async def write(self, sources: Sequence[MemoryRecord]) -> Draft:
        """Return a text that stands for the sources, which come oldest first and share a category."""
        ...
