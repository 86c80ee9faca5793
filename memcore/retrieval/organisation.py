"""What an organisation says, for prompts: its policies, read anew every few seconds, and the facts that still stand."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from memcore.backends.facts import ORGANISATION, FactStore, HoldsFacts
from memcore.backends.legs import Legs
from memcore.clock import Clock
from memcore.config.write_access import OrgFactCategory
from memcore.embedding.relevance import relevance_of
from memcore.models import MemoryCategory, MemoryEntry, MemoryMetadata, MemoryQuery
from memcore.org.shown_fact import namespace_of, shown_by
from memcore.org_models import OrgFact
from memcore.retrieval.degradation import Source, degrade
from memcore.retrieval.scored_memory import ScoredMemory
from memcore.retrieval.sources import nearest

#: How old policies may be that lead a prompt: a question to the ledger for each prompt would cost more than it tells.
KEPT = timedelta(seconds=5)

#: How long a prompt waits for the ledger, in seconds.
WAIT_SECONDS = 2.0

#: Characters of policies that are read at most; no budget holds as many.
MOST_CHARS = 1_000_000


class Organisation:
    """Ask the ledger for what a prompt says in an organisation's name; where it fails, an event says so.

    Args:
        holder: the backend beside whose memories facts lie; None for none.
        clock: the time.
    """

    def __init__(self, holder: HoldsFacts | None, *, clock: Clock) -> None:
        self._holder = holder
        self._clock = clock
        self._reading = asyncio.Lock()
        self._read_at: datetime | None = None
        self._policies: tuple[OrgFact, ...] = ()
        self._error: Exception | None = None

    async def policies(self, agent_id: str) -> tuple[OrgFact, ...]:
        """Return the core policies that were written, oldest first; those read last when the ledger does not answer."""
        facts = None if self._holder is None else self._holder.facts
        if facts is None:
            return ()
        async with self._reading:
            if not self._is_fresh():
                await self._read(facts)
        if self._error is not None:
            degrade(self._error, source=Source.ORGANISATION, agent_id=agent_id)
        return self._policies

    async def checked(self, agent_id: str, found: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        """Return what was found without versions of facts that stand no more, and without policies, which lead anyway.

        Each fact that stands has its author. Where the ledger cannot say what stands, no fact is left.
        """
        shown = {memory.entry.id: shown_by(memory.entry) for memory in found if memory.is_fact}
        if not shown:
            return found
        standing = await self._standing(agent_id, {fact.fact_id for fact in shown.values() if fact is not None})
        authors = {
            key: standing[fact.fact_id][1].author
            for key, fact in shown.items()
            if fact is not None and fact.fact_id in standing and standing[fact.fact_id][0] == fact.version
        }
        return tuple(
            memory.model_copy(update={"author": authors[memory.entry.id]}) if memory.is_fact else memory
            for memory in found
            if not memory.is_fact or memory.entry.id in authors
        )

    async def _standing(self, agent_id: str, fact_ids: set[str]) -> dict[str, tuple[int, OrgFact]]:
        facts = None if self._holder is None else self._holder.facts
        if facts is None:
            return {}
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                standing = await facts.standing(fact_ids)
        except Exception as error:  # noqa: BLE001  # degrade raises what must not be hidden
            degrade(error, source=Source.ORGANISATION, agent_id=agent_id)
            return {}
        return {
            key: (version, fact)
            for key, (version, fact) in standing.items()
            if fact.category is not OrgFactCategory.CORE_POLICY
        }

    def _is_fresh(self) -> bool:
        # A clock that was set back makes nothing fresh for ever.
        return self._read_at is not None and timedelta() <= self._clock() - self._read_at < KEPT

    async def _read(self, facts: FactStore) -> None:
        found: list[OrgFact] = []
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while page := await facts.policies(offset=len(found)):
                    found += page
                    if sum(len(fact.content) for fact in found) > MOST_CHARS:
                        break
        except Exception as error:  # noqa: BLE001  # told by whoever asks, until it is tried again
            self._error = error
        else:
            self._policies, self._error = tuple(found), None
        self._read_at = self._clock()


class FactsAlone:
    """Search an organisation's facts where agents share nothing (``memory.options.shared_knowledge_base: false``).

    Args:
        holder: the backend beside whose memories facts lie.
    """

    def __init__(self, holder: HoldsFacts) -> None:
        self._holder = holder

    async def search_shared(self, query: MemoryQuery, *, exclude_agent: str | None = None) -> tuple[MemoryEntry, ...]:
        """Return the facts near a text, best first; no agent published them, so none is left out."""
        del exclude_agent
        return nearest((await self._found(query)).dense)

    async def search_shared_sparse(
        self, query: MemoryQuery, *, exclude_agent: str | None = None
    ) -> tuple[MemoryEntry, ...]:
        """Return the facts with words of a text, best first."""
        del exclude_agent
        found = (await self._found(query)).sparse
        return tuple(hit.entry.model_copy(update={"relevance_score": relevance_of(hit.score)}) for hit in found)

    async def _found(self, query: MemoryQuery) -> Legs:
        facts = self._holder.facts
        return Legs() if facts is None else await facts.legs(query)


def as_memories(policies: Sequence[OrgFact]) -> tuple[ScoredMemory, ...]:
    """Return policies as what stands first among a prompt's memories, each in its fence."""
    return tuple(
        ScoredMemory(
            entry=MemoryEntry(
                id=fact.id,
                agent_id=ORGANISATION,
                namespace=namespace_of(fact.category),
                category=MemoryCategory.SEMANTIC,
                content=fact.content,
                metadata=MemoryMetadata(source=fact.id),
                created_at=fact.created_at,
            ),
            relevance_score=1.0,
            recency_score=1.0,
            combined_score=1.0,
            is_shared=True,
            author=fact.author,
        )
        for fact in policies
    )
