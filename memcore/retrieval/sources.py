"""Sources of memories, each apart: one that fails yields nothing, and the others still answer."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from memcore import errors
from memcore.backends.fusion import Hit, HybridBackend, RankedLists
from memcore.backends.protocol import (
    ORGANISATION,
    FactStore,
    FactStoreProvider,
    MemoryBackend,
    SharedKnowledgeStore,
    archive_index_of,
)
from memcore.clock import Clock
from memcore.embedding.bm25 import relevance_of, score_of
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryMetadata, MemoryQuery
from memcore.models.organization import OrgFact, OrgFactAuthor, OrgFactCategory
from memcore.org.search import namespace_of, shown_by
from memcore.retrieval.protocol import Degrading, ScoredMemory, Source, degrade

_Entries = tuple[MemoryEntry, ...]

#: The highest relevance of a keyword hit that has a finite score.
_ALMOST_ONE = 1.0 - 1e-9


class SharedSearch(Protocol):
    """The search that retrieval needs of a store of shared knowledge."""

    async def search_shared(self, query: MemoryQuery, *, exclude_agent: str | None = None) -> _Entries:
        """Return the matches, best first, without those that this agent published."""
        ...


class Sources:
    """Asks the backend for the agents' own memories, and the shared store, at once.

    Where publishers with more memories than can be used of one (``per_publisher``) fill an answer, and leave fewer than
    ``wanted``, the shared store is asked once more without them. Archived memories are searched with the agent's own,
    where they are wanted (``has_archived``) and the backend keeps copies of them.
    """

    def __init__(
        self,
        backend: MemoryBackend,
        shared: SharedSearch | None,
        *,
        per_publisher: int,
        wanted: int,
        has_archived: bool = False,
    ) -> None:
        self._per_publisher = per_publisher
        self._wanted = wanted
        self._backend = backend
        self._shared = shared
        other: object = shared
        self._is_one_store = backend is other
        self._has_archived = has_archived and archive_index_of(backend) is not None

    async def rankings(self, agent_id: str, query: MemoryQuery, *, hybrid: HybridBackend | None) -> RankedLists:
        """Return the four lists of a hybrid search; where the embedder fails, those of the keywords alone.

        Without a hybrid backend, ``dense`` and ``shared_dense`` are what the stores found, in their own order.
        """
        if hybrid is not None and self._is_one_store:
            own = found = await self._own_rankings(hybrid, agent_id, query)
        else:
            async with asyncio.TaskGroup() as both:
                mine = self._own(agent_id, query) if hybrid is None else self._own_rankings(hybrid, agent_id, query)
                first = both.create_task(mine)
                second = both.create_task(self._others(agent_id, query, has_words=hybrid is not None))
            own, found = first.result(), second.result()
        lists = (found.shared_dense, found.shared_sparse)
        entries = {hit.entry.id: hit.entry for each in lists for hit in each}.values()
        if crowd := self._crowding_publishers(entries, is_full=any(len(each) >= query.limit for each in lists)):
            more = await self._rankings_without(hybrid, agent_id, query, crowd)
            found = replace(
                found,
                shared_dense=_beside(found.shared_dense, more.shared_dense, crowd),
                shared_sparse=_beside(found.shared_sparse, more.shared_sparse, crowd),
            )
        return replace(own, shared_dense=found.shared_dense, shared_sparse=found.shared_sparse)

    def _crowding_publishers(self, found: Iterable[MemoryEntry], *, is_full: bool) -> frozenset[str]:
        """Return the publishers that may have crowded others out of an answer; none where enough of it can be used."""
        # A person's facts have no limit, and are never in the way.
        published = Counter(entry.agent_id for entry in found)
        most = self._per_publisher
        usable = sum(number if name == ORGANISATION else min(number, most) for name, number in published.items())
        if not is_full or usable >= self._wanted:
            return frozenset()
        return frozenset(name for name, number in published.items() if number > most and name != ORGANISATION)

    async def _rankings_without(
        self, hybrid: HybridBackend | None, agent_id: str, query: MemoryQuery, crowd: frozenset[str]
    ) -> RankedLists:
        if hybrid is not None and self._is_one_store:
            with Degrading(Source.SHARED_STORE, agent_id):
                return await hybrid.retrieve_rankings(agent_id, query, include_shared=True, exclude_agents=crowd)
        elif isinstance(self._shared, SharedKnowledgeStore):
            return await self._others(agent_id, query, has_words=hybrid is not None, but_not=crowd)
        return RankedLists()

    async def _own(self, agent_id: str, query: MemoryQuery) -> RankedLists:
        with Degrading(Source.BACKEND, agent_id):
            return RankedLists(dense=_near(await self._backend.retrieve(agent_id, query)))
        return RankedLists()

    async def _own_rankings(self, backend: HybridBackend, agent_id: str, query: MemoryQuery) -> RankedLists:
        include_shared = self._is_one_store
        # A backend of an engine's own may not know the word.
        more: dict[str, Any] = {"include_archived": True} if self._has_archived else {}
        try:
            return await backend.retrieve_rankings(agent_id, query, include_shared=include_shared, **more)
        except Exception as error:  # noqa: BLE001  # degrade raises what must not be hidden
            if include_shared and not _is_embedders(error):
                # Only a search of the agent's own alone shows which of the two failed.
                with Degrading(Source.BACKEND, agent_id):
                    found = await backend.retrieve_rankings(agent_id, query, **more)
                    degrade(error, source=Source.SHARED_STORE, agent_id=agent_id)
                    return found
                return RankedLists()
            degrade(error, source=Source.BACKEND, agent_id=agent_id)
            if not _is_embedders(error):
                return RankedLists()
        with Degrading(Source.KEYWORDS, agent_id):
            search = getattr(self._backend, "retrieve_sparse", None)
            own: _Entries = () if search is None else await search(agent_id, query)
            shared = await self._shared_words(agent_id, query, frozenset()) if include_shared else ()
            return RankedLists(sparse=_worded(own), shared_sparse=_worded(shared))
        return RankedLists()

    async def _search_shared(self, agent_id: str, query: MemoryQuery, but_not: frozenset[str]) -> _Entries:
        if but_not and isinstance(self._shared, SharedKnowledgeStore):
            return await self._shared.search_shared(query, exclude_agent=but_not | {agent_id})
        return () if self._shared is None else await self._shared.search_shared(query, exclude_agent=agent_id)

    async def _others(
        self, agent_id: str, query: MemoryQuery, *, has_words: bool, but_not: frozenset[str] = frozenset()
    ) -> RankedLists:
        with Degrading(Source.SHARED_STORE, agent_id):
            near = await self._search_shared(agent_id, query, but_not)
            worded = await self._shared_words(agent_id, query, but_not) if has_words else ()
            return RankedLists(shared_dense=_near(near), shared_sparse=_worded(worded))
        return RankedLists()

    async def _shared_words(self, agent_id: str, query: MemoryQuery, but_not: frozenset[str]) -> _Entries:
        # Beside the protocol: a store without an index of keywords has no such search.
        search = getattr(self._shared, "search_shared_sparse", None)
        if search is None:
            return ()
        found: _Entries = await search(query, exclude_agent=but_not | {agent_id} if but_not else agent_id)
        return found


def _beside(first: tuple[Hit, ...], more: tuple[Hit, ...], crowd: frozenset[str]) -> tuple[Hit, ...]:
    """Return the publishers' hits of the first list, and the list without them, best first."""
    kept = (*(hit for hit in first if hit.entry.agent_id in crowd), *(more or first))
    by_id = {hit.entry.id: hit for hit in kept}
    return tuple(sorted(by_id.values(), key=lambda hit: -hit.score))


