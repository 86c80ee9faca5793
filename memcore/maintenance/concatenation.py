"""The simplest summary: the beginning of each memory, under one heading."""

from collections.abc import Sequence

from memcore.backends.record import MemoryRecord
from memcore.maintenance.draft import Draft

#: Characters that each memory keeps in the summary (the reference's figure); the whole text stays in the journal.
MAX_ENTRY_CHARS = 200

#: Appended where a text was cut.
_CUT = "..."


class ConcatenationOp:
    """Join the first 200 characters of each memory as bullets; needs no model and gives the same text every time."""

    async def write(self, sources: Sequence[MemoryRecord]) -> Draft:
        """Return a heading that names the category, then one bullet a memory."""
        category = sources[0].entry.category
        bullets = (f"- {_beginning(source.entry.content)}" for source in sources)
        return Draft(content="\n".join([f"Consolidated {category} memories:", *bullets]))


def _beginning(text: str) -> str:
    # Line breaks inside a memory would read as further bullets.
    line = " ".join(text.split())
    return line if len(line) <= MAX_ENTRY_CHARS else line[:MAX_ENTRY_CHARS] + _CUT
