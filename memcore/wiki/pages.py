"""The wiki's pages: Markdown of raw and compressed experiences, each agent's index, and the front page."""

import os
import re
import sys
from collections.abc import AsyncIterator, Container, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from memcore.backends.protocol import MAX_PAGE, BatchBackend
from memcore.config.maintenance import WikiExportConfig
from memcore.errors import MemoryConfigError
from memcore.experience.compressor import experience_of
from memcore.ledger.ledger import Ledger
from memcore.models.base import Frozen
from memcore.models.experience import CompressedExperience, DetailedExperience
from memcore.models.memory import COMPRESSED_TAG, MemoryCategory, MemoryEntry
from memcore.records import Where
from memcore.wiki.folders import drop, lock_file, slug, sync_folder, write_durably

#: Characters with a meaning to Markdown and its dialects inside a line.
_MEANT = re.compile(r"[\\`*_{}\[\]<>&!|~#$^=%]")

#: Beginnings of a line with a meaning to Markdown.
_BEGINNING = re.compile(r"^(\d{0,9})([-+.)])")

#: Characters that move the cursor or make the terminal beep.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_BACKTICKS = re.compile("`+")


def plain(text: str) -> str:
    """Return the text as one line without any Markdown markup."""
    line = _CONTROL.sub("", " ".join(text.split()))
    return _BEGINNING.sub(r"\1\\\2", _MEANT.sub(r"\\\g<0>", line))


def fenced(text: str) -> str:
    """Return the text as a block of code, exactly as it is, whatever runs of backticks are in it."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def front_matter(fields: Mapping[str, str | int]) -> str:
    """Return the fields as YAML between two lines of dashes, one line each, whatever the values contain."""
    return "\n".join(["---", *(f"{name}: {_scalar(value)}" for name, value in fields.items()), "---"])


def file_bytes(*blocks: str) -> bytes:
    """Return the blocks as a file, an empty line between them."""
    return ("\n\n".join(blocks) + "\n").encode("utf-8", "backslashreplace")


def _scalar(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    # Always quoted: no reader takes "no", "1e3" or "2026-03-01" for anything but text.
    return yaml.dump(value, default_style='"', allow_unicode=True, width=sys.maxsize).rstrip("\n")


def raw_page(experience: DetailedExperience) -> bytes:
    """Return the file of a raw experience: every text of it, as it was."""
    parts = [("Prompt", experience.prompt)]
    parts += [(f"Step {number}", step) for number, step in enumerate(experience.reasoning_trace, start=1)]
    parts.append(("Output", experience.output))
    if experience.verification_feedback is not None:
        parts.append(("Verification", experience.verification_feedback))
    head = {
        "id": experience.id,
        "agent_id": experience.agent_id,
        "category": str(MemoryCategory.EPISODIC),
        "created_at": experience.created_at.isoformat(),
    }
    if experience.source_task_id is not None:
        head["source_task_id"] = experience.source_task_id
    return file_bytes(
        front_matter(head), "# Raw experience", *(f"## {title}\n\n{fenced(text)}" for title, text in parts)
    )


def compressed_page(entry: MemoryEntry, *, raw_ids: Container[str]) -> bytes:
    """Return the file of a compressed experience.

    Args:
        entry: the memory.
        raw_ids: the raw experiences that are exported too, so that these sources become links.
    """
    head = {
        "id": entry.id,
        "agent_id": entry.agent_id,
        "category": str(entry.category),
        "created_at": entry.created_at.isoformat(),
    }
    found = experience_of(entry)
    if found is None:
        return file_bytes(front_matter(head), "# Compressed experience", fenced(entry.content))
    return file_bytes(front_matter(head), "# Compressed experience", *_lessons(found, raw_ids=raw_ids))


def headline(entry: MemoryEntry) -> str:
    """Return the index's line of a compressed experience: its first decision."""
    found = experience_of(entry)
    return found.strategic_decisions[0] if found else entry.content


