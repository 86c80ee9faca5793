"""A deadline limits what reads; a circuit breaker opens for all at the first time-out, and lets one caller try."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest

from memcore.deadline.breaker import CircuitBreaker, Part, breaker_of
from memcore.deadline.limits import call_limit, deadline, limited_parts, part_limit, unlimited
from memcore.errors import MemoryConnectionError


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Iterator[CircuitBreaker]:
    with limited_parts(5.0):
        yield CircuitBreaker(Part.STORE, pause=2.0, clock=clock)


def _is_refused(breaker: CircuitBreaker) -> bool:
    try:
        with breaker.call():
            pass
    except MemoryConnectionError as error:
        return error.part == "store"
    return False


@pytest.fixture
def tried(breaker: CircuitBreaker, clock: Clock) -> CircuitBreaker:
    """A breaker that was open, and whose pause is over."""
    breaker.timed_out()
    clock.now += 2.0
    return breaker


def test_a_call_waits_for_one_part_a_share_of_the_deadline() -> None:
    breaker = CircuitBreaker(Part.STORE)
    with breaker.call() as limit:
        assert limit is None
    with limited_parts(5.0):
        with breaker.call() as limit:
            assert limit == part_limit() == 2.0
        with limited_parts(50.0):
            assert part_limit() == 2.0
    assert part_limit() is None


def test_the_first_time_out_opens_it_for_every_caller(breaker: CircuitBreaker) -> None:
    assert not _is_refused(breaker)
    breaker.timed_out()
    assert [_is_refused(breaker) for _ in range(3)] == [True, True, True]


def test_after_the_pause_one_caller_tries_and_its_answer_closes_it(tried: CircuitBreaker) -> None:
    with tried.call():
        assert [_is_refused(tried) for _ in range(3)] == [True, True, True]
    assert [_is_refused(tried) for _ in range(3)] == [False, False, False]


def test_a_try_without_an_answer_in_time_opens_it_again(tried: CircuitBreaker, clock: Clock) -> None:
    with suppress(TimeoutError), tried.call():
        clock.now += 2.0
        tried.timed_out()
        raise TimeoutError
    clock.now += 1.9
    assert _is_refused(tried)
    clock.now += 0.1
    assert not _is_refused(tried)


def test_a_try_that_hangs_keeps_others_away_for_its_own_limit_and_the_pause(
    tried: CircuitBreaker, clock: Clock
) -> None:
    with tried.call():
        clock.now += 3.9
        assert _is_refused(tried)
        clock.now += 0.1
        assert not _is_refused(tried)


def test_a_part_that_refuses_at_once_keeps_nobody_waiting(tried: CircuitBreaker) -> None:
    with suppress(ConnectionRefusedError), tried.call():
        raise ConnectionRefusedError
    assert [_is_refused(tried) for _ in range(3)] == [False, False, False]


def test_after_a_try_that_is_interrupted_the_next_caller_tries(tried: CircuitBreaker) -> None:
    with suppress(asyncio.CancelledError), tried.call():
        raise asyncio.CancelledError
    with tried.call():
        assert _is_refused(tried)


def test_an_error_of_an_older_call_leaves_it_open(breaker: CircuitBreaker) -> None:
    with suppress(ConnectionRefusedError), breaker.call():
        breaker.timed_out()  # in another thread
        raise ConnectionRefusedError
    assert _is_refused(breaker)


def test_what_has_no_deadline_is_neither_limited_nor_refused() -> None:
    breaker = CircuitBreaker(Part.LEDGER, pause=1e9)
    breaker.timed_out()
    with breaker.call() as limit:
        assert limit is None


def test_all_requests_of_a_process_share_the_breaker_of_an_address() -> None:
    assert breaker_of(Part.STORE, "http://one") is breaker_of(Part.STORE, "http://one")
    assert breaker_of(Part.STORE, "http://one") is not breaker_of(Part.STORE, "http://two")
    assert breaker_of(Part.STORE, "http://one") is not breaker_of(Part.LEDGER, "http://one")


async def test_a_request_has_one_deadline_and_its_end_is_an_error_to_catch() -> None:
    async def wait() -> None:
        async with deadline(0.01), deadline(1e6):
            assert call_limit() == 0.01
            await asyncio.Event().wait()

    with pytest.raises(MemoryConnectionError, match="no answer within"):
        await wait()
    assert call_limit() is None


async def test_a_time_out_of_the_callers_own_passes() -> None:
    with pytest.raises(TimeoutError):
        async with deadline(1e6):
            raise TimeoutError


async def test_the_clock_stands_while_a_language_model_answers() -> None:
    async with deadline(0.2):
        with unlimited():
            await asyncio.sleep(0.4)
        await asyncio.sleep(0)
    with unlimited():
        await asyncio.sleep(0)
