"""Which collection a company's memories are read from and written to, and what is under way with it."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from memcore.clock import BoundedTime
from memcore.embedding.choice import EmbedderChoice
from memcore.embedding.protocol import EmbedderIdentity
from memcore.frozen import Frozen, NotBlankStr
from memcore.ledger.checkpoint import Checkpoint


class ServedCollection(Frozen):
    """Everything that belongs to one collection: whoever asks it asks with the embedder that filled it.

    Attributes:
        name: of the collection in the store.
        generation: 1 for the first, and one more with each that a reindex makes.
        identity: whose vectors lie in it.
        choice: how that embedder is loaded, without a server's address or key.
        text_template: the text that is embedded and indexed.
        term_weighting: how terms count in the sparse vectors.
        dense_weight: share of the vectors in a weighted fusion; None leaves it to the policy.
        checkpoint_id: of the checkpoint that was deployed to fill it; None for any other embedder.
    """

    name: NotBlankStr
    generation: int = Field(default=1, ge=1)
    identity: EmbedderIdentity
    choice: EmbedderChoice
    text_template: str
    term_weighting: NotBlankStr
    dense_weight: float | None = Field(default=None, ge=0.0, le=1.0)
    checkpoint_id: NotBlankStr | None = None

    def is_of(self, checkpoint: Checkpoint) -> bool:
        """Whether the checkpoint filled it, deployed by its id or configured by its folder."""
        return self.checkpoint_id == checkpoint.checkpoint_id or self.choice.model == checkpoint.model_path


class CollectionUse(StrEnum):
    """What a collection is used for."""

    #: It is read and written.
    SERVES = "serves"
    #: It is being filled to serve.
    FILLING = "filling"
    #: It served before, and is kept for going back.
    KEPT = "kept"


class Phase(StrEnum):
    """What a reindex does with the writers."""

    #: The new collection is being filled: each write names whose memories it touches.
    FILLING = "filling"
    #: The last differences are carried over: writes wait.
    FROZEN = "frozen"
    #: Switched: writes wait until every reader has seen it.
    SETTLING = "settling"


class Serving(Frozen):
    """The one row that says where a company's memories are.

    Attributes:
        version: one more with every change of the row, so that a writer sees whether it has changed under its write.
        current: what is read and written.
        target: what is being filled to become current.
        previous: what was current before, kept for going back to it.
        phase: what is under way; None for nothing.
        until: when writes go on, in the phases in which they wait.
    """

    version: int
    current: ServedCollection
    target: ServedCollection | None = None
    previous: ServedCollection | None = None
    phase: Phase | None = None
    until: BoundedTime | None = None

    def use_of(self, checkpoint: Checkpoint) -> CollectionUse | None:
        """Return what the checkpoint's collection is used for; None when no collection of its counts."""
        uses = (
            (self.current, CollectionUse.SERVES),
            (self.target, CollectionUse.FILLING),
            (self.previous, CollectionUse.KEPT),
        )
        return next((use for each, use in uses if each is not None and each.is_of(checkpoint)), None)

    def is_closed(self, now: datetime) -> bool:
        """Whether writes have to wait."""
        return self.phase in {Phase.FROZEN, Phase.SETTLING} and self.until is not None and now < self.until

    def is_overdue(self, now: datetime) -> bool:
        """Whether whoever stopped the writes did not come back in time, so that any writer may let them go on."""
        return self.phase is Phase.FROZEN and not self.is_closed(now)
