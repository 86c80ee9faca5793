"""Builds a mem0 backend from the company's policy."""

from memcore.backends.deletion import Deletion
from memcore.backends.fusion import default_dense_weight
from memcore.backends.mem0.active_collection import PlanOf, PointerReader
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config, PointerConfig
from memcore.backends.mem0.search import SearchPlan
from memcore.clock import Clock
from memcore.config.memory import CompanyMemoryConfig
from memcore.config.retrieval import FusionStrategy, SparseTermWeight
from memcore.embedding.bm25 import Bm25Encoder, TermWeighting
from memcore.embedding.protocol import Embedder, EmbedderKind


def build_mem0(
    config: CompanyMemoryConfig,
    place: Mem0Config,
    *,
    company: str,
    embedder: Embedder,
    followed: PointerConfig | None = None,
    deletion: Deletion | None = None,
    clock: Clock,
) -> Mem0Backend:
    """Return a disconnected backend that searches as the policy says.

    The backend does only the weighted fusion: linear ranks the vectors alone, and rrf fuses the lists of
    ``retrieve_rankings`` with those of shared memories. Sparse vectors are written whatever the strategy, so
    that turning keywords on later needs no reindex.
    """
    plan_of = plans(config)
    return Mem0Backend(
        place,
        company=company,
        embedder=embedder,
        encoder=encoder_of(config),
        plan=plan_of(embedder.kind, None),
        text_template=config.storage.text_template,
        is_sharing=config.options.shared_knowledge_base,
        following=None if followed is None else PointerReader(row=followed, plan_of=plan_of),
        deletion=deletion,
        clock=clock,
    )


def encoder_of(config: CompanyMemoryConfig) -> Bm25Encoder:
    """Return the encoder of sparse vectors that the policy asks for."""
    is_raw = config.retrieval.sparse_term_weight is SparseTermWeight.RAW
    return Bm25Encoder(weighting=TermWeighting.FREQUENCY if is_raw else TermWeighting.SATURATED)


def plans(config: CompanyMemoryConfig) -> PlanOf:
    """Return how text queries are answered with an embedder of a kind, and the weight that came with its collection.

    That weight was measured with the embedder, so it wins over the policy's, which wins over the kind's usual one.
    """
    retrieval = config.retrieval

    def plan_of(kind: EmbedderKind, weight: float | None) -> SearchPlan:
        chosen = retrieval.dense_weight if weight is None else weight
        return SearchPlan(
            is_hybrid=retrieval.sparse and retrieval.fusion_strategy is FusionStrategy.WEIGHTED,
            dense_weight=default_dense_weight(kind) if chosen is None else chosen,
            has_keywords=retrieval.sparse,
            has_words_of_dense=kind is not EmbedderKind.STATIC,
        )

    return plan_of
