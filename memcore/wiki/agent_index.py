"""The first page of an agent's folder: counts, the time, and a line for each file."""

from collections.abc import Iterable
from datetime import datetime

from memcore.experience_models import DetailedExperience
from memcore.models import MemoryEntry
from memcore.wiki.markdown import file_bytes, front_matter, plain
from memcore.wiki.pages import headline
from memcore.wiki.place_name import place_name
from memcore.wiki.wiki_export import WikiExport

#: Characters of a decision that the index shows.
_SHOWN_CHARS = 100


class AgentIndex:
    """Collects the lines as the files are written."""

    def __init__(self) -> None:
        self._raw: list[str] = []
        self._compressed: list[str] = []

    def add_raw(self, experiences: Iterable[DetailedExperience]) -> None:
        """Name the files of raw experiences."""
        for each in experiences:
            place = f"raw/{place_name(each.id)}.md"
            task = "" if each.source_task_id is None else f", task {plain(each.source_task_id)}"
            self._raw.append(f"- {_moment(each.created_at)}: [{plain(each.id)}]({place}){task}")

    def add_compressed(self, entries: Iterable[MemoryEntry]) -> None:
        """Name the files of compressed experiences."""
        for entry in entries:
            place = f"wiki/{place_name(entry.id)}.md"
            self._compressed.append(f"- {_moment(entry.created_at)}: [{plain(_shown(headline(entry)))}]({place})")

    def page(self, export: WikiExport, *, at: datetime) -> bytes:
        """Return the file.

        Args:
            export: whose, and how many.
            at: when.
        """
        head: dict[str, str | int] = {
            "agent_id": export.agent_id,
            "generated_at": at.isoformat(),
            "compressed": export.compressed_count,
            "raw": export.raw_count,
        }
        blocks = [front_matter(head), f"# What {plain(export.agent_id)} went through"]
        for title, lines in (("Compressed", self._compressed), ("Raw", self._raw)):
            if lines:
                blocks += [f"## {title}: {len(lines)}", "\n".join(lines)]
        return file_bytes(*blocks)


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS].rstrip()}..."
