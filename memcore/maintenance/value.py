"""The value of a memory when an agent has too many: a rule that an installed package can replace."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import entry_points
from typing import Protocol

from memcore.errors import MemoryConfigError
from memcore.models.memory import MemoryEntry

#: Time after which an unused memory has half of its recency: a quarter of a year, as long as most work is discussed.
HALF_LIFE = timedelta(days=90)

#: Uses after which further ones add nothing.
MANY_USES = 8

#: Weight of use beside recency: use shows that a memory was wanted, age only that it may not be any more.
USE_WEIGHT = 3.0

#: Share of its value that is left to a memory which a newer one repeats.
REPEATED_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A memory to be valued, and its uses.

    Attributes:
        uses: how often the agent was shown it.
        last_used_at: when that was last; None if never.
        is_repeated: whether a newer memory of the agent says nearly the same.
    """

    entry: MemoryEntry
    uses: int = 0
    last_used_at: datetime | None = None
    is_repeated: bool = False


class MemoryValue(Protocol):
    """Values a memory; the least valuable is removed first, of equals the oldest.

    Core and pinned memories go last, whatever their value. An answer that is no finite number, or an exception, ends
    the run before anything is removed.
    """

    def __call__(self, candidate: Candidate, now: datetime) -> float:
        """Return the value of one memory; only the order matters."""
        ...


def usual_value(candidate: Candidate, now: datetime) -> float:
    """Return confidence x (recency + 3 x use), a tenth of it where a newer memory says nearly the same.

    Recency halves every 90 days since the memory was made. Use grows with the logarithm of the uses, up to 8, and
    halves every 90 days since the last one.
    """
    entry = candidate.entry
    worth = _halved(now - entry.created_at)
    if candidate.last_used_at is not None:
        often = min(1.0, math.log1p(candidate.uses) / math.log1p(MANY_USES))
        worth += USE_WEIGHT * often * _halved(now - candidate.last_used_at)
    return entry.metadata.confidence * worth * (REPEATED_SHARE if candidate.is_repeated else 1.0)


def _halved(since: timedelta) -> float:
    return float(0.5 ** (max(since, timedelta(0)) / HALF_LIFE))


#: Entry point group under which a package names its rule.
GROUP = "memtend.memory_value"


def installed_value() -> MemoryValue:
    """Return the rule of an installed package, or else the shipped one.

    A package names it in its pyproject.toml::

        [project.entry-points."memtend.memory_value"]
        ours = "our_package.memories:value"

    Raises:
        MemoryConfigError: two packages name one, or it cannot be loaded or called.
    """
    found = list(entry_points(group=GROUP))
    if not found:
        return usual_value
    names = ", ".join(sorted(f"{each.name} = {each.value}" for each in found))
    if len(found) > 1:
        raise MemoryConfigError(
            f"the value of memories: {GROUP} is named more than once ({names}); uninstall all but one"
        )
    try:
        value: MemoryValue = found[0].load()
    except Exception as error:
        raise MemoryConfigError(f"the value of memories: {names} cannot be loaded ({type(error).__name__})") from error
    if not callable(value):
        raise MemoryConfigError(f"the value of memories: {names} names no function")
    return value
