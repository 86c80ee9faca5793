"""The wiki's pages: Markdown of raw and compressed experiences, each agent's index, and the front page."""

import os
import re
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from memcore.errors import MemoryConfigError
from memcore.experience import experience_of
from memcore.models.base import Frozen
from memcore.models.experience import CompressedExperience, DetailedExperience
from memcore.models.memory import MemoryCategory, MemoryEntry
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
    head = _origin(experience, MemoryCategory.EPISODIC)
    if experience.source_task_id is not None:
        head["source_task_id"] = experience.source_task_id
    return file_bytes(
        front_matter(head), "# Raw experience", *(f"## {title}\n\n{fenced(text)}" for title, text in parts)
    )


def compressed_page(entry: MemoryEntry, *, raw_ids: Container[str]) -> bytes:
    """Return the file of a compressed experience; sources that are exported too become links."""
    found = experience_of(entry)
    blocks = [fenced(entry.content)] if found is None else _lessons(found, raw_ids=raw_ids)
    return file_bytes(front_matter(_origin(entry, entry.category)), "# Compressed experience", *blocks)


def _origin(shown: DetailedExperience | MemoryEntry, category: MemoryCategory) -> dict[str, str]:
    return {
        "id": shown.id,
        "agent_id": shown.agent_id,
        "category": str(category),
        "created_at": shown.created_at.isoformat(),
    }


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


def raw_line(experience: DetailedExperience) -> str:
    """Return the index's line of a raw experience."""
    task = "" if experience.source_task_id is None else f", task {plain(experience.source_task_id)}"
    link = f"[{plain(experience.id)}](raw/{slug(experience.id)}.md)"
    return f"- {experience.created_at:%Y-%m-%d %H:%M:%S}: {link}{task}"


def compressed_line(entry: MemoryEntry) -> str:
    """Return the index's line of a compressed experience: its first decision."""
    found = experience_of(entry)
    line = " ".join((found.strategic_decisions[0] if found else entry.content).split())
    shown = line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS].rstrip()}..."
    return f"- {entry.created_at:%Y-%m-%d %H:%M:%S}: [{plain(shown)}](wiki/{slug(entry.id)}.md)"


def index_page(export: WikiExport, *, raw: Sequence[str], compressed: Sequence[str], at: datetime) -> bytes:
    """Return an agent's index of these lines."""
    head: dict[str, str | int] = {
        "agent_id": export.agent_id,
        "generated_at": at.isoformat(),
        "compressed": export.compressed_count,
        "raw": export.raw_count,
    }
    blocks = [front_matter(head), f"# What {plain(export.agent_id)} went through"]
    for title, lines in (("Compressed", compressed), ("Raw", raw)):
        if lines:
            blocks += [f"## {title}: {len(lines)}", "\n".join(lines)]
    return file_bytes(*blocks)


#: An agent's line: its folder, then compressed and raw experiences.
_LINE = re.compile(r"\| \[.*\]\(([a-z0-9_=-]+)/index\.md\) \| (\d+) \| (\d+) \| \S+ \|")


class CompanyIndex:
    """Maintains ``index.md`` in the root, which is one company's: two may have agents of the same name."""

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
        """Bring these exports' lines up to date, drop those without a folder; after an OSError the old page stays."""
        lock = lock_file(self._root / ".index.md.lock", wait=True)
        try:
            lines = {found[1]: found[0] for line in self._read().split("\n") if (found := _LINE.fullmatch(line))}
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
