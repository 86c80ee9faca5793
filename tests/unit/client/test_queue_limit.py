import pytest

from memcore.client.throttling import JOBS_PER_READ, POLL_INTERVAL_SECONDS, QueueLimit, WhenFull
from memcore.errors import MemoryInputError, MemoryQueueFullError


class Broker:
    """A queue of some length, a clock, and what was asked of them."""

    def __init__(self, *lengths: int) -> None:
        self.lengths = list(lengths)
        self.asked = 0
        self.now = 0.0

    def count(self, _queue: str) -> int:
        self.asked += 1
        return self.lengths.pop(0) if len(self.lengths) > 1 else self.lengths[0]

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def limit(self, most: int, *, when_full: WhenFull = "error", block_seconds: float = 1.0) -> QueueLimit:
        return QueueLimit(
            self.count, max_waiting=most, when_full=when_full, block_seconds=block_seconds,
            clock=self.clock, sleep=self.sleep,
        )  # fmt: skip


def test_jobs_go_through_while_there_is_capacity_and_not_one_more() -> None:
    limit = Broker(7).limit(10)
    assert [limit.admit("q", 1) for _ in range(3)] == [1, 1, 1]
    with pytest.raises(MemoryQueueFullError, match=r"^q: has no room for 1 more; the limit is 10 waiting jobs$"):
        limit.admit("q", 1)


def test_what_does_not_fit_whole_is_refused_whole() -> None:
    limit = Broker(7).limit(10)
    with pytest.raises(MemoryQueueFullError):
        limit.admit("q", 4)
    assert limit.admit("q", 3) == 3


def test_one_look_serves_many_sends() -> None:
    broker = Broker(0)
    limit = broker.limit(1_000_000)
    for _ in range(10 * JOBS_PER_READ):
        limit.admit("q", 1)
    assert broker.asked == 10


def test_a_full_queue_is_looked_at_no_more_often_than_an_empty_one() -> None:
    broker = Broker(10)
    limit = broker.limit(10)
    for _ in range(50):
        with pytest.raises(MemoryQueueFullError):
            limit.admit("q", 1)
    assert broker.asked == 1


def test_an_old_look_is_not_believed() -> None:
    broker = Broker(10, 0)
    limit = broker.limit(10)
    with pytest.raises(MemoryQueueFullError):
        limit.admit("q", 1)
    broker.now += POLL_INTERVAL_SECONDS * 1.01
    assert limit.admit("q", 10) == 10


def test_each_queue_has_a_capacity_of_its_own() -> None:
    limit = Broker(0).limit(5)
    assert (limit.admit("one", 5), limit.admit("two", 5)) == (5, 5)


def test_who_blocks_waits_until_there_is_capacity_for_some() -> None:
    broker = Broker(10, 10, 8)
    limit = broker.limit(10, when_full="block")
    assert limit.admit("q", 5) == 2
    assert broker.now > POLL_INTERVAL_SECONDS


def test_who_blocks_in_vain_hears_of_it() -> None:
    broker = Broker(10)
    with pytest.raises(MemoryQueueFullError, match="no room for 1 more"):
        broker.limit(10, when_full="block", block_seconds=2.0).admit("q", 5)
    assert broker.now == pytest.approx(2.0, abs=0.1)
    assert broker.asked <= 2.0 / POLL_INTERVAL_SECONDS + 1


@pytest.mark.parametrize(
    ("most", "when_full", "seconds", "field"),
    [(0, "error", 1.0, "max_waiting"), (1, "never", 1.0, "when_full"), (1, "block", -1.0, "block_seconds")],
)
def test_a_limit_out_of_range_is_refused_by_name(most: int, when_full: WhenFull, seconds: float, field: str) -> None:
    with pytest.raises(MemoryInputError, match=f"^{field}: "):
        Broker(0).limit(most, when_full=when_full, block_seconds=seconds)
