"""One attempt at a work item: each error leaves the item where it can go on from, and so does a death anywhere."""

import builtins
import logging
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.fault_injection import Crash, Faults, crashing
from support.ledger_records import COMPANY, StoppedClock
from support.present import present

from memcore.config.urls import LedgerUrls
from memcore.errors import (
    AnswerMissingError,
    BudgetExceededError,
    LeaseLostError,
    MaintenancePausedError,
    MemoryConnectionError,
    MemoryDiskFullError,
    MemoryInputError,
    MemoryStoreError,
    ProviderError,
)
from memcore.jobs import Dead, Deferred, Done, Outcome, Retry, Skipped
from memcore.ledger.attempt import ANSWER_DELAY, LEASE_LENGTH, PAUSE_DELAY, Attempt, RetryPolicy
from memcore.ledger.learning.skill_cycles import Cycle
from memcore.ledger.ledger import Ledger
from memcore.ledger.work_items import WorkItem
from memcore.telemetry.events import Event

KIND = "memory.skills.evolve"
NOW = StoppedClock()()
UNTIL = NOW + timedelta(hours=5)
RETRIES = RetryPolicy(attempts=3, first_delay=timedelta(seconds=7), longest_delay=timedelta(seconds=20))


@pytest.fixture
def urls(sqlite_ledger: LedgerUrls) -> LedgerUrls:
    return sqlite_ledger


@pytest.fixture
def key(ledger: Ledger) -> str:
    cycle = present(ledger.skill_cycles.plan(COMPANY, origin="manual", planned_at=NOW, window=timedelta(days=1)))
    return cycle.cycle_id


def attempted(ledger: Ledger, key: str, error: BaseException | None = None, **settings: Any) -> Outcome:
    """Attempt the cycle, whose work ends it or raises an error."""
    with Attempt(ledger.skill_cycles, COMPANY, key, **{"retry": RETRIES, **settings}) as attempt:
        assert attempt.claim().cycle_id == key
        if error is not None:
            raise error
        ledger.skill_cycles.finish(COMPANY, key, attempt.token, {"proposals": 1})
        attempt.outcome = Done(facts={"proposals": 1})
    return attempt.outcome


def row(ledger: Ledger, key: str) -> WorkItem:
    return ledger.skill_cycles.item(COMPANY, key)


def test_the_work_that_ends_its_item_says_the_outcome(ledger: Ledger, key: str) -> None:
    assert attempted(ledger, key) == Done(facts={"proposals": 1})
    assert f"lease-{key}" not in [thread.name for thread in threading.enumerate()], "its renewals have ended"
    assert (row(ledger, key).state, row(ledger, key).token) == ("done", None)


def test_an_item_that_is_unknown_is_dead_and_one_that_is_not_free_is_skipped(ledger: Ledger, key: str) -> None:
    assert attempted(ledger, "none") == Dead(reason=f"{KIND}: 'none' names no work")
    inner = list[Outcome]()
    with Attempt(ledger.skill_cycles, COMPANY, key) as attempt:
        attempt.claim()
        inner.append(attempted(ledger, key))
        ledger.skill_cycles.finish(COMPANY, key, attempt.token, {})
    assert inner == [Skipped(reason=f"{KIND} {key} is leased and not free to be taken")]
    assert attempted(ledger, key) == Skipped(reason=f"{KIND} {key} is done and not free to be taken")
    assert row(ledger, key).attempt == 1


def test_nothing_is_held_before_the_claim(ledger: Ledger, key: str) -> None:
    with pytest.raises(MemoryStoreError), Attempt(ledger.skill_cycles, COMPANY, key) as attempt:
        raise MemoryStoreError("before the claim")
    with pytest.raises(LeaseLostError):
        _ = attempt.token
    assert (row(ledger, key).state, row(ledger, key).attempt) == ("available", 0)


