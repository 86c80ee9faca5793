"""What a night waits for, and until when it need not be looked at."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from memcore.errors import ProviderError
from memcore.ledger.synthesis import Synthesis, SynthesisState

#: Wait before a part's job is sent again if nothing came of it: longer than a model with all its retries takes.
RING_AGAIN = timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A night gives itself back until then, or until the last answer has come.

    Attributes:
        reason: one sentence for people.
        until: when to look again in any case.
    """

    reason: str
    until: datetime


def wait_for(parts: Sequence[Synthesis], *, now: datetime) -> Wait | None:
    """Return what the parts of a run wait for, or None when they are done.

    Raises:
        ProviderError: none waits, and some were refused.
    """
    wanted = [part for part in parts if part.state in {SynthesisState.WANTED, SynthesisState.READY}]
    refused = [part for part in parts if part.state is SynthesisState.REFUSED]
    if not wanted:
        if refused:
            raise ProviderError(f"{len(refused)} of {len(parts)} groups wait for a person: {refused[0].reason}")
        return None
    until = min(part.ring_at or now + RING_AGAIN for part in wanted)
    reason = next((part.reason for part in wanted if part.reason), None)
    return Wait(reason=reason or f"a language model is asked about {len(wanted)} of {len(parts)} groups", until=until)
