"""Recorded questions in the ledger: the newest of each agent, as last asked, for as long as the policy says."""

from datetime import timedelta
from typing import Any

from support.job_contexts import keeping_questions
from support.ledger_records import COMPANY, StoppedClock

from memcore.config.policy import Policy
from memcore.jobs import MAX_QUERIES, RecordedQuery
from memcore.ledger.ledger import Ledger
from memcore.ledger.recorded_queries import MOST_QUERIES
from scheduler.expire import expire_company

DAY = timedelta(days=1)


def _query(clock: StoppedClock, *, days_ago: float = 1, **changed: Any) -> RecordedQuery:
    given: dict[str, Any] = {"agent_id": "ada", "question": "Who pays?", "memory_ids": ("m",)}
    return RecordedQuery(asked_at=clock.now - days_ago * DAY, **(given | changed))


def _of(ledger: Ledger, clock: StoppedClock, agent_id: str = "ada", company: str = COMPANY) -> list[str]:
    found = ledger.recorded_queries.of(company, agent_id, since=clock.now - 365 * DAY)
    return [each.question for each in found]


def test_a_question_is_kept_once_as_it_was_asked_last(ledger: Ledger, clock: StoppedClock) -> None:
    early, late = _query(clock, days_ago=2), _query(clock, memory_ids=("m", "n"))
    for batch in ([late, early], [early], [late]):
        ledger.recorded_queries.record(COMPANY, batch)
        assert ledger.recorded_queries.of(COMPANY, "ada", since=clock.now - 9 * DAY) == (late,)
    assert ledger.recorded_queries.of(COMPANY, "ada", since=clock.now - DAY / 2) == ()


def test_the_newest_of_each_agent_stay(ledger: Ledger, clock: StoppedClock) -> None:
    every = [_query(clock, days_ago=1 + n / 1_000, question=f"question {n}") for n in range(MOST_QUERIES + 60)]
    ledger.recorded_queries.record(COMPANY, [_query(clock, agent_id="bob", days_ago=300)])
    for start in range(0, len(every), MAX_QUERIES):
        ledger.recorded_queries.record(COMPANY, every[start : start + MAX_QUERIES][::-1])
    assert _of(ledger, clock) == [f"question {n}" for n in range(MOST_QUERIES)]
    ledger.recorded_queries.record(COMPANY, [_query(clock, question="the newest", days_ago=0)])
    assert _of(ledger, clock) == ["the newest", *(f"question {n}" for n in range(MOST_QUERIES - 1))]
    assert _of(ledger, clock, "bob") == ["Who pays?"]


def test_an_agents_questions_are_deleted_and_no_others(ledger: Ledger, clock: StoppedClock) -> None:
    for company in (COMPANY, "globex"):
        ledger.recorded_queries.record(company, [_query(clock), _query(clock, agent_id="bob")])
    assert ledger.recorded_queries.forget(COMPANY, "ada") == 1
    assert _of(ledger, clock) == []
    assert _of(ledger, clock, "bob") == _of(ledger, clock, company="globex") == ["Who pays?"]


def test_a_time_to_come_counts_as_now(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.recorded_queries.record(COMPANY, [_query(clock, days_ago=-900)])
    (kept,) = ledger.recorded_queries.of(COMPANY, "ada", since=clock.now)
    assert kept.asked_at == clock.now


def test_the_expiry_deletes_what_is_old_and_all_once_the_policy_keeps_none(ledger: Ledger, clock: StoppedClock) -> None:
    for company in (COMPANY, "globex"):
        ages = enumerate((1, 29, 31))
        queries = [_query(clock, question=f"question {n}", days_ago=days) for n, days in ages]
        ledger.recorded_queries.record(company, queries)
    expire_company(ledger, COMPANY, keeping_questions(), now=clock.now)
    assert _of(ledger, clock) == ["question 0", "question 1"]
    expire_company(ledger, COMPANY, keeping_questions(query_days=7), now=clock.now)
    assert _of(ledger, clock) == ["question 0"]
    expire_company(ledger, COMPANY, Policy(), now=clock.now)
    assert _of(ledger, clock) == []
    assert len(_of(ledger, clock, company="globex")) == 3
