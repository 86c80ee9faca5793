"""What serves now, as one value: the embedder, and the collection that it filled."""

from typing import Self

from memcore.errors import MemoryNotFoundError
from memcore.frozen import Frozen
from memcore.ledger.ledger import Ledger
from memcore.ledger.serving import ServedCollection


class ActiveEmbedderSnapshot(Frozen):
    """The embedder that serves at one moment.

    Attributes:
        provider: how it is loaded.
        model: its folder, or a server's name for it; without either, its own name.
        checkpoint_id: of the checkpoint that was deployed; None for any other embedder.
        dims: length of its vectors.
        collection: what it filled.
        dense_weight: share of the vectors in a weighted fusion; None leaves it to the policy.
    """

    provider: str
    model: str
    checkpoint_id: str | None
    dims: int
    collection: str
    dense_weight: float | None

    @classmethod
    def of(cls, served: ServedCollection) -> Self:
        """Take it from what serves."""
        return cls(
            provider=served.choice.provider,
            model=served.choice.model or served.identity.name,
            checkpoint_id=served.checkpoint_id,
            dims=served.identity.dims,
            collection=served.name,
            dense_weight=served.dense_weight,
        )


def active_embedder(ledger: Ledger, company: str) -> ActiveEmbedderSnapshot:
    """Return what serves a company. Raises MemoryNotFoundError before anybody has connected to the store."""
    serving = ledger.servings.get(company)
    if serving is None:
        raise MemoryNotFoundError("no embedder serves yet: nobody has connected to the store")
    return ActiveEmbedderSnapshot.of(serving.current)
