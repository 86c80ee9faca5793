"""From the company's policy to a mem0 backend."""

from memcore.backends.fusion import default_dense_weight
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.place import Mem0Place
from memcore.backends.mem0.search import SearchPlan
from memcore.clock import Clock
from memcore.config.company import CompanyMemoryConfig
from memcore.config.fusion import FusionStrategy, SparseTermWeight
from memcore.embedding.bm25 import Bm25Encoder, TermWeighting
from memcore.embedding.protocol import Embedder, EmbedderKind


def build_mem0(
    config: CompanyMemoryConfig, place: Mem0Place, *, company: str, embedder: Embedder, clock: Clock
) -> Mem0Backend:
    """Return a disconnected backend that searches as the policy says.

    Only the weighted fusion is the backend's: linear ranks the vectors alone, and rrf joins them with
    ``retrieve_legs`` where personal and shared memories meet. Sparse vectors are written whatever the strategy, so
    that turning keywords on later needs no reindex.
    """
    retrieval, weight = config.retrieval, config.retrieval.dense_weight
    is_raw = retrieval.sparse_term_weight is SparseTermWeight.RAW
    return Mem0Backend(
        place if config.options.shared_knowledge_base else place.model_copy(update={"ledger_url": None}),
        company=company,
        embedder=embedder,
        encoder=Bm25Encoder(weighting=TermWeighting.FREQUENCY if is_raw else TermWeighting.SATURATED),
        plan=SearchPlan(
            is_hybrid=retrieval.sparse and retrieval.fusion_strategy is FusionStrategy.WEIGHTED,
            dense_weight=default_dense_weight(embedder.kind) if weight is None else weight,
            has_keywords=retrieval.sparse,
            has_words_of_dense=embedder.kind is not EmbedderKind.STATIC,
        ),
        text_template=config.storage.text_template,
        clock=clock,
    )