def nearest(hits: tuple[Hit, ...]) -> _Entries:
    """Return the entries of a dense list with their similarity as relevance; a negative similarity is left out."""
    return tuple(hit.entry.model_copy(update={"relevance_score": min(1.0, max(0.0, hit.score))}) for hit in hits)


def _is_embedders(error: Exception) -> bool:
    # An embedder of the engine's own may raise anything; the store's errors are all of memcore's kinds.
    return isinstance(error, errors.MemoryEmbeddingError) or not isinstance(error, errors.MemoryError)


def _near(entries: _Entries) -> tuple[Hit, ...]:
    return tuple(Hit(entry=entry, score=entry.relevance_score or 0.0) for entry in entries)


def _worded(entries: _Entries) -> tuple[Hit, ...]:
    return tuple(Hit(entry=entry, score=score_of(min(_ALMOST_ONE, entry.relevance_score or 0.0))) for entry in entries)


#: Greatest age of a prompt's policies: a question to the ledger for each prompt would cost more than it gains.
KEPT = timedelta(seconds=5)

#: How long a prompt waits for the ledger, in seconds: longer than the ledger's own share of a deadline.
WAIT_SECONDS = 2.5

#: Characters of policies that are read at most; no budget holds as many.
MOST_CHARS = 1_000_000


