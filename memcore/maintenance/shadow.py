"""A shadow of an agent's memories: ranks them in this process as the store does, without a call of it."""

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import NDArray

from memcore.backends.fusion import Hit, RankedLists, weighted_rankings
from memcore.backends.neighbours import Remark
from memcore.backends.protocol import VectorBackend
from memcore.embedding.bm25 import Bm25Encoder
from memcore.models.memory import MemoryEntry, MemoryQuery
from memcore.records import ArchivedCopy, MemoryRecord, Vectors

#: Memories that are read into a shadow, the newest of an agent; to read all would cost more than to judge. Those that
#: a run would replace come on top, as they are judged.
MOST_MEMORIES = 1_000

_Mask = NDArray[np.bool_]
_Having = tuple["array[int]", "array[float]"]
_NONE = array("q")


class ShadowMemories:
    """Memories with their vectors; answers the searches of a prompt for questions that were embedded before.

    It has the agent's own memories alone: no shared knowledge, and no copies that earlier runs archived. What was
    replaced since is found as the store's archive index would find it.
    """

    def __init__(self, backend: VectorBackend) -> None:
        self.dense_weight = backend.dense_weight
        self._backend = backend
        self._encoder = Bm25Encoder()
        self._entries: list[MemoryEntry] = []
        self._remarks: list[Remark] = []
        self._places: dict[str, int] = {}
        self._summary_ids: dict[int, str] = {}
        self._dense = np.zeros((0, 0), dtype=np.float32)
        self._own: _Mask = np.zeros(0, dtype=np.bool_)
        self._archived: _Mask = np.zeros(0, dtype=np.bool_)
        #: Of each term the memories that have it, and its weight in them; arrays, since a usual word is in thousands.
        self._having: defaultdict[int, _Having] = defaultdict(lambda: (array("q"), array("f")))
        #: Of each memory its terms; None where the store keeps none.
        self._terms: list[tuple[int, ...] | None] = []
        self._rarity: dict[str, float] = {}
        #: Of each question its vector and its similarity to the first memories; none to those that came after.
        self._asked: dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}
        self._answers: dict[str, frozenset[int]] = {}
        #: The same of the questions that stay.
        self._kept: dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}

    @classmethod
    async def of(cls, backend: VectorBackend, agent_id: str) -> Self:
        """Read the newest memories of an agent that have not expired.

        Raises MemoryRetrievalError, MemoryConnectionError.
        """
        newest = await backend.retrieve(agent_id, MemoryQuery(limit=MOST_MEMORIES))
        records = await backend.get_many(agent_id, [entry.id for entry in newest], with_vectors=True)
        shadow = cls(backend)
        await shadow.add(records)
        return shadow

    async def add(self, records: Iterable[MemoryRecord]) -> list[Vectors]:
        """Add memories that are not there yet; return the vectors that were made for those without."""
        fresh = [record for record in records if record not in self]
        bare = [record.entry for record in fresh if record.vectors is None]
        made = await self._backend.document_vectors(bare) if bare else []
        vectors = {entry.id: one for entry, one in zip(bare, made, strict=True)}
        self._grow(len(fresh), [record.vectors or vectors[record.entry.id] for record in fresh])
        for record in fresh:
            self._append(record, record.vectors or vectors[record.entry.id])
        return made

    def __contains__(self, record: MemoryRecord) -> bool:
        """Return whether the memory is there, replaced or not."""
        return record.entry.id in self._places

    async def ask(self, questions: Mapping[str, Collection[str]]) -> None:
        """Embed the questions that will be searched for; those before are forgotten.

        Each has its answers, as terms: a search that finds no memory with one of them finds nothing, so that no prompt
        is made that could not answer. One without answers finds what there is.
        """
        self._answers = {text: frozenset(map(self._encoder.index_of, terms)) for text, terms in questions.items()}
        self._asked = await self._embedded([*questions])

    async def keep(self, questions: Collection[str]) -> None:
        """Embed questions that ``best`` searches for from now on, in one batch."""
        self._kept = await self._embedded([*questions])

    async def _embedded(self, questions: Sequence[str]) -> dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]:
        rows = await self._backend.query_vectors(questions)
        # Not BLAS: for a product as small as this its threads wait for one another, and take three times the CPU.
        there = self._dense[: len(self._entries)] if self._entries else np.zeros((0, rows.shape[1]), dtype=np.float32)
        scores = np.einsum("qd,md->qm", rows, there)
        return {text: (row, near) for text, row, near in zip(questions, rows, scores, strict=True)}

    def restore(self, ids: Iterable[str]) -> None:
        """Let archived memories be the agent's own again."""
        self._show(ids, is_own=True)

    def hide(self, ids: Iterable[str]) -> None:
        """Let memories be found no more; one that is not there is left out."""
        self._show(ids, is_own=False)

    def _show(self, ids: Iterable[str], *, is_own: bool) -> None:
        for place in [self._places[memory_id] for memory_id in ids if memory_id in self._places]:
            self._own[place], self._archived[place] = is_own, False
            self._summary_ids.pop(place, None)

    def drop_last(self) -> None:
        """Remove the memory that was added last."""
        entry = self._entries.pop()
        self._remarks.pop()
        self._own[self._places.pop(entry.id)] = False
        for index in self._terms.pop() or ():
            for each in self._having[index]:
                each.pop()

    async def index_archived(
        self, agent_id: str, copies: Sequence[ArchivedCopy], *, moved_from: Collection[str] = ()
    ) -> None:
        """Let memories be found as archived ones, and no more as the agent's own."""
        del agent_id, moved_from
        for copy in copies:
            place = self._places[copy.record.entry.id]
            self._own[place], self._archived[place] = False, True
            self._summary_ids[place] = copy.summary_id

    def rarity(self, word: str) -> float:
        """Return how rare a word was among the agent's memories (idf) when it was first asked for; 0 without a term."""
        if word not in self._rarity:
            indices = self._encoder.words_of(word)
            self._rarity[word] = min((self._idf(index, self._own) for index in indices), default=0.0)
        return self._rarity[word]

    async def retrieve(self, agent_id: str, query: MemoryQuery) -> tuple[MemoryEntry, ...]:
        """Return the nearest memories with their similarity, as a store without keywords does."""
        found = await self.retrieve_rankings(agent_id, query)
        return tuple(
            hit.entry.model_copy(update={"relevance_score": min(1.0, max(0.0, hit.score))})
            for hit in found.dense[: query.limit]
        )

    async def retrieve_rankings(
        self,
        agent_id: str,
        query: MemoryQuery,
        *,
        include_shared: bool = False,
        exclude_agents: Collection[str] = (),
        include_archived: bool = False,
    ) -> RankedLists:
        """Return the lists of an embedded question, as long as its limit.

        The store gives longer ones; what is behind these by meaning and by words seldom comes among the best of both.
        """
        del agent_id, include_shared, exclude_agents
        question = query.text or ""
        return self._lists(query, self._asked[question], self._answers[question], include_archived=include_archived)

    def best(self, query: MemoryQuery) -> list[MemoryEntry]:
        """Return the agent's own memories that rank best for a question that is kept, as many as it asks for."""
        lists = self._lists(query, self._kept[query.text or ""], frozenset(), include_archived=False)
        scores = weighted_rankings(lists, dense_weight=self.dense_weight, question=query.text or "")
        entries = {hit.entry.id: hit.entry for hit in (*lists.dense, *lists.sparse)}
        return [entries[each] for each in sorted(scores, key=scores.__getitem__, reverse=True)[: query.limit]]

    def may_pass(self, question: str, memory_id: str, *, before: str) -> bool:
        """Return whether a memory may rank before another for a kept question: it is nearer, or says a word of it."""
        vector, _ = self._kept[question]
        place, other = self._places[memory_id], self._places[before]
        if float(self._dense[place] @ vector) >= float(self._dense[other] @ vector):
            return True
        return not frozenset(self._encoder.encode_query(question).indices).isdisjoint(self._terms[place] or ())

    def _lists(
        self,
        query: MemoryQuery,
        embedded: tuple[NDArray[np.float32], NDArray[np.float32]],
        answers: frozenset[int],
        *,
        include_archived: bool,
    ) -> RankedLists:
        vector, near = embedded
        size = len(self._entries)
        if size > len(near):
            near = np.concatenate([near, self._dense[len(near) : size] @ vector])
        there = self._own | self._archived if include_archived else self._own
        worded = np.zeros(size, dtype=np.float32)
        asked = self._encoder.encode_query(query.text or "")
        for index, weight in zip(asked.indices, asked.values, strict=True):
            if index in self._having:
                places, weights = self._having[index]
                rarity = np.float32(weight * self._idf(index, there))
                worded[np.frombuffer(places, dtype=np.int64)] += np.frombuffer(weights, dtype=np.float32) * rarity
        has_meaning = bool(np.any(vector))

        def lists(mask: _Mask) -> tuple[list[int], list[int]]:
            among = np.flatnonzero(mask[:size])
            dense = _best(among, near, query.limit) if has_meaning else []
            return dense, _best(among[worded[among] > 0.0], worded, query.limit)

        own = lists(self._own)
        archived = lists(self._archived) if include_archived else ([], [])
        if not self._may_answer(answers, chain(*own, *archived)):
            return RankedLists(dense_weight=self.dense_weight)
        dense, archived_dense = (self._hits(places, near, near, worded) for places in (own[0], archived[0]))
        sparse, archived_sparse = (self._hits(places, worded, near, worded) for places in (own[1], archived[1]))
        return RankedLists(
            dense=dense,
            sparse=sparse,
            archived_dense=archived_dense,
            archived_sparse=archived_sparse,
            dense_weight=self.dense_weight,
        )

    def _may_answer(self, answers: frozenset[int], places: Iterable[int]) -> bool:
        said = (self._terms[place] for place in places)
        return not answers or any(terms is None or not answers.isdisjoint(terms) for terms in said)

    def _hits(
        self,
        places: Sequence[int],
        scores: NDArray[np.float32],
        near: NDArray[np.float32],
        worded: NDArray[np.float32],
    ) -> tuple[Hit, ...]:
        return tuple(
            Hit(
                entry=self._entries[place],
                score=float(scores[place]),
                cosine=float(near[place]),
                bm25=float(worded[place]),
                summary_id=self._summary_ids.get(place),
                remark=self._remarks[place],
            )
            for place in places
        )

    def _idf(self, index: int, there: _Mask) -> float:
        places = self._having[index][0] if index in self._having else _NONE
        with_it = int(np.count_nonzero(there[np.frombuffer(places, dtype=np.int64)]))
        return float(np.log1p((np.count_nonzero(there) - with_it + 0.5) / (with_it + 0.5)))

    def _grow(self, more: int, vectors: Sequence[Vectors]) -> None:
        wanted = len(self._entries) + more
        if wanted <= len(self._own):
            return
        size = max(wanted, 2 * len(self._own))
        dims = len(vectors[0].dense)
        grown = np.zeros((size, dims), dtype=np.float32)
        grown[: len(self._dense)] = self._dense if len(self._dense) else 0.0
        self._dense = grown
        room = size - len(self._own)
        self._own = np.concatenate([self._own, np.zeros(room, dtype=np.bool_)])
        self._archived = np.concatenate([self._archived, np.zeros(room, dtype=np.bool_)])

    def _append(self, record: MemoryRecord, vectors: Vectors) -> None:
        place, entry = len(self._entries), record.entry
        self._entries.append(entry)
        self._remarks.append(Remark.of(record))
        self._places[entry.id] = place
        self._dense[place] = vectors.dense
        self._own[place], self._archived[place] = True, False
        self._terms.append(None if vectors.sparse is None else vectors.sparse.indices)
        if vectors.sparse is not None:
            having = self._having
            for index, weight in zip(vectors.sparse.indices, vectors.sparse.values, strict=True):
                places, weights = having[index]
                places.append(place)
                weights.append(weight)


def _best(among: NDArray[np.intp], scores: NDArray[np.float32], limit: int) -> list[int]:
    """Return the places of the best scores, the first of equals first."""
    found = scores[among]
    if len(found) > limit:
        # All that are as good as the last one: which of equals stay must not depend on the algorithm.
        least = np.partition(found, len(found) - limit)[len(found) - limit]
        among, found = among[found >= least], found[found >= least]
    order = np.argsort(-found, kind="stable")[:limit]
    return [int(place) for place in among[order]]
