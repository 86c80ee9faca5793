"""What is read of conversation memory beside a turn: by state, by id, by person; and what age does to it."""

from datetime import timedelta

from support.kept_conversations import arc, fact, keep, owner, rule
from support.ledger_records import COMPANY, StoppedClock

from memcore.ledger.ledger import Ledger
from memcore.models.conversation import (
    ClassifierPath,
    CrisisLevel,
    CrisisLogRecord,
    FactState,
    FeedbackLabel,
    FeedbackSource,
    SessionFeedbackRecord,
)

ADA, GRACE = owner(), owner(subject="user:grace")


def test_the_latest_arc_of_an_owner_never_ages_and_older_ones_do(ledger: Ledger, clock: StoppedClock) -> None:
    now = clock.now
    days = [timedelta(days=number) for number in range(3)]
    keep(ledger, ADA, *(arc(f"s-{number}", "a talk", at=now - day) for number, day in enumerate(days)))
    version = keep(ledger, GRACE, arc("only", "a talk", at=now - days[2]))

    assert ledger.conversation.age(COMPANY, before=now + timedelta(seconds=1)) == 2

    assert [each.entry.session_id for each in ledger.conversation.arcs(COMPANY, ADA)] == ["s-0"]
    assert [each.entry.session_id for each in ledger.conversation.arcs(COMPANY, GRACE)] == ["only"]
    archived = ledger.conversation.listed_arcs(COMPANY, ADA, states=[FactState.ARCHIVED])
    assert [each.session_id for each in archived] == ["s-1", "s-2"]
    # Whoever keeps the memory of the one must read it again, and of the other need not.
    assert ledger.conversation.state(COMPANY, ADA).version == 4
    assert ledger.conversation.state(COMPANY, GRACE).version == version


def test_arcs_younger_than_that_and_those_of_other_companies_stay(ledger: Ledger, clock: StoppedClock) -> None:
    now = clock.now
    two = (arc("old", "a talk", at=now - timedelta(days=9)), arc("new", "a talk", at=now))
    keep(ledger, ADA, *two)
    keep(ledger, ADA, *two, company="another")
    assert ledger.conversation.age(COMPANY, before=now - timedelta(days=9)) == 0
    assert ledger.conversation.age(COMPANY, before=now - timedelta(days=8)) == 1
    assert len(ledger.conversation.arcs("another", ADA)) == 2


def test_facts_that_were_replaced_age(ledger: Ledger, clock: StoppedClock) -> None:
    keep(ledger, ADA, fact("old", "x", at=clock.now))
    keep(ledger, ADA, fact("new", "x", at=clock.now), superseded={"old": "new"})
    assert ledger.conversation.age(COMPANY, before=clock.now) == 0
    assert ledger.conversation.age(COMPANY, before=clock.now + timedelta(seconds=1)) == 1
    (aged,) = ledger.conversation.facts(COMPANY, ADA, states=[FactState.ARCHIVED])
    assert (aged.fact_id, aged.superseded_by) == ("old", "new")


def test_pairs_of_which_a_model_is_not_sure_wait_while_both_hold(ledger: Ledger, clock: StoppedClock) -> None:
    tea = fact("tea", 'I say "unsure_with":["', at=clock.now)
    water = fact("water", "I drink water", at=clock.now + timedelta(days=1))
    keep(ledger, ADA, tea, water.model_copy(update={"unsure_with": ("tea",)}))
    keep(ledger, GRACE, fact("tea", "I drink tea", at=clock.now))

    def pairs() -> list[tuple[str, str, str]]:
        found = ledger.conversation.unsure(COMPANY, ADA.agent_id)
        return [(each.owner.subject, each.older.fact_id, each.newer.fact_id) for each in found]

    assert pairs() == [("user:ada", "tea", "water")]
    ledger.conversation.supersede(COMPANY, ADA, "tea", "water")
    assert pairs() == []
    ledger.conversation.both_hold(COMPANY, ADA, "tea", "water")
    assert pairs() == []
    assert [each.fact_id for each in ledger.conversation.facts(COMPANY, ADA)] == ["tea", "water"]
    assert ledger.conversation.state(COMPANY, ADA).version == 3


def test_what_is_kept_is_found_by_its_id_in_any_state(ledger: Ledger, clock: StoppedClock) -> None:
    at = clock.now
    keep(ledger, ADA, fact("f", "x", at=at), rule("r", "Be brief.", at=at), arc("s", "a talk", at=at))
    keep(ledger, GRACE, arc("s", "another talk", at=at))
    keep(ledger, ADA, fact("f", "of another company", at=at), company="another")
    ledger.conversation.change_state(COMPANY, ADA, ["f"], to=FactState.FORGOTTEN, sources=[FactState.ACTIVE])

    find = ledger.conversation.find
    assert [(whose, kept.state) for whose, kept in find(COMPANY, "f")] == [(ADA, FactState.FORGOTTEN)]
    assert [whose for whose, _ in find(COMPANY, "r")] == [ADA]
    assert [whose for whose, _ in find(COMPANY, "s")] == [ADA, GRACE]
    assert find(COMPANY, "no such id") == ()


def test_arcs_are_listed_page_by_page(ledger: Ledger, clock: StoppedClock) -> None:
    keep(ledger, ADA, *(arc(f"s-{number}", "a talk", at=clock.now) for number in range(3)))
    first = ledger.conversation.listed_arcs(COMPANY, ADA, limit=2)
    rest = ledger.conversation.listed_arcs(COMPANY, ADA, after=first[-1].session_id)
    assert [each.session_id for each in (*first, *rest)] == ["s-0", "s-1", "s-2"]


def test_crises_and_feedback_are_read_by_person(ledger: Ledger, clock: StoppedClock) -> None:
    for number, whose in enumerate((ADA, GRACE, ADA)):
        named = {**whose.model_dump(), "record_id": str(number), "session_id": "s", "at": clock.now}
        ledger.crises.record(
            COMPANY,
            CrisisLogRecord(level=CrisisLevel.HIGH, path=ClassifierPath.MODEL, action="called", **named),
        )
        ledger.feedback.record(
            COMPANY,
            SessionFeedbackRecord(label=FeedbackLabel.HELPFUL, source=FeedbackSource.PERSON, **named),
        )
    for log in (ledger.crises, ledger.feedback):
        assert [each.record_id for each in log.page(COMPANY, "coach")] == ["2", "1", "0"]
        assert [each.record_id for each in log.page(COMPANY, "coach", subject=ADA.subject)] == ["2", "0"]
        last = log.page(COMPANY, "coach", subject=ADA.subject, limit=1)[-1]
        assert [each.record_id for each in log.page(COMPANY, "coach", subject=ADA.subject, before=last)] == ["0"]  # type: ignore[arg-type]  # of its own log
