"""Summaries as memories: the record of one, and the op that joins the beginnings of its sources."""

from collections.abc import Callable, Sequence

from memcore import ids
from memcore.maintenance.consolidation.strategy import SummaryDraft
from memcore.models.memory import CONSOLIDATED_TAG, MemoryEntry, MemoryMetadata, Tags
from memcore.records import Lineage, MemoryRecord

#: Source of every summary.
CONSOLIDATION_SOURCE = "consolidation"


def summary_record(
    sources: Sequence[MemoryRecord], draft: SummaryDraft, *, company: str, strategy: str
) -> MemoryRecord:
    """Return the memory that replaces the sources, without vectors.

    It has their category and namespace, the union of their tags, their least confidence and least expiry, the scope
    they share, and their ids. It is as old as its newest source: dated now, it would keep text longer than the
    retention rule allows; dated as the oldest, it would lose the newest text too early. Its id depends on the sources
    and the strategy alone, so making it twice makes one.
    """
    entries = [source.entry for source in sources]
    first = entries[0]
    source_ids = tuple(entry.id for entry in entries)
    expiries = [entry.expires_at for entry in entries if entry.expires_at is not None]
    return MemoryRecord(
        entry=MemoryEntry(
            id=ids.summary_id(company=company, agent_id=first.agent_id, strategy=strategy, source_ids=source_ids),
            agent_id=first.agent_id,
            namespace=first.namespace,
            category=first.category,
            content=draft.content,
            metadata=MemoryMetadata(
                source=CONSOLIDATION_SOURCE,
                confidence=min(entry.metadata.confidence for entry in entries),
                tags=_tags(entries, draft),
            ),
            created_at=max(entry.created_at for entry in entries),
            expires_at=min(expiries, default=None),
        ),
        lineage=Lineage(
            session_id=_shared(sources, lambda lineage: lineage.session_id),
            project_id=_shared(sources, lambda lineage: lineage.project_id),
            task_id=_shared(sources, lambda lineage: lineage.task_id),
            summary_of=source_ids,
            depth=1 + max(source.lineage.depth for source in sources),
        ),
    )


def _tags(entries: Sequence[MemoryEntry], draft: SummaryDraft) -> Tags:
    # The summary's own tags come first: they must be there whatever its sources carry.
    return tuple(
        dict.fromkeys([CONSOLIDATED_TAG, *draft.tags, *(tag for entry in entries for tag in entry.metadata.tags)])
    )


def _shared(sources: Sequence[MemoryRecord], scope: Callable[[Lineage], str | None]) -> str | None:
    scopes = {scope(source.lineage) for source in sources}
    return scopes.pop() if len(scopes) == 1 else None


#: Characters that each memory keeps in the summary (the reference's figure); the whole text stays in the journal.
MAX_ENTRY_CHARS = 200

#: Appended where a text was cut.
_CUT = "..."


class ConcatenationOp:
    """Joins the beginnings of the memories as bullets; deterministic, without a model.

    Args:
        max_entry_chars: characters that each keeps.
    """

    def __init__(self, *, max_entry_chars: int = MAX_ENTRY_CHARS) -> None:
        self._max_entry_chars = max_entry_chars

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        """Return a heading that names the category, then one bullet a memory; the one kept is not looked at."""
        del kept
        category = sources[0].entry.category
        bullets = (f"- {beginning(source.entry.content, self._max_entry_chars)}" for source in sources)
        return SummaryDraft(content="\n".join([f"Consolidated {category} memories:", *bullets]))


def beginning(text: str, length: int) -> str:
    """Return the first characters of a text on one line, with a mark where it was cut."""
    # Line breaks inside a memory would read as further bullets.
    line = " ".join(text.split())
    return line if len(line) <= length else line[:length] + _CUT
