"""What an op wrote: the text of a summary, and how it came about."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memcore.archival_models import ArchivalMode
from memcore.backends.record import MemoryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The text of a summary, and how it was made.

    Attributes:
        tags: say how it was made, beside those of its sources.
        mode: how its sources are archived: abstractive where a model wrote the text; None for word by word.
    """

    content: str
    tags: tuple[str, ...] = ()
    mode: ArchivalMode | None = None


class ConsolidationOp(Protocol):
    """Turn memories into the text of one summary; storing and deleting is the bookkeeper's."""

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> Draft:
        """Return a text that stands for the sources.

        Args:
            sources: of one category, oldest first; they will be removed.
            kept: the memory of their group that stays; None when it is gone or the group has none.
        """
        ...
