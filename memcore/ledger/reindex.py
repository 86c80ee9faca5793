"""A reindex: how far it has come, and who carries it on."""

from enum import StrEnum

from memcore.clock import BoundedTime
from memcore.frozen import Frozen


class ReindexKind(StrEnum):
    """Where a reindex leads."""

    #: To a collection that a new embedder fills.
    FORWARD = "forward"
    #: To the collection that was kept from before.
    BACK = "back"


class ReindexStage(StrEnum):
    """What a reindex does; the last two are its ends."""

    COPYING = "copying"
    CATCHING_UP = "catching_up"
    SETTLING = "settling"
    DONE = "done"
    CANCELLED = "cancelled"


class Reindex(Frozen):
    """A reindex's row.

    Attributes:
        cursor: the id from which the copying goes on; None at its beginning.
        looked_at: points compared in the copying.
        total: points that there were when it began.
        written: points written to, or taken out of, the new collection.
        passed_over: points that are no memory and stay behind.
        freezes: how often writes were stopped for the switch.
        rung_at: when its message was last sent, or a slice of it ended.
        trouble: why it does not get on, as an error's name; None when it does.
    """

    reindex_id: str
    kind: ReindexKind
    stage: ReindexStage
    cursor: str | None = None
    looked_at: int = 0
    total: int
    written: int = 0
    passed_over: int = 0
    freezes: int = 0
    token: str | None = None
    lease_until: BoundedTime | None = None
    rung_at: BoundedTime
    started_at: BoundedTime
    finished_at: BoundedTime | None = None
    trouble: str | None = None

    @property
    def fraction(self) -> float:
        """How much of it is done, 0 to 1; what remains after the copying counts as a tenth."""
        if self.finished_at is not None:
            return 1.0
        if self.stage is not ReindexStage.COPYING:
            return 0.9 if self.stage is ReindexStage.CATCHING_UP else 0.99
        return 0.9 * min(1.0, self.looked_at / self.total) if self.total else 0.0
