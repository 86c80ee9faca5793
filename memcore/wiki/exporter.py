"""Exports agents' raw and compressed experience as folders of Markdown files for people."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Self

from memcore.backends.protocol import BatchBackend, pages
from memcore.clock import Clock, utc_now
from memcore.company import CompanyContext
from memcore.config.maintenance import WikiExportConfig
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.ledger.ledger import Ledger
from memcore.models.experience import DetailedExperience
from memcore.models.memory import COMPRESSED_TAG, MemoryEntry
from memcore.records import Where
from memcore.telemetry.events import Event
from memcore.wiki.folders import AgentFolder, slug
from memcore.wiki.pages import (
    CompanyIndex,
    WikiExport,
    compressed_line,
    compressed_page,
    index_page,
    raw_line,
    raw_page,
)

#: Failed files after which the rest is not tried: nothing of it will be published, and a full disk fails for each.
MAX_FAILURES = 10

#: Files written at a time: a disk that syncs eight files at once takes a fourth of the time of one by one.
WRITERS = 8

_log = logging.getLogger(__name__)


#: Agents read from the ledger at a time.
_AGENTS_PAGE = 1_000


class WikiExporter:
    """Exports the experience of a company's agents: ``raw/``, ``wiki/`` and ``index.md`` for each, and a front page.

    Each agent's folder is written anew beside the old one and replaces it atomically, or not at all. Errors of files
    are in the result and in the log, and never raised. Shown is all of it, or the newest ``max_entries_per_view`` of
    each tier. ``export_root`` counts from ``home``, the data folder, unless it begins with a slash.
    """

    def __init__(
        self,
        backend: BatchBackend,
        ledger: Ledger,
        config: WikiExportConfig,
        *,
        home: Path,
        company: str,
        clock: Clock = utc_now,
    ) -> None:
        self._backend = backend
        self._agents = ledger.agents
        self._experiences = ledger.experiences
        self._hidden = ledger.hidden
        self._config = config
        self._root = (home / config.export_root).resolve()
        self._front = CompanyIndex(self._root, company)
        self._company = company
        self._clock = clock

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        wiki = context.policy.memory.consolidation.wiki_export
        return cls(
            context.backend,
            context.ledger,
            wiki,
            home=context.settings.home,
            company=context.company,
            clock=context.clock,
        )

    async def export_after_run(self, agent_id: str) -> WikiExport:
        """Export the agent whose run has just ended.

        It raises no memory error: the run is over, and a failed export must not make it look undone.
        """
        try:
            (export,) = await self.export([agent_id])
        except MemoryError as error:
            _log.warning(Event.WIKI_EXPORT_FAILED, extra={"agent_id": agent_id, "error": type(error).__name__})
            return WikiExport(agent_id=agent_id, reason=str(error))
        return export

    async def plan(self, agent_id: str) -> WikiExport:
        """Return how many files an export would write now. Raises MemoryRetrievalError, MemoryConnectionError."""
        if not self._config.enabled:
            return _disabled(agent_id)
        return WikiExport(
            agent_id=agent_id,
            raw_count=self._count_raw(agent_id),
            compressed_count=await self._count_compressed(agent_id),
            reason="nothing was written: this only tells",
        )

    async def export(self, agent_ids: Iterable[str]) -> tuple[WikiExport, ...]:
        """Export these agents, one after the other, and bring their lines of the front page up to date.

        Raises:
            MemoryConfigError: the root holds another company's wiki.
            MemoryRetrievalError, MemoryConnectionError: store or ledger cannot be read; what is not exported yet stays
                as it was.
        """
        if not self._config.enabled:
            return tuple(_disabled(agent_id) for agent_id in agent_ids)
        self._front.check()
        done: list[WikiExport] = []
        try:
            for agent_id in agent_ids:
                done.append(await self._one(agent_id))  # noqa: PERF401  # what was done before an error counts
        finally:
            await asyncio.to_thread(self._index, [export for export in done if export.is_published])
        return tuple(done)

    def agents(self) -> Iterator[str]:
        """Yield every agent that the ledger knows."""
        last: str | None = None
        while page := self._agents.list(self._company, after=last, limit=_AGENTS_PAGE):
            yield from (agent.agent_id for agent in page)
            last = page[-1].agent_id

    def remove(self, agent_id: str) -> None:
        """Remove an agent's folder and its line of the front page: its experience was erased.

        Raises MemoryConfigError when the root holds another company's wiki, and OSError.
        """
        if not self._root.is_dir():
            return
        self._front.check()
        with AgentFolder(self._root, agent_id) as folder:
            folder.remove()
        self._front.put((), at=self._clock())

    async def _one(self, agent_id: str) -> WikiExport:
        try:
            async with AgentFolder(self._root, agent_id) as folder:
                if folder.cleaned:
                    _log.info(Event.WIKI_EXPORT_CLEANED, extra={"agent_id": agent_id})
                export = await self._written(agent_id, folder)
        except OSError as error:
            export = WikiExport(agent_id=agent_id, reason=f"{self._root}: {error.strerror or error}")
        counts = export.model_dump(include={"agent_id", "raw_count", "compressed_count", "failed_count"})
        if export.is_published:
            _log.info(Event.WIKI_EXPORT_COMPLETE, extra=counts)
        else:
            _log.warning(Event.WIKI_EXPORT_FAILED, extra=counts)
        return export

    async def _written(self, agent_id: str, folder: AgentFolder) -> WikiExport:
        """Write an agent's files, and publish its folder when every one of them is there."""
        at = self._clock()
        files = _FolderWriter(agent_id, folder)
        raw_lines: list[str] = []
        compressed_lines: list[str] = []
        raw_ids: set[str] = set()
        async for experiences in self._raw(agent_id):
            written = await files.write(("raw", each.id, raw_page(each)) for each in experiences)
            raw_ids |= written
            raw_lines += [raw_line(each) for each in experiences if each.id in written]
        async for entries in self._compressed(agent_id):
            pages = (("wiki", entry.id, compressed_page(entry, raw_ids=raw_ids)) for entry in entries)
            written = await files.write(pages)
            compressed_lines += [compressed_line(entry) for entry in entries if entry.id in written]
        export = WikiExport(
            agent_id=agent_id,
            raw_count=len(raw_lines),
            compressed_count=len(compressed_lines),
            failed_count=files.failed,
        )
        if files.failed:
            reason = f"{files.failed} files could not be written; the export before stays"
            return export.model_copy(update={"reason": reason})

        def publish() -> None:
            folder.add("index.md", index_page(export, raw=raw_lines, compressed=compressed_lines, at=at))
            folder.publish()

        await asyncio.to_thread(publish)
        return export.model_copy(update={"is_published": True})

    def _count_raw(self, agent_id: str) -> int:
        if not self._config.include_raw_tier:
            return 0
        return self._capped(self._experiences.count(self._company, agent_id).total)

    async def _count_compressed(self, agent_id: str) -> int:
        if not self._config.include_compressed_tier:
            return 0
        return self._capped(await self._backend.count_where(_compressed(agent_id)))

    def _capped(self, number: int) -> int:
        most = self._config.max_entries_per_view
        return number if most is None else min(number, most)

    async def _raw(self, agent_id: str) -> AsyncIterator[Sequence[DetailedExperience]]:
        """Yield the raw experiences, newest first."""
        left, hidden = self._count_raw(agent_id), self._hidden.of(self._company)
        last: DetailedExperience | None = None
        while left > 0 and (page := self._experiences.page(self._company, agent_id, before=last, limit=left)):
            yield [each for each in page if not hidden.distrusts_experience(each)]
            last, left = page[-1], left - len(page)

    async def _compressed(self, agent_id: str) -> AsyncIterator[Sequence[MemoryEntry]]:
        """Yield the compressed experiences, oldest first."""
        where = _compressed(agent_id)
        if (left := await self._count_compressed(agent_id)) == 0:
            return
        # The store shows the oldest first: of more than may be shown, those before the newest are passed over.
        older = await self._backend.count_where(where) - left
        hidden = self._hidden.of(self._company)
        async for records in pages(self._backend, where):
            shown = records[max(0, older) :][:left]
            older -= len(records) - len(shown)
            left -= len(shown)
            if shown:
                yield [record.entry for record in shown if not hidden.distrusts_memory(record.entry)]
            if left <= 0:
                return

    def _index(self, published: list[WikiExport]) -> None:
        if not published:
            return
        try:
            self._front.put(published, at=self._clock())
        except OSError as error:
            # The agents' folders are whole, and the next export brings the page up to date.
            _log.warning(Event.WIKI_EXPORT_FAILED, extra={"file": "index.md", "error": type(error).__name__})


