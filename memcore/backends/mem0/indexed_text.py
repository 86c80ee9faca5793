"""The text of a memory that is embedded and indexed, which need not be its content alone."""

from datetime import UTC
from string import Formatter

from memcore.models import MemoryEntry

#: The content and nothing else: what an engine that has put date and speaker into the text itself wants.
PLAIN = "{content}"


class IndexedText:
    """Fill a text template for each memory.

    Args:
        template: plain placeholders among content, category, namespace, source, date (UTC day) and tags, as
            ``memory.storage.text_template`` has checked them; it names the form in which the collection's texts are.
    """

    def __init__(self, template: str = PLAIN) -> None:
        self.template = template
        self._parts = [(literal, name) for literal, name, _, _ in Formatter().parse(template)]

    def of(self, entry: MemoryEntry) -> str:
        """Return the text to embed and index; a field that the memory lacks is empty."""
        if self.template == PLAIN:
            return entry.content
        fields = {
            "content": entry.content,
            "category": entry.category.value,
            "namespace": entry.namespace,
            "source": entry.metadata.source or "",
            "date": entry.created_at.astimezone(UTC).date().isoformat(),
            "tags": ", ".join(entry.metadata.tags),
        }
        return "".join(literal + ("" if name is None else fields[name]) for literal, name in self._parts)
