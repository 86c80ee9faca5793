"""What a backend needs to follow the row that says where the memories are."""

from dataclasses import dataclass

from memcore.backends.mem0.followed import Followed
from memcore.backends.mem0.indexed_text import IndexedText
from memcore.backends.mem0.shelf import PlanOf
from memcore.embedding.bm25 import Bm25Encoder
from memcore.embedding.choice import EmbedderChoice
from memcore.embedding.protocol import Embedder, EmbedderIdentity
from memcore.ledger.serving import ServedCollection


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """The row, and how text queries are answered with whatever embedder it names."""

    row: Followed
    plan_of: PlanOf


def served(
    name: str,
    *,
    embedder: Embedder,
    encoder: Bm25Encoder,
    text: IndexedText,
    choice: EmbedderChoice,
    generation: int = 1,
    dense_weight: float | None = None,
    checkpoint_id: str | None = None,
) -> ServedCollection:
    """Describe a collection and everything that belongs to it."""
    return ServedCollection(
        name=name,
        generation=generation,
        identity=EmbedderIdentity.of(embedder, text_form=text.form(encoder.weighting)),
        choice=choice.without_server,
        text_template=text.template,
        term_weighting=encoder.weighting.value,
        dense_weight=dense_weight,
        checkpoint_id=checkpoint_id,
    )
