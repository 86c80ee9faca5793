"""When an agent's maintenance is due: fixed slots, spread over the interval by a hash of the agent."""

import hashlib
from datetime import UTC, datetime, timedelta

from memcore.errors import MemoryInputError
from memcore.models import ConsolidationInterval

#: How long each interval is; "never" has no length.
LENGTHS: dict[ConsolidationInterval, timedelta] = {
    ConsolidationInterval.HOURLY: timedelta(hours=1),
    ConsolidationInterval.DAILY: timedelta(days=1),
    ConsolidationInterval.WEEKLY: timedelta(weeks=1),
}

#: Slots count from here.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Offsets are whole seconds: fine enough to spread 100,000 agents over an hour, and easy to read.
_GRAIN = timedelta(seconds=1)


def next_slot(agent_key: str, interval: ConsolidationInterval, after: datetime) -> datetime:
    """Return the agent's first slot strictly after a time: a multiple of the interval plus the agent's own offset.

    Raises:
        MemoryInputError: the interval is "never", or ``after`` has no zone.
    """
    if interval is ConsolidationInterval.NEVER:
        raise MemoryInputError("interval", "never has no slots")
    if after.tzinfo is None:
        raise MemoryInputError("after", "needs a time zone")
    length = LENGTHS[interval]
    # Not hash(): Python salts it per process, and then every process would plan another slot.
    digest = hashlib.blake2b(agent_key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    offset = _GRAIN * (int.from_bytes(digest, "big") % (length // _GRAIN))
    passed = (after - _EPOCH - offset) // length
    return _EPOCH + offset + (passed + 1) * length


def last_slot(company: str, interval: ConsolidationInterval, now: datetime) -> datetime:
    """Return the company's own slot that has begun last, for what is done once for all of its agents.

    Raises:
        MemoryInputError: the interval is "never", or ``now`` has no zone.
    """
    return next_slot(f"{len(company)}:{company}", interval, now) - LENGTHS[interval]


def first_due(company: str, agent_id: str, interval: ConsolidationInterval, now: datetime) -> datetime | None:
    """Return an agent's first slot after now; None when its interval is "never"."""
    if interval is ConsolidationInterval.NEVER:
        return None
    # The company's length keeps ("ab", "c") and ("a", "bc") apart.
    return next_slot(f"{len(company)}:{company}/{agent_id}", interval, now)
