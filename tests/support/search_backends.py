"""Backends whose answers or errors a test gives."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from memcore.backends.fusion import Hit, RankedLists
from memcore.backends.inmemory import InMemoryBackend
from memcore.models.memory import MemoryEntry, MemoryQuery

#: What a part answers, or the error that it raises instead.
Entries = tuple[MemoryEntry, ...]


def hits(*entries: MemoryEntry) -> tuple[Hit, ...]:
    """Return them as a list of raw scores: twelve times their relevance, as BM25 may have it."""
    return tuple(Hit(entry=entry, score=12.0 * (entry.relevance_score or 0.0)) for entry in entries)


def near(*entries: MemoryEntry) -> tuple[Hit, ...]:
    """Return them as a dense list: their relevance is their similarity."""
    return tuple(Hit(entry=entry, score=entry.relevance_score or 0.0) for entry in entries)


class PlainBackend(InMemoryBackend):
    """Answers every text query with the same entries; its other calls are those of the backend in memory."""

    def __init__(self, answer: Entries | BaseException = ()) -> None:
        super().__init__(company="acme")
        self.answer = answer
        self.queries: list[MemoryQuery] = []

    async def retrieve(self, agent_id: str, query: MemoryQuery) -> Entries:
        del agent_id
        self.queries.append(query)
        return _given(self.answer)[: query.limit]


class HybridBackend(PlainBackend):
    """Answers with lists; ``shared_fails`` raises whenever shared knowledge is asked for too."""

    dense_weight = 0.4

    def __init__(
        self,
        rankings: RankedLists | BaseException,
        *,
        words: Entries | BaseException = (),
        shared_fails: Exception | None = None,
    ) -> None:
        super().__init__()
        self._rankings = rankings
        self._words = words
        self._shared_fails = shared_fails
        self.trips: list[bool] = []
        self.excluded: list[frozenset[str]] = []

    async def retrieve_rankings(
        self,
        agent_id: str,
        query: MemoryQuery,
        *,
        include_shared: bool = False,
        exclude_agents: Collection[str] = (),
        include_archived: bool = False,
    ) -> RankedLists:
        del agent_id
        if exclude_agents and isinstance(self._rankings, RankedLists):
            self.excluded.append(frozenset(exclude_agents))
            return replace(
                self._rankings,
                shared_dense=tuple(
                    hit for hit in self._rankings.shared_dense if hit.entry.agent_id not in exclude_agents
                ),
                shared_sparse=tuple(
                    hit for hit in self._rankings.shared_sparse if hit.entry.agent_id not in exclude_agents
                ),
            )
        self.queries.append(query)
        self.trips.append(include_shared)
        if include_shared and self._shared_fails is not None:
            raise self._shared_fails
        if isinstance(self._rankings, BaseException):
            raise self._rankings
        found = self._rankings
        if not include_shared:
            found = replace(found, shared_dense=(), shared_sparse=())
        return found if include_archived else replace(found, archived_dense=(), archived_sparse=())

    async def retrieve_sparse(self, agent_id: str, query: MemoryQuery) -> Entries:
        del agent_id, query
        return _given(self._words)


@dataclass
class SharedStore:
    """Shared knowledge that answers the same entries, and remembers whom it was told to leave out."""

    answer: Entries | BaseException = ()
    excluded: list[str | None] = field(default_factory=list)

    async def search_shared(self, query: MemoryQuery, *, exclude_agent: str | None = None) -> Entries:
        del query
        self.excluded.append(exclude_agent)
        return _given(self.answer)


def _given(answer: Entries | BaseException) -> Entries:
    if isinstance(answer, BaseException):
        raise answer
    return answer
