"""Both tiers of an agent's experience as an export reads them: page by page, as many as the policy says."""

from collections.abc import AsyncIterator, Sequence

from memcore.backends.protocol import MAX_PAGE, BatchBackend
from memcore.backends.where import Where
from memcore.config.wiki import WikiExportConfig
from memcore.experience_models import COMPRESSED_TAG, DetailedExperience
from memcore.ledger.ledger import Ledger
from memcore.models import MemoryEntry


class Tiers:
    """Read what an export shows: all of it, or the newest ``max_entries_per_view`` of each tier.

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
