"""The simplest summary: the beginning of each memory, under one heading."""

from collections.abc import Sequence

from memcore.backends.record import MemoryRecord
from memcore.maintenance.draft import Draft

#: Characters that each memory keeps in the summary (the reference's figure); the whole text stays in the journal.
MAX_ENTRY_CHARS = 200

#: Appended where a text was cut.
_CUT = "..."


class ConcatenationOp:
    """Join the beginnings of the memories as bullets; needs no model and gives the same text every time.

    Args:
        max_entry_chars: characters that each keeps.
    """

    def __init__(self, *, max_entry_chars: int = MAX_ENTRY_CHARS) -> None:
        self._max_entry_chars = max_entry_chars

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> Draft:
        """Return a heading that names the category, then one bullet a memory; the one kept is not looked at."""
        del kept
        category = sources[0].entry.category
        bullets = (f"- {beginning(source.entry.content, self._max_entry_chars)}" for source in sources)
        return Draft(content="\n".join([f"Consolidated {category} memories:", *bullets]))


def beginning(text: str, length: int) -> str:
    """Return the first characters of a text on one line, with a mark where it was cut."""
    # Line breaks inside a memory would read as further bullets.
    line = " ".join(text.split())
    return line if len(line) <= length else line[:length] + _CUT