@pytest.mark.parametrize(
    ("error", "outcome", "state", "attempt", "due", "reason"),
    [
        (MaintenancePausedError("off"), Deferred(reason="off"), "waiting", 0, NOW + PAUSE_DELAY, "off"),
        (MemoryDiskFullError("full"), Deferred(reason="full"), "waiting", 0, NOW + PAUSE_DELAY, "full"),
        (AnswerMissingError("asked"), Deferred(reason="asked"), "waiting", 0, NOW + ANSWER_DELAY, "asked"),
        (BudgetExceededError("spent", until=UNTIL), Deferred(reason="spent"), "waiting", 0, UNTIL, "spent"),
        (
            MemoryStoreError("text"), Deferred(reason="MemoryStoreError"), "available", 1,
            NOW + RETRIES.first_delay, None,
        ),
        (MemoryInputError("a", "b"), Dead(reason="a: b"), "failed", 1, None, "a: b"),
        (ProviderError("refused"), Dead(reason="refused"), "failed", 1, None, "refused"),
        (LeaseLostError("lost"), Skipped(reason="lost"), "leased", 1, NOW + LEASE_LENGTH, None),
    ],
)  # fmt: skip
def test_each_memory_error_is_an_outcome_and_leaves_the_item_where_it_goes_on_from(
    ledger: Ledger, key: str, error: Exception, outcome: Outcome, state: str, attempt: int, due: Any, reason: str | None
) -> None:
    assert attempted(ledger, key, error) == outcome
    left = row(ledger, key)
    assert (left.state, left.attempt, left.dispatch_after, left.reason) == (state, attempt, due, reason)
    assert (left.token is not None) == (state == "leased")


@pytest.mark.parametrize(
    ("error", "reason"), [(MemoryStoreError("no room"), "no room"), (ValueError("private"), "ValueError")]
)
def test_work_that_is_tried_for_ever_says_what_it_waits_for_and_no_other_does(
    ledger: Ledger, key: str, error: Exception, reason: str
) -> None:
    with suppress(ValueError):  # a defect goes on to the worker
        attempted(ledger, key, error, retry=replace(RETRIES, attempts=None))
    assert row(ledger, key).reason == reason


