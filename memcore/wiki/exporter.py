"""The wiki: what agents went through and what it taught them, as folders of Markdown files for people."""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from memcore.backends.protocol import BatchBackend
from memcore.clock import Clock, utc_now
from memcore.config.wiki import WikiExportConfig
from memcore.ledger.ledger import Ledger
from memcore.wiki.agent_export import AgentExport
from memcore.wiki.agent_folder import AgentFolder
from memcore.wiki.company_index import CompanyIndex
from memcore.wiki.events import WikiEvent
from memcore.wiki.tiers import Tiers
from memcore.wiki.wiki_export import WikiExport

#: Agents read from the ledger at a time.
_AGENTS_PAGE = 1_000

_log = logging.getLogger(__name__)


class WikiExporter:
    """Export the experience of a company's agents: ``raw/``, ``wiki/`` and ``index.md`` for each, and a front page.

    Each agent's folder is written anew beside the old one and takes its place at one stroke, or not at all. What goes
    wrong with files is told in the result and logged, never raised.

    Args:
        backend: where compressed experiences live.
        ledger: where raw ones live.
        config: what is exported.
        home: the data folder; ``export_root`` counts from there unless it begins with a slash.
        company: whose agents.
        clock: the time.
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
        self._tiers = Tiers(backend, ledger, config, company=company)
        self._agents = ledger.agents
        self._is_enabled = config.enabled
        self._root = (home / config.export_root).resolve()
        self._front = CompanyIndex(self._root, company)
        self._company = company
        self._clock = clock

    async def plan(self, agent_id: str) -> WikiExport:
        """Return how many files an export would write now; nothing is written.

        Raises MemoryRetrievalError, MemoryConnectionError.
        """
        if not self._is_enabled:
            return _disabled(agent_id)
        return WikiExport(
            agent_id=agent_id,
            raw_count=self._tiers.count_raw(agent_id),
            compressed_count=await self._tiers.count_compressed(agent_id),
            reason="nothing was written: this only tells",
        )

    async def export(self, agent_ids: Iterable[str]) -> tuple[WikiExport, ...]:
        """Export these agents, one after the other, and bring their lines of the front page up to date.

        Raises:
            MemoryConfigError: the root holds another company's wiki.
            MemoryRetrievalError, MemoryConnectionError: store or ledger cannot be read; what is not exported yet stays
                as it was.
        """
        if not self._is_enabled:
            return tuple(_disabled(agent_id) for agent_id in agent_ids)
        self._front.check()
        done: list[WikiExport] = []
        try:
            for agent_id in agent_ids:
                done.append(await self._one(agent_id))  # noqa: PERF401  # what was done before an error counts
        finally:
            await asyncio.to_thread(self._tell, [export for export in done if export.is_published])
        return tuple(done)

    def agents(self) -> Iterator[str]:
        """Yield every agent that the ledger knows."""
        last: str | None = None
        while page := self._agents.list(self._company, after=last, limit=_AGENTS_PAGE):
            yield from (agent.agent_id for agent in page)
            last = page[-1].agent_id

    def remove(self, agent_id: str) -> None:
        """Remove an agent's folder and its line of the front page: its experience was erased.

        Raises:
            MemoryConfigError: the root holds another company's wiki.
            OSError: it could not be removed.
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
                    _log.info(WikiEvent.CLEANED, extra={"agent_id": agent_id})
                export = await AgentExport(agent_id, self._tiers, folder, at=self._clock()).run()
        except OSError as error:
            export = WikiExport(agent_id=agent_id, reason=f"{self._root}: {error.strerror or error}")
        counts = export.model_dump(include={"agent_id", "raw_count", "compressed_count", "failed_count"})
        if export.is_published:
            _log.info(WikiEvent.EXPORTED, extra=counts)
        else:
            _log.warning(WikiEvent.FAILED, extra=counts)
        return export

    def _tell(self, published: list[WikiExport]) -> None:
        if not published:
            return
        try:
            self._front.put(published, at=self._clock())
        except OSError as error:
            # The agents' folders are whole, and the next export brings the page up to date.
            _log.warning(WikiEvent.FAILED, extra={"file": "index.md", "error": type(error).__name__})


def _disabled(agent_id: str) -> WikiExport:
    return WikiExport(agent_id=agent_id, reason="memory.consolidation.wiki_export.enabled is false")