def _lessons(found: CompressedExperience, *, raw_ids: Container[str]) -> list[str]:
    parts = ["## Decisions", _listed(found.strategic_decisions)]
    if found.applicable_contexts:
        parts += ["## Where it applies", _listed(found.applicable_contexts)]
    sources = (
        f"- [{plain(key)}](../raw/{slug(key)}.md)" if key in raw_ids else f"- {plain(key)}"
        for key in found.source_artifact_ids
    )
    made = f"Compressed to {found.compression_ratio:.0%} of its sources by {plain(found.compressor_version)}."
    return [*parts, "## Sources", "\n".join(sources), made]


def _listed(texts: tuple[str, ...]) -> str:
    return "\n".join(f"- {plain(text)}" for text in texts)


class WikiExport(Frozen):
    """The result of one agent's export.

    Attributes:
        agent_id: whose.
        raw_count: raw experiences written, or to be written.
        compressed_count: compressed experiences written, or to be written.
        failed_count: files that could not be written.
        is_published: whether people see it; otherwise they see the one before, whole.
        reason: why it is not published, without a word of any memory; None when it is.
    """

    agent_id: str
    raw_count: int = Field(default=0, ge=0)
    compressed_count: int = Field(default=0, ge=0)
    failed_count: int = Field(default=0, ge=0)
    is_published: bool = False
    reason: str | None = None


#: Characters of a decision that the index shows.
_SHOWN_CHARS = 100


class AgentIndex:
    """Collects the index's lines as the files are written."""

    def __init__(self) -> None:
        self._raw: list[str] = []
        self._compressed: list[str] = []

    def add_raw(self, experiences: Iterable[DetailedExperience]) -> None:
        """Add the files of raw experiences."""
        for each in experiences:
            place = f"raw/{slug(each.id)}.md"
            task = "" if each.source_task_id is None else f", task {plain(each.source_task_id)}"
            self._raw.append(f"- {_moment(each.created_at)}: [{plain(each.id)}]({place}){task}")

    def add_compressed(self, entries: Iterable[MemoryEntry]) -> None:
        """Add the files of compressed experiences."""
        for entry in entries:
            place = f"wiki/{slug(entry.id)}.md"
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


#: An agent's line: its folder, then compressed and raw experiences.
_LINE = re.compile(r"\| \[.*\]\(([a-z0-9_=-]+)/index\.md\) \| (\d+) \| (\d+) \| \S+ \|")


class CompanyIndex:
    """Maintains ``index.md`` in the export's root.

    Args:
        root: the export's root.
        company: whose agents; one root is one company's, for two companies may have agents of the same name.
    """

    def __init__(self, root: Path, company: str) -> None:
        self._root = root
        self._company = company
        self._path = root / "index.md"

    def check(self) -> None:
        """Refuse a root that holds another company's wiki. Raises MemoryConfigError, OSError."""
        owner = _head(self._read()).get("company", self._company)
        if owner != self._company:
            raise MemoryConfigError(
                "memory.consolidation.wiki_export.export_root: holds the wiki of another company; "
                "give each company a folder of its own"
            )

    def put(self, exports: Iterable[WikiExport], *, at: datetime) -> None:
        """Bring the lines of these agents up to date, and drop those whose folder is gone.

        Args:
            exports: the published exports.
            at: when.

        Raises OSError; then the old page stays.
        """
        lock = lock_file(self._root / ".index.md.lock", wait=True)
        try:
            lines = _lines(self._read())
            lines |= {slug(export.agent_id): _line(export, at) for export in exports}
            standing = {name: lines[name] for name in sorted(lines) if (self._root / name).is_dir()}
            draft = self._root / ".index.md.new"
            drop(draft)
            write_durably(draft, self._page(standing, at))
            draft.replace(self._path)
            sync_folder(self._root)
        finally:
            os.close(lock)

    def _page(self, lines: Mapping[str, str], at: datetime) -> bytes:
        counts = [tuple(map(int, found.groups()[1:])) for line in lines.values() if (found := _LINE.fullmatch(line))]
        head: dict[str, str | int] = {
            "company": self._company,
            "generated_at": at.isoformat(),
            "agents": len(lines),
            "compressed": sum(compressed for compressed, _ in counts),
            "raw": sum(raw for _, raw in counts),
        }
        table = ["| agent | compressed | raw | generated at |", "|---|---|---|---|", *lines.values()]
        title = f"# What the agents of {plain(self._company)} went through"
        return file_bytes(front_matter(head), title, "\n".join(table))

    def _read(self) -> str:
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            # It is not there, or something else stands in its place and will be replaced.
            return ""
        with os.fdopen(descriptor, "rb") as source:
            return source.read().decode("utf-8", "replace")