@pytest.mark.parametrize("error", [ValueError("private"), builtins.MemoryError()])
def test_any_other_error_releases_the_item_and_is_raised(
    ledger: Ledger, key: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(type(error)):
        attempted(ledger, key, error)
    left = row(ledger, key)
    assert (left.state, left.attempt, left.dispatch_after) == ("available", 1, NOW + RETRIES.first_delay)
    (logged,) = (record for record in caplog.records if record.message == Event.WORK_ATTEMPT_TROUBLE)
    assert (logged.levelno, vars(logged)["error"], vars(logged)["attempt"]) == (
        logging.WARNING,
        type(error).__name__,
        1,
    )
    assert "private" not in str(vars(logged))


def test_a_dead_process_leaves_the_item_to_the_end_of_its_lease(ledger: Ledger, key: str, clock: StoppedClock) -> None:
    with pytest.raises(Crash):
        attempted(ledger, key, Crash())
    assert isinstance(attempted(ledger, key), Skipped)
    clock.advance(LEASE_LENGTH)
    assert isinstance(attempted(ledger, key), Done)


def test_the_delay_doubles_up_to_the_longest_and_then_the_item_fails(
    ledger: Ledger, key: str, clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    for seconds in (7, 14, 20):
        assert isinstance(attempted(ledger, key, MemoryStoreError("busy")), Deferred)
        assert row(ledger, key).dispatch_after == clock() + timedelta(seconds=seconds)
    reason = "was attempted 3 times without reaching its end"
    assert attempted(ledger, key) == Dead(reason=reason)
    assert (row(ledger, key).state, row(ledger, key).reason) == ("failed", reason)
    assert Event.WORK_ATTEMPT_FAILED in caplog.messages


def test_the_delay_of_an_item_that_never_fails_has_an_end_too() -> None:
    assert RetryPolicy(attempts=None).delay(10_000) == RetryPolicy().longest_delay


def test_an_item_that_only_a_person_ends_is_attempted_for_ever(ledger: Ledger, key: str) -> None:
    for _ in range(RETRIES.attempts or 0):
        attempted(ledger, key, MemoryStoreError("busy"))
    assert isinstance(attempted(ledger, key, retry=RetryPolicy(attempts=None)), Done)


def test_a_kind_may_end_a_failed_item_in_its_own_way(ledger: Ledger, key: str) -> None:
    ended = list[tuple[Cycle, str]]()

    def fail(cycle: Cycle, token: str, reason: str) -> None:
        ended.append((cycle, reason))
        ledger.skill_cycles.finish(COMPANY, cycle.cycle_id, token, {})

    assert attempted(ledger, key, MemoryInputError("a", "b"), fail=fail) == Dead(reason="a: b")
    assert [(cycle.cycle_id, reason) for cycle, reason in ended] == [(key, "a: b")]
    assert row(ledger, key).state == "done"


def test_the_kill_switch_is_looked_at_with_the_claimed_record_and_again_with_each_entry(
    ledger: Ledger, key: str
) -> None:
    seen = list[str]()

    def off(cycle: Cycle) -> None:
        seen.append(cycle.cycle_id)
        if len(seen) == 2:
            raise MaintenancePausedError("off")

    with Attempt(ledger.skill_cycles, COMPANY, key, switch=off) as attempt:
        attempt.claim()
        attempt.lease.enter()
    assert attempt.outcome == Deferred(reason="off")
    assert seen == [key, key]
    assert (row(ledger, key).state, row(ledger, key).attempt) == ("waiting", 0)


@pytest.mark.parametrize("error", [MemoryStoreError("busy"), MemoryInputError("a", "b"), MaintenancePausedError("off")])
def test_while_the_ledger_is_away_the_message_is_tried_again_after_the_lease(
    ledger: Ledger, key: str, error: Exception
) -> None:
    def away() -> None:
        raise MemoryConnectionError("gone")

    watched = Faults(1, strike=away).ledger(ledger)
    assert attempted(watched, key, error) == Retry(reason="MemoryConnectionError", delay=LEASE_LENGTH)
    assert row(ledger, key).state == "leased"


def test_an_unexpected_error_is_raised_also_while_the_ledger_is_away(ledger: Ledger, key: str) -> None:
    def away() -> None:
        raise MemoryConnectionError("gone")

    with pytest.raises(ValueError, match="a bug"):
        attempted(Faults(1, strike=away).ledger(ledger), key, ValueError("a bug"))


def test_an_item_that_is_overtaken_or_forgotten_meanwhile_is_skipped_whatever_went_wrong(
    ledger: Ledger, key: str, clock: StoppedClock
) -> None:
    with Attempt(ledger.skill_cycles, COMPANY, key) as attempt:
        attempt.claim()
        clock.advance(LEASE_LENGTH)
        assert isinstance(attempted(ledger, key), Done)
        raise MemoryInputError("a", "b")
    assert isinstance(attempt.outcome, Skipped)
    assert row(ledger, key).state == "done"
    ledger.skill_cycles.plan(COMPANY, origin="manual", planned_at=UNTIL, window=timedelta(days=1))
    (other, _) = ledger.skill_cycles.page(COMPANY)
    with Attempt(ledger.skill_cycles, COMPANY, other.cycle_id) as attempt:
        attempt.claim()
        ledger.skill_cycles.expire(COMPANY, before=UNTIL + timedelta(days=1))
        raise MemoryStoreError("busy")
    assert isinstance(attempt.outcome, Skipped)


@pytest.mark.parametrize("error", [None, MemoryStoreError("busy"), MemoryInputError("a", "b"), AnswerMissingError("?")])
def test_a_death_before_any_statement_leaves_an_item_that_the_next_attempt_ends(
    ledger: Ledger, clock: StoppedClock, error: Exception | None
) -> None:
    statement, is_over = 0, False
    while not is_over:
        planned = present(
            ledger.skill_cycles.plan(COMPANY, origin="manual", planned_at=clock(), window=timedelta(days=1))
        )
        with crashing(ledger) as crashes, crashes.at(statement), suppress(Crash):
            attempted(ledger, planned.cycle_id, error)
            is_over = True
        statement += 1
        clock.advance(LEASE_LENGTH)
        left = row(ledger, planned.cycle_id)
        assert left.state in {"available", "waiting", "leased"} or is_over or error is None, statement
        assert left.attempt <= 1
        assert isinstance(attempted(ledger, planned.cycle_id), Done | Skipped), statement
        assert row(ledger, planned.cycle_id).state in {"done", "failed"}, statement
    assert statement > 6
