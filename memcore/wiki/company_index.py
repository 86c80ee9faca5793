"""The wiki's front page: every agent with its counts, a line each; the file is its own memory of the other agents."""

import os
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from memcore.errors import MemoryConfigError
from memcore.wiki.agent_folder import drop, lock_file, sync_folder, write_durably
from memcore.wiki.markdown import file_bytes, front_matter, plain
from memcore.wiki.place_name import place_name
from memcore.wiki.wiki_export import WikiExport

#: An agent's line: its folder, then compressed and raw experiences.
_LINE = re.compile(r"\| \[.*\]\(([a-z0-9_=-]+)/index\.md\) \| (\d+) \| (\d+) \| \S+ \|")


class CompanyIndex:
    """``index.md`` in the export's root.

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
            exports: what was published.
            at: when.

        Raises OSError; then the old page stays.
        """
        lock = lock_file(self._root / ".index.md.lock", wait=True)
        try:
            lines = _lines(self._read())
            lines |= {place_name(export.agent_id): _line(export, at) for export in exports}
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
    link = f"[{plain(export.agent_id)}]({place_name(export.agent_id)}/index.md)"
    return f"| {link} | {export.compressed_count} | {export.raw_count} | {at.isoformat()} |"


def _head(page: str) -> dict[str, Any]:
    _, _, rest = page.partition("---\n")
    try:
        found = yaml.safe_load(rest.partition("\n---\n")[0])
    except yaml.YAMLError:
        return {}
    return found if isinstance(found, dict) else {}
