"""What people read about the use of language models."""

from datetime import date, timedelta

import pytest
from support.ledger_records import COMPANY, StoppedClock

from memcore import ids
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_usage import CallState, Caps, NewCall, Spent, UsageBy, UsageRow

DAY = date(2026, 3, 1)
MOST = Spent(prompt_tokens=100, completion_tokens=100, cost=2.0)


def made(
    ledger: Ledger,
    *,
    agent_id: str = "ada",
    run_id: str | None = "run",
    purpose: str = "merge",
    model: str = "m",
    state: CallState = CallState.ANSWERED,
    spent: Spent | None = None,
    question_id: str = "q",
) -> None:
    call = NewCall(
        company=COMPANY,
        agent_id=agent_id,
        run_id=run_id,
        question_id=question_id,
        purpose=purpose,
        model=model,
        most=MOST,
    )
    reserved = ledger.spending.reserve(call, caps=Caps(tokens=0) if state is CallState.REFUSED else Caps())
    if state not in {CallState.ASKING, CallState.REFUSED}:
        assert reserved.call_id is not None
        spent = spent or Spent(prompt_tokens=10, completion_tokens=5, cost=0.25)
        ledger.spending.settle(reserved.call_id, state, spent=spent, attempts=2)


def report(ledger: Ledger, by: UsageBy, *, days: int = 1, agent_id: str | None = None) -> dict[str | None, UsageRow]:
    rows = ledger.usage.report(COMPANY, by, since=DAY, until=DAY + timedelta(days=days), agent_id=agent_id)
    return {row.key: row for row in rows}


def test_a_row_adds_up_its_calls_and_counts_how_they_ended(ledger: Ledger) -> None:
    made(ledger, question_id=f"q{ids.ASKED_AGAIN}0123456789abcdef")
    made(ledger, state=CallState.FAILED)
    made(ledger, state=CallState.ASKING)
    made(ledger, state=CallState.REFUSED)
    assert report(ledger, UsageBy.AGENT) == {
        "ada": UsageRow(
            key="ada",
            calls=3,
            refused=1,
            failed=1,
            asked_again=1,
            open=1,
            attempts=4,
            prompt_tokens=120,
            completion_tokens=110,
            cost=2.5,
        )
    }


def test_calls_are_told_apart_by_what_is_asked_for(ledger: Ledger, clock: StoppedClock) -> None:
    made(ledger)
    made(ledger, agent_id="bob", run_id=None, purpose="distil", model="large", spent=Spent(cost=9.0))
    clock.advance(timedelta(hours=12))
    made(ledger, run_id="later")
    found = {by: {key: row.calls for key, row in report(ledger, by).items()} for by in UsageBy}
    assert found == {
        UsageBy.AGENT: {"bob": 1, "ada": 2},
        UsageBy.DAY: {"2026-03-01": 2, "2026-03-02": 1},
        UsageBy.COMPANY: {"acme": 3},
        UsageBy.PURPOSE: {"distil": 1, "merge": 2},
        UsageBy.RUN: {None: 1, "run": 1, "later": 1},
        UsageBy.MODEL: {"large": 1, "m": 2},
    }
    assert list(report(ledger, UsageBy.AGENT)) == ["bob", "ada"]


def test_a_report_keeps_to_its_days_its_company_and_its_agent(ledger: Ledger, clock: StoppedClock) -> None:
    made(ledger)
    made(ledger, agent_id="bob")
    clock.advance(timedelta(days=1))
    made(ledger)
    assert report(ledger, UsageBy.AGENT, days=0).keys() == {"ada", "bob"}
    assert report(ledger, UsageBy.DAY, agent_id="ada").keys() == {"2026-03-01", "2026-03-02"}
    assert report(ledger, UsageBy.DAY, agent_id="bob").keys() == {"2026-03-01"}
    assert ledger.usage.report("other", UsageBy.AGENT, since=DAY, until=DAY) == ()


@pytest.mark.parametrize("by", list(UsageBy))
def test_without_a_call_there_is_no_row(ledger: Ledger, by: UsageBy) -> None:
    assert report(ledger, by) == {}


def test_the_calls_of_a_day_add_up_to_what_the_budget_counts(ledger: Ledger) -> None:
    for state in CallState:
        made(ledger, state=state)
    row = report(ledger, UsageBy.DAY)["2026-03-01"]
    today = ledger.spending.of(COMPANY, "ada", DAY)
    assert (row.prompt_tokens + row.completion_tokens, row.cost) == (today.tokens, today.cost)