def _lines(page: str) -> dict[str, str]:
    return {found[1]: found[0] for line in page.split("\n") if (found := _LINE.fullmatch(line))}


def _line(export: WikiExport, at: datetime) -> str:
    link = f"[{plain(export.agent_id)}]({slug(export.agent_id)}/index.md)"
    return f"| {link} | {export.compressed_count} | {export.raw_count} | {at.isoformat()} |"


def _head(page: str) -> dict[str, Any]:
    _, _, rest = page.partition("---\n")
    try:
        found = yaml.safe_load(rest.partition("\n---\n")[0])
    except yaml.YAMLError:
        return {}
    return found if isinstance(found, dict) else {}


class ExportTiers:
    """Reads what an export shows: all of it, or the newest ``max_entries_per_view`` of each tier.

    Args:
        backend: where compressed experiences live.
        ledger: where raw ones live.
        config: what is exported.
        company: whose agents.
    """

    def __init__(self, backend: BatchBackend, ledger: Ledger, config: WikiExportConfig, *, company: str) -> None:
        self._backend = backend
        self._experiences = ledger.experiences
        self._config = config
        self._company = company

    def count_raw(self, agent_id: str) -> int:
        """Return how many raw experiences an export shows."""
        if not self._config.include_raw_tier:
            return 0
        return self._capped(self._experiences.count(self._company, agent_id).total)

    async def count_compressed(self, agent_id: str) -> int:
        """Return how many compressed experiences an export shows."""
        if not self._config.include_compressed_tier:
            return 0
        return self._capped(await self._backend.count_where(_compressed(agent_id)))

    async def raw(self, agent_id: str) -> AsyncIterator[Sequence[DetailedExperience]]:
        """Yield the raw experiences, newest first."""
        left = self.count_raw(agent_id)
        last: DetailedExperience | None = None
        while left > 0 and (page := self._experiences.page(self._company, agent_id, before=last, limit=left)):
            yield page
            last, left = page[-1], left - len(page)

    async def compressed(self, agent_id: str) -> AsyncIterator[Sequence[MemoryEntry]]:
        """Yield the compressed experiences, oldest first."""
        where = _compressed(agent_id)
        left = await self.count_compressed(agent_id)
        # The store shows the oldest first: of more than may be shown, those before the newest are passed over.
        older = await self._backend.count_where(where) - left if left else 0
        cursor: str | None = None
        while left > 0:
            page = await self._backend.scan(where, cursor=cursor, limit=MAX_PAGE)
            shown = page.records[max(0, older) :][:left]
            older -= len(page.records) - len(shown)
            left -= len(shown)
            if shown:
                yield [record.entry for record in shown]
            cursor = page.cursor
            if cursor is None:
                return

    def _capped(self, number: int) -> int:
        most = self._config.max_entries_per_view
        return number if most is None else min(number, most)


def _compressed(agent_id: str) -> Where:
    return Where(agent_id=agent_id, tags=(COMPRESSED_TAG,))