class _FolderWriter:
    """Writes files into an agent's folder, several at a time; a failure is counted and logged."""

    def __init__(self, agent_id: str, folder: AgentFolder) -> None:
        self._agent_id = agent_id
        self._folder = folder
        self.failed = 0

    async def write(self, files: Iterable[tuple[str, str, bytes]]) -> set[str]:
        """Write files of these folders and keys, and return the keys of those that were written."""
        # In threads: a disk that is slow to answer must not hold up the other jobs of this process.
        return await asyncio.to_thread(self._write_now, iter(files))

    def _write_now(self, files: Iterator[tuple[str, str, bytes]]) -> set[str]:
        written: set[str] = set()
        with ThreadPoolExecutor(WRITERS) as writers:
            while self.failed < MAX_FAILURES and (batch := list(islice(files, WRITERS))):
                done = [key for key in writers.map(self._write_one, batch) if key is not None]
                self.failed += len(batch) - len(done)
                written.update(done)
        return written

    def _write_one(self, file: tuple[str, str, bytes]) -> str | None:
        folder, key, content = file
        try:
            self._folder.add(f"{folder}/{slug(key)}.md", content)
        except OSError as error:
            about = {"agent_id": self._agent_id, "id": key, "error": type(error).__name__}
            _log.warning(Event.WIKI_EXPORT_FILE_FAILED, extra=about)
            return None
        return key


def _compressed(agent_id: str) -> Where:
    return Where(agent_id=agent_id, tags=(COMPRESSED_TAG,))


def _disabled(agent_id: str) -> WikiExport:
    return WikiExport(agent_id=agent_id, reason="memory.consolidation.wiki_export.enabled is false")