class Organisation:
    """Reads the organisation's policies and facts from the ledger, by way of the backend that holds them."""

    def __init__(self, holder: FactStoreProvider | None, *, clock: Clock) -> None:
        self._holder = holder
        self._clock = clock
        self._reading = asyncio.Lock()
        self._read_at: datetime | None = None
        self._policies: tuple[OrgFact, ...] = ()
        self._error: Exception | None = None

    async def policies(self, agent_id: str) -> tuple[OrgFact, ...]:
        """Return the core policies that were written, oldest first; the last read if the ledger does not answer."""
        facts = None if self._holder is None else self._holder.facts
        if facts is None:
            return ()
        async with self._reading:
            # A clock that was set back must not keep it fresh for ever.
            if self._read_at is None or not timedelta() <= self._clock() - self._read_at < KEPT:
                await self._read(facts)
        if self._error is not None:
            degrade(self._error, source=Source.ORGANISATION, agent_id=agent_id)
        return self._policies

    async def checked(self, agent_id: str, found: tuple[ScoredMemory, ...]) -> tuple[ScoredMemory, ...]:
        """Return the hits without outdated versions of facts, and without policies, which lead anyway.

        Each current fact has its author. Where the ledger cannot say what is current, no fact is left.
        """
        shown = {memory.entry.id: shown_by(memory.entry) for memory in found if memory.is_fact}
        if not shown:
            return found
        authors: dict[str, OrgFactAuthor] = {}
        with Degrading(Source.ORGANISATION, agent_id):
            async with asyncio.timeout(WAIT_SECONDS):
                fact_ids = {each.fact_id for each in shown.values() if each is not None}
                standing = await self._holder.facts.standing(fact_ids) if self._holder and self._holder.facts else {}
            for key, each in shown.items():
                if each is None or each.fact_id not in standing:
                    continue
                version, fact = standing[each.fact_id]
                if version == each.version and fact.category is not OrgFactCategory.CORE_POLICY:
                    authors[key] = fact.author
        return tuple(
            memory.model_copy(update={"author": authors[memory.entry.id]}) if memory.is_fact else memory
            for memory in found
            if not memory.is_fact or memory.entry.id in authors
        )

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
    """Searches an organisation's facts where agents share nothing (``memory.options.shared_knowledge_base: false``)."""

    def __init__(self, holder: FactStoreProvider) -> None:
        self._holder = holder

    async def search_shared(self, query: MemoryQuery, *, exclude_agent: str | None = None) -> tuple[MemoryEntry, ...]:
        del exclude_agent  # no agent published them, so none is left out
        return nearest((await self._found(query)).dense)

    async def search_shared_sparse(
        self, query: MemoryQuery, *, exclude_agent: str | None = None
    ) -> tuple[MemoryEntry, ...]:
        del exclude_agent
        found = (await self._found(query)).sparse
        return tuple(hit.entry.model_copy(update={"relevance_score": relevance_of(hit.score)}) for hit in found)

    async def _found(self, query: MemoryQuery) -> RankedLists:
        facts = self._holder.facts
        return RankedLists() if facts is None else await facts.rankings(query)


def as_memories(policies: Sequence[OrgFact]) -> tuple[ScoredMemory, ...]:
    """Return policies as the first of a prompt's memories, each in its fence."""
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
                origin=fact.author.origin,
            ),
            relevance_score=1.0,
            recency_score=1.0,
            combined_score=1.0,
            is_shared=True,
            author=fact.author,
        )
        for fact in policies
    )
