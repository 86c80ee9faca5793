"""Answers of models: asked by one at a time, kept, and given back when their asker dies."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import Engine, event
from support.ledger_records import COMPANY, StoppedClock
from support.present import present

from memcore.config.urls import LedgerUrls
from memcore.errors import LeaseLostError, MemoryInputError
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_answers import Answer
from memcore.ledger.work_items import WorkState

LEASE = timedelta(seconds=45)


def take(ledger: Ledger, question_id: str = "q", *, run_id: str = "run", company: str = COMPANY) -> Answer | None:
    return ledger.answers.claim_question(
        company, question_id, agent_id="ada", run_id=run_id, purpose="test", lease=LEASE
    )


def token(found: Answer | None) -> str:
    assert found is not None
    return present(found.token)


def test_a_question_belongs_to_the_first_who_takes_it_until_the_lease_ends(ledger: Ledger, clock: StoppedClock) -> None:
    first = present(take(ledger))
    assert first.state is WorkState.LEASED
    assert take(ledger) is None
    clock.advance(LEASE - timedelta(seconds=1))
    ledger.answers.renew(COMPANY, "q", token(first), lease=LEASE)
    clock.advance(LEASE - timedelta(seconds=1))
    assert take(ledger) is None
    clock.advance(timedelta(seconds=1))
    second = take(ledger)
    assert token(second) != token(first)
    with pytest.raises(LeaseLostError):
        ledger.answers.renew(COMPANY, "q", token(first), lease=LEASE)
    with pytest.raises(LeaseLostError):
        ledger.answers.finish(COMPANY, "q", token(first), "too late")
    with pytest.raises(LeaseLostError):
        ledger.answers.fail(COMPANY, "q", token(first), "too late")
    assert ledger.answers.finish(COMPANY, "q", token(second), "in time").text == "in time"
    assert ledger.work.take_due(limit=9) == (), "no message asks for a question"


def test_an_answer_is_for_every_run_and_a_failure_for_its_own(ledger: Ledger) -> None:
    ledger.answers.finish(COMPANY, "good", token(take(ledger, "good")), "naïve\x00 café, 日本")
    ledger.answers.fail(COMPANY, "bad", token(take(ledger, "bad")), "blank")

    again = present(take(ledger, "good", run_id="other"))
    assert (again.state, again.text, again.token) == (WorkState.DONE, "naïve\x00 café, 日本", None)
    same = present(take(ledger, "bad"))
    assert (same.state, same.reason, same.token) == (WorkState.FAILED, "blank", None)
    other = present(take(ledger, "bad", run_id="other"))
    assert (other.state, other.run_id) == (WorkState.LEASED, "other")


def test_a_question_that_was_not_asked_after_all_is_free_at_once(ledger: Ledger) -> None:
    ledger.answers.release(COMPANY, "q", token(take(ledger)))
    held = take(ledger, run_id="other")
    with pytest.raises(LeaseLostError):
        ledger.answers.release(COMPANY, "q", "a token of someone else")
    ledger.answers.renew(COMPANY, "q", token(held), lease=LEASE)


def test_of_many_at_once_one_takes_it(ledger: Ledger) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: take(ledger), range(16)))
    assert sum(each is not None for each in found) == 1


def test_the_text_is_in_no_repr(ledger: Ledger) -> None:
    ledger.answers.finish(COMPANY, "q", token(take(ledger)), "marigold")
    assert "marigold" not in repr(ledger.answers.get(COMPANY, "q"))


def test_old_answers_go_company_by_company(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.answers.finish(COMPANY, "ours", token(take(ledger, "ours")), "x")
    ledger.answers.finish("other", "theirs", token(take(ledger, "theirs", company="other")), "x")
    clock.advance(timedelta(days=7))
    ledger.answers.finish(COMPANY, "new", token(take(ledger, "new")), "x")

    assert ledger.answers.expire(COMPANY, before=clock()) == 1
    kept = [ledger.answers.get(*each) for each in ((COMPANY, "ours"), ("other", "theirs"), (COMPANY, "new"))]
    assert [each and each.question_id for each in kept] == [None, "theirs", "new"]


@pytest.mark.service
def test_an_answer_used_while_old_ones_go_stays_and_its_question_can_be_asked_again(
    postgres_ledger: LedgerUrls, clock: StoppedClock
) -> None:
    ledger = Ledger.open(postgres_ledger, clock=clock)
    ledger.answers.finish(COMPANY, "q", token(take(ledger)), "an answer")
    clock.advance(timedelta(days=31))

    def use(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if statement.startswith("DELETE FROM answers"):
            ledger.answers.touch(COMPANY, "q")

    event.listen(Engine, "before_cursor_execute", use)
    try:
        assert ledger.answers.expire(COMPANY, before=clock() - timedelta(days=30)) == 0
    finally:
        event.remove(Engine, "before_cursor_execute", use)
    again = take(ledger, run_id="other")
    ledger.close()
    assert again is not None
    assert again.text == "an answer"


def test_a_question_of_another_company_is_refused(ledger: Ledger) -> None:
    ledger.answers.finish(COMPANY, "q", token(take(ledger)), "x")
    with pytest.raises(MemoryInputError, match="another company"):
        take(ledger, company="other")
