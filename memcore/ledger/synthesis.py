"""A part of a night that waits for a model."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from memcore.clock import BoundedTime
from memcore.frozen import Frozen
from memcore.models import MemoryCategory


class SynthesisState(StrEnum):
    """Where a part is.

    ::

        wanted --the model was asked--> ready --the night replaced it--> done
          ^  |                            |
          |  +--the model refused--> refused
          +------its memories changed-----+
    """

    WANTED = "wanted"
    READY = "ready"
    REFUSED = "refused"
    DONE = "done"


class Synthesis(Frozen):
    """One part of a run.

    Attributes:
        place: its place in the run, from 0.
        source_ids: the memories that the summary will replace.
        kept_id: the memory of their group that stays.
        reason: why it waits, or why the model refused.
        ring_at: when its job is sent, or sent again; None for at once.
    """

    run_id: str
    place: int = Field(ge=0)
    company: str
    agent_id: str
    category: MemoryCategory
    source_ids: tuple[str, ...]
    kept_id: str | None = None
    state: SynthesisState = SynthesisState.WANTED
    reason: str | None = None
    ring_at: BoundedTime | None = None

    def is_awake(self, now: datetime) -> bool:
        """Return whether its model may be asked now: it is wanted, and does not sleep for a reason."""
        sleeps = self.reason is not None and self.ring_at is not None and self.ring_at > now
        return self.state is SynthesisState.WANTED and not sleeps
