"""An active collection as the ledger describes it."""

from memcore.embedding.bm25 import TERMS_VERSION
from memcore.embedding.protocol import EmbedderKind
from memcore.embedding.selection import EmbedderChoice
from memcore.ledger.collections import EmbedderIdentity, ServedCollection


def served(name: str, *, embedder: str = "static", generation: int = 1) -> ServedCollection:
    """A collection of this name."""
    return ServedCollection(
        name=name,
        generation=generation,
        identity=EmbedderIdentity(name=embedder, kind=EmbedderKind.STATIC, dims=64, text_form="{content}"),
        choice=EmbedderChoice(provider=embedder),
        text_template="{content}",
        term_weighting="saturated",
        terms_version=TERMS_VERSION,
    )
