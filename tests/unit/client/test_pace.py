from datetime import timedelta

import pytest
from support.ledger_records import StoppedClock

from memcore.client.throttling import BURST, MAX_AGENTS, PER_SECOND, Pace
from memcore.jobs.queues import BULK_ABOVE, Queue, store_queue

SHARD = store_queue("ada")


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def pace(clock: StoppedClock) -> Pace:
    return Pace(clock=clock)


def test_a_burst_takes_the_agents_shard_and_a_flood_the_bulk_lane(pace: Pace) -> None:
    assert {pace.queue("ada") for _ in range(BURST)} == {SHARD}
    assert {pace.queue("ada") for _ in range(20_000)} == {Queue.STORE_BULK}


def test_a_flood_of_one_agent_is_not_laid_at_anothers_door(pace: Pace) -> None:
    for _ in range(1_000):
        pace.queue("loader")
    assert pace.queue("ada") is SHARD


def test_memories_count_and_not_calls(pace: Pace) -> None:
    assert [pace.queue("ada", count=BURST // 2) for _ in range(3)] == [SHARD, SHARD, Queue.STORE_BULK]


def test_a_steady_agent_stays_in_its_shard_and_a_faster_one_shares_what_is_allowed(
    pace: Pace, clock: StoppedClock
) -> None:
    seconds = 60
    for _ in range(seconds * int(PER_SECOND)):
        clock.advance(timedelta(seconds=1 / PER_SECOND))
        assert pace.queue("ada") is SHARD
    sent = []
    for _ in range(seconds * 100):
        clock.advance(timedelta(milliseconds=10))
        sent.append(pace.queue("ada"))
    assert seconds * PER_SECOND - 1 <= sent.count(SHARD) <= seconds * PER_SECOND + BURST


def test_a_rest_gives_the_burst_back_and_no_more(pace: Pace, clock: StoppedClock) -> None:
    while pace.queue("ada") is SHARD:
        pass
    clock.advance(timedelta(days=1))
    assert [pace.queue("ada") for _ in range(BURST + 1)].count(SHARD) == BURST


def test_a_clock_that_is_set_back_changes_nothing(pace: Pace, clock: StoppedClock) -> None:
    pace.queue("ada", count=BULK_ABOVE)
    clock.advance(-timedelta(days=1))
    assert [pace.queue("ada") for _ in range(BURST)].count(SHARD) == BURST - BULK_ABOVE


def test_agents_of_long_ago_are_forgotten(pace: Pace) -> None:
    for number in range(MAX_AGENTS + 500):
        pace.queue(f"agent-{number}")
    assert len(pace._left) == MAX_AGENTS
    assert "agent-0" not in pace._left
