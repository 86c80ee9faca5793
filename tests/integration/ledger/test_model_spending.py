"""The budget's account: what is set aside, settled and refused, by callers at once too."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ledger_records import COMPANY, StoppedClock
from support.present import present
from support.thorough import examples

from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_usage import CallState, Caps, DaySpent, NewCall, Spent

DAY = date(2026, 3, 1)


def call(agent_id: str = "ada", *, tokens: int = 100, cost: float = 0.0, question: str = "q") -> NewCall:
    most = Spent(prompt_tokens=tokens // 2, completion_tokens=tokens - tokens // 2, cost=cost)
    return NewCall(
        company=COMPANY, agent_id=agent_id, run_id="run", question_id=question, purpose="test", model="m", most=most
    )


def test_what_is_set_aside_is_spent_until_it_is_settled(ledger: Ledger) -> None:
    reserved = ledger.spending.reserve(call(tokens=100, cost=0.5), caps=Caps())
    assert (reserved.before, reserved.until) == (DaySpent(), datetime(2026, 3, 2, tzinfo=UTC))
    assert ledger.spending.of(COMPANY, "ada", DAY) == DaySpent(tokens=100, cost=0.5)
    spent = Spent(prompt_tokens=30, completion_tokens=3, cost=0.25)
    assert ledger.spending.settle(present(reserved.call_id), CallState.ANSWERED, spent=spent, attempts=1)
    assert ledger.spending.of(COMPANY, "ada", DAY) == DaySpent(tokens=33, cost=0.25)


def test_a_call_is_settled_once(ledger: Ledger) -> None:
    reserved = ledger.spending.reserve(call(), caps=Caps())
    assert reserved.call_id is not None
    assert ledger.spending.settle(reserved.call_id, CallState.FAILED, spent=Spent(), attempts=4)
    assert ledger.spending.of(COMPANY, "ada", DAY) == DaySpent()
    assert not ledger.spending.settle(reserved.call_id, CallState.ANSWERED, spent=Spent(prompt_tokens=9), attempts=1)
    assert ledger.spending.of(COMPANY, "ada", DAY) == DaySpent()


def test_a_call_of_unknown_use_keeps_what_was_set_aside(ledger: Ledger) -> None:
    reserved = ledger.spending.reserve(call(tokens=70), caps=Caps())
    assert ledger.spending.settle(present(reserved.call_id), CallState.FAILED, spent=None, attempts=4)
    assert ledger.spending.of(COMPANY, "ada", DAY).tokens == 70


@pytest.mark.parametrize("caps", [Caps(tokens=199), Caps(cost=0.9)])
def test_over_a_cap_nothing_is_set_aside_and_the_agent_waits_for_the_next_day(ledger: Ledger, caps: Caps) -> None:
    assert ledger.spending.reserve(call(tokens=100, cost=0.5), caps=caps).call_id is not None
    refused = ledger.spending.reserve(call(tokens=100, cost=0.5, question="other"), caps=caps)
    assert refused.call_id is None
    assert refused.before == DaySpent(tokens=100, cost=0.5)
    assert ledger.spending.of(COMPANY, "ada", DAY) == DaySpent(tokens=100, cost=0.5)
    assert ledger.spending.waiting(COMPANY, DAY) == ("ada",)
    assert ledger.spending.waiting(COMPANY, DAY + timedelta(days=1)) == ()
    assert ledger.spending.waiting("other", DAY) == ()


def test_a_cap_may_be_reached(ledger: Ledger) -> None:
    assert ledger.spending.reserve(call(tokens=100), caps=Caps(tokens=100)).call_id is not None


def test_a_cap_of_zero_tokens_refuses_every_call(ledger: Ledger) -> None:
    assert ledger.spending.reserve(call(tokens=1), caps=Caps(tokens=0)).call_id is None


def test_a_cap_of_zero_money_leaves_what_costs_nothing(ledger: Ledger) -> None:
    assert ledger.spending.reserve(call(cost=0.0), caps=Caps(cost=0.0)).call_id is not None
    assert ledger.spending.reserve(call(cost=0.01), caps=Caps(cost=0.0)).call_id is None


def test_agents_companies_and_days_have_budgets_of_their_own(ledger: Ledger, clock: StoppedClock) -> None:
    caps = Caps(tokens=100)
    assert ledger.spending.reserve(call("ada"), caps=caps).call_id is not None
    assert ledger.spending.reserve(call("bob"), caps=caps).call_id is not None
    assert ledger.spending.reserve(call("ada"), caps=caps).call_id is None
    clock.advance(timedelta(hours=12))
    assert ledger.spending.reserve(call("ada"), caps=caps).call_id is not None


def test_a_call_over_midnight_is_settled_on_the_day_that_it_began(ledger: Ledger, clock: StoppedClock) -> None:
    reserved = ledger.spending.reserve(call(tokens=100), caps=Caps())
    clock.advance(timedelta(hours=12))
    ledger.spending.settle(present(reserved.call_id), CallState.ANSWERED, spent=Spent(prompt_tokens=5), attempts=1)
    assert ledger.spending.of(COMPANY, "ada", DAY).tokens == 5
    assert ledger.spending.of(COMPANY, "ada", DAY + timedelta(days=1)).tokens == 0


@settings(max_examples=examples(5), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(min_value=1, max_value=60), min_size=8, max_size=24),
    used=st.lists(st.integers(min_value=0, max_value=60), min_size=24, max_size=24),
    cap=st.integers(min_value=0, max_value=400),
    agent=st.uuids(),
)
def test_eight_callers_at_once_never_go_over_the_cap(
    urls: LedgerUrls, clock: StoppedClock, sizes: list[int], used: list[int], cap: int, agent: object
) -> None:
    ledger = Ledger.open(urls, clock=clock)
    agent_id, seen = str(agent), []

    def one(place: int) -> int:
        new = call(agent_id, tokens=sizes[place], question=str(place))
        reserved = ledger.spending.reserve(new, caps=Caps(tokens=cap))
        seen.append(ledger.spending.of(COMPANY, agent_id, DAY).tokens)
        if reserved.call_id is None:
            return 0
        if place % 3 == 0:
            return sizes[place]  # its process died: what was set aside stays spent
        spent = min(sizes[place], used[place])
        ledger.spending.settle(reserved.call_id, CallState.ANSWERED, spent=Spent(prompt_tokens=spent), attempts=1)
        return spent

    with ThreadPoolExecutor(8) as pool:
        total = sum(pool.map(one, range(len(sizes))))
    assert max(seen) <= cap
    assert ledger.spending.of(COMPANY, agent_id, DAY).tokens == total
    ledger.close()
