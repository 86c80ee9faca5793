from datetime import timedelta

import pytest
from support.ledger_records import StoppedClock

from memcore.client.throttling import (
    BURST,
    COMPANY_BURST,
    COMPANY_PER_SECOND,
    MAX_AGENTS,
    PER_SECOND,
    StoreRateLimiter,
)
from memcore.jobs import BULK_ABOVE, Queue, store_queue

SHARD = store_queue("ada")


@pytest.fixture
def rate_limiter(clock: StoppedClock) -> StoreRateLimiter:
    return StoreRateLimiter(clock=clock)


def test_a_burst_takes_the_agents_shard_and_a_flood_the_bulk_queue(rate_limiter: StoreRateLimiter) -> None:
    assert {rate_limiter.queue("ada") for _ in range(BURST)} == {SHARD}
    assert {rate_limiter.queue("ada") for _ in range(20_000)} == {Queue.STORE_BULK}


def test_a_flood_of_one_agent_is_not_laid_at_anothers_door(rate_limiter: StoreRateLimiter) -> None:
    for _ in range(1_000):
        rate_limiter.queue("loader")
    assert rate_limiter.queue("ada") is SHARD


def test_memories_count_and_not_calls(rate_limiter: StoreRateLimiter) -> None:
    assert [rate_limiter.queue("ada", count=BURST // 2) for _ in range(3)] == [SHARD, SHARD, Queue.STORE_BULK]


def test_a_steady_agent_stays_in_its_shard_and_a_faster_one_shares_what_is_allowed(
    rate_limiter: StoreRateLimiter, clock: StoppedClock
) -> None:
    seconds = 60
    for _ in range(seconds * int(PER_SECOND)):
        clock.advance(timedelta(seconds=1 / PER_SECOND))
        assert rate_limiter.queue("ada") is SHARD
    sent = []
    for _ in range(seconds * 100):
        clock.advance(timedelta(milliseconds=10))
        sent.append(rate_limiter.queue("ada"))
    assert seconds * PER_SECOND - 1 <= sent.count(SHARD) <= seconds * PER_SECOND + BURST


def test_a_rest_gives_the_burst_back_and_no_more(rate_limiter: StoreRateLimiter, clock: StoppedClock) -> None:
    while rate_limiter.queue("ada") is SHARD:
        pass
    clock.advance(timedelta(days=1))
    assert [rate_limiter.queue("ada") for _ in range(BURST + 1)].count(SHARD) == BURST


def test_a_clock_that_is_set_back_changes_nothing(rate_limiter: StoreRateLimiter, clock: StoppedClock) -> None:
    rate_limiter.queue("ada", count=BULK_ABOVE)
    clock.advance(-timedelta(days=1))
    assert [rate_limiter.queue("ada") for _ in range(BURST)].count(SHARD) == BURST - BULK_ABOVE


def test_a_load_over_many_agents_leaves_the_shards_to_other_companies(
    rate_limiter: StoreRateLimiter, clock: StoppedClock
) -> None:
    sent = [rate_limiter.queue(f"agent-{number % 1_000}") for number in range(50_000)]
    assert len(sent) - sent.count(Queue.STORE_BULK) == COMPANY_BURST
    clock.advance(timedelta(seconds=1))
    sent = [rate_limiter.queue(f"agent-{number % 1_000}") for number in range(1_000)]
    assert len(sent) - sent.count(Queue.STORE_BULK) == COMPANY_PER_SECOND
    assert StoreRateLimiter(clock=clock).queue("ada") is SHARD, "another company has its own process"


def test_agents_of_long_ago_are_forgotten(rate_limiter: StoreRateLimiter) -> None:
    for number in range(MAX_AGENTS + 500):
        rate_limiter.queue(f"agent-{number}")
    assert len(rate_limiter._left) == MAX_AGENTS
    assert "agent-0" not in rate_limiter._left
