"""Facts of the organisation in a company's collection: shared knowledge under a name of their own."""

from collections.abc import Collection

from memcore.backends.facts import ORGANISATION
from memcore.backends.legs import Legs
from memcore.backends.mem0.calls import Calls
from memcore.backends.mem0.shared_knowledge import SharedKnowledge
from memcore.backends.mem0.shelves import Shelves
from memcore.backends.mem0.space import Space
from memcore.backends.record import MemoryRecord
from memcore.clock import Clock
from memcore.config.write_access import OrgFactCategory
from memcore.errors import MemoryInputError
from memcore.ledger.org_log import OrgLog
from memcore.models import MemoryQuery
from memcore.org_models import OrgFact


class Facts:
    """Show, hide and find facts by the way of shared knowledge, and read them where they stand, in the ledger."""

    def __init__(
        self,
        *,
        company: str,
        log: OrgLog,
        shared: SharedKnowledge,
        shelves: Shelves,
        calls: Calls,
        clock: Clock,
    ) -> None:
        self._company = company
        self._log = log
        self._shared = shared
        self._shelves = shelves
        self._calls = calls
        self._clock = clock

    @property
    def dense_weight(self) -> float:
        """The share of the vectors in a weighted fusion."""
        return self._shelves.last().shelf.plan.dense_weight

    async def show(self, record: MemoryRecord) -> None:
        """Publish one version of a fact, at most once."""
        if record.entry.agent_id != ORGANISATION:
            raise MemoryInputError("agent_id", f"must be {ORGANISATION}: this shows facts and nothing else")
        await self._shared.put(record, once=True)

    async def hide(self, memory_id: str) -> None:
        """Retract a version of a fact."""
        await self._shared.take(ORGANISATION, memory_id)

    async def legs(self, query: MemoryQuery) -> Legs:
        """Return what a text finds of the facts alone."""
        now, text, version = self._clock(), query.text, await self._shared.version()
        if text is None or version == 0:
            return Legs()
        space = Space.of_publisher(ORGANISATION, query, version=version)
        return await self._calls.read(
            "facts", lambda: self._shelves.reading().search.legs(space, None, query, text, now=now)
        )

    async def standing(self, fact_ids: Collection[str]) -> dict[str, tuple[int, OrgFact]]:
        """Return those of the facts that stand, each with its version."""
        return await self._calls.read("standing", lambda: self._log.standing(self._company, fact_ids))

    async def policies(self, *, offset: int) -> tuple[OrgFact, ...]:
        """Return a page of the core policies that were written, oldest first."""
        only = frozenset({OrgFactCategory.CORE_POLICY})
        return await self._calls.read(
            "policies", lambda: self._log.facts(self._company, categories=only, offset=offset)
        )
