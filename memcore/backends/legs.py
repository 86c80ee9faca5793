"""The lists that a hybrid search is made of, as the store ranked them and before anything fuses them."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from memcore.models import MemoryEntry, MemoryQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One memory of one list.

    Attributes:
        entry: the memory; its ``relevance_score`` is None, for a list alone does not say how relevant it is.
        score: the list's raw score: the cosine similarity (-1 to 1) in a dense list, BM25 (above 0) in a sparse one.
        cosine: the cosine similarity, known of a sparse hit too, so that a fusion need not guess it; None when the
            question has no vector.
        bm25: the BM25 score, of a dense hit too where the backend asks for it; None where it is not known.
    """

    entry: MemoryEntry
    score: float
    cosine: float | None = None
    bm25: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Legs:
    """The four lists, each best first; ``fusion.weighted_legs`` makes one of them.

    Attributes:
        dense: the agent's own memories by meaning.
        sparse: the agent's own memories by keywords; empty without words to search, or with ``retrieval.sparse`` off.
        shared_dense: as dense, of what other agents published.
        shared_sparse: as sparse, of what other agents published.
        dense_weight: the share of the vectors that goes with the embedder that these lists were made with; None leaves
            it to the backend's.
    """

    dense: tuple[Hit, ...] = ()
    sparse: tuple[Hit, ...] = ()
    shared_dense: tuple[Hit, ...] = ()
    shared_sparse: tuple[Hit, ...] = ()
    dense_weight: float | None = None


@runtime_checkable
class HybridBackend(Protocol):
    """A backend that searches by meaning and by keywords in one round trip."""

    @property
    def dense_weight(self) -> float:
        """The share of the dense lists in a weighted fusion: the policy's, or else the embedder's own default."""
        ...

    async def retrieve_legs(
        self,
        agent_id: str,
        query: MemoryQuery,
        *,
        include_shared: bool = False,
        exclude_agents: Collection[str] = (),
    ) -> Legs:
        """Return every list of a text query; ``query.min_relevance`` does not cut them, for they are not fused yet.

        Each list is as long as the query's limit and at least 50, if there are so many. A query without a text has
        empty lists. The shared lists are without what the agent itself and ``exclude_agents`` published.

        Raises MemoryRetrievalError, MemoryConnectionError.
        """
        ...
