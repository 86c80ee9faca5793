"""A summary of dense memories: the extract of each, with nothing rewritten."""

from collections.abc import Sequence

from memcore.archival_models import ArchivalMode
from memcore.backends.record import MemoryRecord
from memcore.maintenance.draft import Draft
from memcore.maintenance.extractive import ExtractivePreserver

#: Stands between two extracts (the reference's separator).
_SEPARATOR = "\n---\n"


class ExtractivePreservationOp:
    """Join what the preserver extracts from each memory; needs no model and gives the same text every time.

    Args:
        preserver: what is kept of a text.
    """

    def __init__(self, preserver: ExtractivePreserver) -> None:
        self._preserver = preserver

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> Draft:
        """Return the extracts in the order of the sources; the memory that is kept is not looked at."""
        del kept
        return Draft(
            content=_SEPARATOR.join(self._preserver.extract(source.entry.content) for source in sources),
            tags=("mode:extractive",),
            mode=ArchivalMode.EXTRACTIVE,
        )
