"""The two lanes of the write desk: who is next when engines and bulk loads wait side by side."""

from collections import deque
from typing import Generic, Literal, Protocol, TypeVar

#: The part of all memories written that bulk loads keep while engines wait too, as a share: they never stand still.
BULK_SHARE = 0.25

LaneName = Literal["engine", "bulk"]


class Slip(Protocol):
    """What lies in a lane: some memories of one job."""

    @property
    def owner(self) -> str:
        """The agent that it is dealt under."""
        ...

    @property
    def count(self) -> int:
        """How many memories it holds."""
        ...


SlipT = TypeVar("SlipT", bound=Slip)


class Lane(Generic[SlipT]):
    """Slips in the order of their owners' turns: one slip an owner, round and round, the oldest of each first."""

    def __init__(self) -> None:
        """Start empty."""
        self._of_owner: dict[str, deque[SlipT]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_owner)

    def lay(self, slip: SlipT) -> None:
        """Lay a slip behind its owner's others; a new owner's turn comes last."""
        self._of_owner.setdefault(slip.owner, deque()).append(slip)

    def peek(self) -> SlipT:
        """Return the slip whose turn it is."""
        return next(iter(self._of_owner.values()))[0]

    def take(self) -> SlipT:
        """Take the slip whose turn it is."""
        owner, slips = next(iter(self._of_owner.items()))
        slip = slips.popleft()
        # A dict keeps the order of insertion: out and in again is the end of the round.
        del self._of_owner[owner]
        if slips:
            self._of_owner[owner] = slips
        return slip


class Lanes(Generic[SlipT]):
    """An engine lane that goes first, and a bulk lane that keeps a share. Not thread-safe: its desk locks.

    While both wait, every memory that engines get written earns the bulk lane a credit; as soon as the credit pays for
    its next slip, that slip is next. Two lanes never share a batch: an engine's few memories are not embedded together
    with a bulk load's hundreds.

    Args:
        bulk_share: part of the memories that the bulk lane gets while engines wait, above 0 and below 1.
    """

    def __init__(self, *, bulk_share: float = BULK_SHARE) -> None:
        self._lanes: dict[LaneName, Lane[SlipT]] = {"engine": Lane(), "bulk": Lane()}
        self._earned_per_memory = bulk_share / (1 - bulk_share)
        self._credit = 0.0

    def __bool__(self) -> bool:
        return any(self._lanes.values())

    def lay(self, slip: SlipT, lane: LaneName) -> None:
        """Lay a slip into a lane."""
        self._lanes[lane].lay(slip)

    def next_lane(self, *, with_bulk: bool = True) -> LaneName | None:
        """Say which lane the next batch comes from; None when nothing waits, or only what may not go now."""
        engine, bulk = self._lanes["engine"], self._lanes["bulk"]
        if not bulk or not with_bulk:
            return "engine" if engine else None
        return "bulk" if not engine or self._credit >= bulk.peek().count else "engine"

    def take(self, lane: LaneName) -> SlipT | None:
        """Take the lane's next slip; None when it is empty."""
        if not self._lanes[lane]:
            return None
        slip = self._lanes[lane].take()
        engine, bulk = self._lanes["engine"], self._lanes["bulk"]
        if not bulk:
            # What is left over is no advance, and no debt, of a load that comes much later.
            self._credit = 0.0
        elif lane == "engine":
            self._credit += slip.count * self._earned_per_memory
        elif engine:
            # Below zero where a batch takes more than the slip that was paid for.
            self._credit -= slip.count
        return slip
