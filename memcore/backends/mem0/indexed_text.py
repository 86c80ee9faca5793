"""The text of a memory that is embedded and indexed, which need not be its content alone."""

from datetime import UTC, datetime
from string import Formatter

from memcore.embedding.bm25 import TermWeighting
from memcore.models import MemoryEntry

#: The content and nothing else: what an engine that has put date and speaker into the text itself wants.
PLAIN = "{content}"

#: A tag that begins so names who said what the memory holds, which need not be the agent that keeps it.
SPEAKER_TAG = "speaker:"

#: English whatever the process's locale: the same memory must give the same text everywhere.
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


class IndexedText:
    """Fill a text template for each memory.

    Args:
        template: plain placeholders among agent, category, content, date (the UTC day, as in 8 May 2023), namespace,
            source, speaker (of a tag ``speaker:NAME``) and tags, as ``memory.storage.text_template`` has checked them;
            it names the form in which the collection's texts are.
    """

    def __init__(self, template: str = PLAIN) -> None:
        self.template = template
        self._parts = [(literal, name) for literal, name, _, _ in Formatter().parse(template)]

    def form(self, weighting: TermWeighting) -> str:
        """Return what a collection records of its texts' form: the template, and how terms count where not as usual."""
        return self.template if weighting is TermWeighting.SATURATED else f"{self.template} (terms by {weighting})"

    def of(self, entry: MemoryEntry) -> str:
        """Return the text to embed and index; a field that the memory lacks is empty."""
        if self.template == PLAIN:
            return entry.content
        fields = {
            "agent": entry.agent_id,
            "content": entry.content,
            "category": entry.category.value,
            "namespace": entry.namespace,
            "source": entry.metadata.source or "",
            "date": _day(entry.created_at),
            "speaker": next(
                (t.removeprefix(SPEAKER_TAG) for t in entry.metadata.tags if t.startswith(SPEAKER_TAG)), ""
            ),
            "tags": ", ".join(entry.metadata.tags),
        }
        return "".join(literal + ("" if name is None else fields[name]) for literal, name in self._parts)


def _day(at: datetime) -> str:
    # As people write and ask for it: 2023-05-08 shares no word with a question about May (docs/benchmarks/2026-11.md).
    day = at.astimezone(UTC)
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"
