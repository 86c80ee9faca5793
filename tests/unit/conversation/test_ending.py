"""The end of a session: when it comes, what is promoted, and the one summary."""

from datetime import timedelta
from typing import Any

import pytest
from support.conversation_fixture import OWNER, ConversationFixture
from support.ledger_records import COMPANY
from support.table_model import decided, extracted, fact, rule

from memcore.conversation import ending, promotion
from memcore.conversation.ending import FIRST_WAIT, LONGEST_WAIT, is_substantive
from memcore.conversation.service import RETRY
from memcore.errors import MemoryRetrievalError, RetryExhaustedError
from memcore.jobs import Dead, Deferred, Done, EndSessionPayload, Skipped
from memcore.ledger.work_items import WorkItem
from memcore.models.conversation import FactState
from memcore.models.memory import MemoryLevel
from memcore.telemetry.events import Event

IDLE = timedelta(minutes=20)
HOME = fact("I live in Berlin", "Berlin")


@pytest.fixture(autouse=True)
def _held(talk: ConversationFixture) -> None:
    """Let the policy hold every fact on Berlin."""
    talk.table.extract["Berlin"] = extracted(HOME)
    talk.table.policy["Berlin"] = decided("commit_at_session_end")


def due(talk: ConversationFixture) -> list[WorkItem]:
    found = talk.ledger.work.take_due(company=COMPANY, limit=99)
    return [item for item in found if item.kind == EndSessionPayload.task]


async def test_a_session_ends_by_itself_once_nothing_was_said_for_a_while(talk: ConversationFixture) -> None:
    await talk.drawn("hello")
    last = talk.session().last_turn_at
    talk.clock.now = last + IDLE - timedelta(seconds=1)
    assert due(talk) == []
    assert await talk.ending().run(talk.key()) == Deferred(reason="the session goes on")
    talk.clock.now = last + IDLE
    (item,) = due(talk)
    assert (item.key, item.queue) == (talk.key(), "memory.extract")
    assert isinstance(await talk.ending().run(talk.key()), Done)
    assert talk.session().ended_at == talk.clock()


async def test_each_turn_puts_the_end_off(talk: ConversationFixture) -> None:
    await talk.drawn("hello")
    talk.clock.advance(IDLE - timedelta(minutes=1))
    await talk.drawn("are you there?")
    talk.clock.advance(timedelta(minutes=2))
    assert due(talk) == []
    talk.clock.advance(IDLE)
    assert [item.key for item in due(talk)] == [talk.key()]


async def test_a_request_ends_it_at_once_and_a_second_end_does_nothing(talk: ConversationFixture) -> None:
    await talk.drawn("I live in Berlin")
    await talk.drawn("Berlin, I live in Berlin")
    assert isinstance(await talk.end(), Done)
    assert list(talk.facts()) == ["Berlin"]
    asked, version = len(talk.table.purposes), talk.ledger.conversation.state(COMPANY, OWNER).version
    assert isinstance(await talk.end(), Skipped)
    assert (len(talk.table.purposes), talk.ledger.conversation.state(COMPANY, OWNER).version) == (asked, version)


async def test_what_was_said_twice_is_promoted_and_what_was_said_once_is_dropped(talk: ConversationFixture) -> None:
    talk.table.extract["Rome"] = extracted(fact("I work in Rome", "Rome", predicate="WORKS_IN"))
    talk.table.policy["Rome"] = decided("require_repetition")
    first = await talk.drawn("I live in Berlin")
    second = await talk.drawn("yes, I live in Berlin")
    await talk.drawn("I work in Rome")
    outcome = await talk.end()
    assert isinstance(outcome, Done)
    counts = outcome.facts
    expected = {"writes": 1, "bumps": 0, "skips": 0, "failures": 0, "support_load_failed": 0, "dropped": 1, "arcs": 1}
    assert {name: counts[name] for name in expected} == expected
    kept = talk.facts()["Berlin"]
    assert (kept.turn_id, kept.session_id, kept.created_at) == (None, "s-1", second.at)
    assert first.at < second.at
    ended = talk.ledger.sessions.ended_candidates(COMPANY, talk.key())
    assert sorted(state for state, _ in ended.values()) == ["dropped", "promoted", "promoted"]
    report = talk.session().outcome
    assert report is not None
    assert (report["policy_version"], report["written"]) == ("memtend-2", [kept.fact_id])
    assert talk.held() == []


async def test_rules_are_promoted_with_their_quotes(talk: ConversationFixture) -> None:
    talk.table.extract["brief"] = extracted(rules=(rule("be brief", "Answer briefly.", kind="implicit"),))
    talk.table.extract["short"] = extracted(rules=(rule("keep it short", "Answer briefly.", kind="implicit"),))
    for words in ("brief", "short"):
        talk.table.policy[words] = decided("commit_at_session_end")
    await talk.drawn("be brief")
    await talk.drawn("keep it short")
    await talk.end()
    (kept,) = talk.rules().values()
    assert (sorted(kept.quotes), kept.kind) == (["be brief", "keep it short"], "implicit")


async def test_what_is_known_already_is_bumped(talk: ConversationFixture) -> None:
    del talk.table.policy["Berlin"]
    await talk.drawn("I live in Berlin", session_id="s-0")
    talk.table.policy["Berlin"] = decided("commit_at_session_end")
    await talk.drawn("I live in Berlin")
    await talk.drawn("I live in Berlin")
    outcome = await talk.end()
    assert isinstance(outcome, Done)
    assert (outcome.facts["writes"], outcome.facts["bumps"]) == (0, 1)
    ended = talk.ledger.sessions.ended_candidates(COMPANY, talk.key())
    assert {state for state, _ in ended.values()} == {"known"}
    assert len(talk.facts()) == 1


async def test_a_request_about_memory_in_the_session_drops_all_that_is_held_and_leaves_no_summary(
    talk: ConversationFixture,
) -> None:
    for text in ("I live in Berlin", "I live in Berlin", "and do not save this", "I live in Berlin"):
        await talk.drawn(text)
    assert len(talk.held()) == 3
    assert isinstance(await talk.end(), Done)
    assert (talk.facts(), talk.held(), talk.summaries()) == ({}, [], [])
    assert "summarize" not in talk.table.purposes


async def test_a_request_to_forget_while_the_session_ends_wins(talk: ConversationFixture) -> None:
    def meanwhile(_content: str) -> Any:
        talk.record(talk.payload("forget what I said"))
        return {"summary": "They talked of Berlin."}

    for _ in range(3):
        await talk.drawn("I live in Berlin")
    talk.table.summarize = meanwhile
    assert isinstance(await talk.end(), Deferred)
    talk.table.summarize = {"summary": "They talked of Berlin."}
    turn_id = f"turn-{4:03}"
    await talk.extraction().run(turn_id)
    assert isinstance(await talk.end(), Done)
    assert (talk.facts(), talk.held(), talk.summaries()) == ({}, [], [])


async def test_a_request_to_forget_takes_the_summary_of_the_session_too(talk: ConversationFixture) -> None:
    for text in ("one", "two", "three"):
        await talk.drawn(text)
    await talk.end()
    assert talk.summaries() == ["They talked."]
    await talk.drawn("forget what I said")
    assert talk.summaries() == []


async def test_turns_that_wait_for_the_model_are_waited_for_ever_longer(talk: ConversationFixture) -> None:
    waiting = talk.said("I live in Berlin")
    talk.said("I live in Berlin")
    talk.close()
    for waited in (FIRST_WAIT, FIRST_WAIT, 2 * FIRST_WAIT):
        assert await talk.ending().run(talk.key()) == Deferred(reason="2 turns wait for the language model")
        item = talk.ledger.sessions.item(COMPANY, talk.key())
        assert (item.dispatch_after, item.attempt) == (talk.clock() + waited, 0)
        talk.clock.advance(waited)
    talk.clock.advance(timedelta(days=1))
    await talk.ending().run(talk.key())
    assert talk.ledger.sessions.item(COMPANY, talk.key()).dispatch_after == talk.clock() + LONGEST_WAIT
    for turn_id in (waiting, f"turn-{2:03}"):
        await talk.extraction().run(turn_id)
    assert isinstance(await talk.ending().run(talk.key()), Done)
    assert list(talk.facts()) == ["Berlin"]


async def test_turns_that_failed_for_good_are_not_waited_for(talk: ConversationFixture) -> None:
    turn_id = talk.said("I live in Berlin")
    talk.table.extract["Berlin"] = RetryExhaustedError("away")
    for _ in range((RETRY.attempts or 0) + 1):
        await talk.extraction().run(turn_id)
        talk.clock.advance(RETRY.longest_delay)
    assert talk.turn(turn_id).state == "failed"
    assert isinstance(await talk.ending().run(talk.key()), Done)


async def test_without_a_model_the_session_waits(talk: ConversationFixture) -> None:
    await talk.drawn("I live in Berlin")
    talk.close()
    assert isinstance(await talk.ending(model=None).run(talk.key()), Skipped)
    assert talk.ledger.sessions.item(COMPANY, talk.key()).state == "available"


async def test_a_model_that_does_not_answer_is_waited_for_and_nothing_is_lost(talk: ConversationFixture) -> None:
    for _ in range(3):
        await talk.drawn("I live in Berlin")
    talk.table.summarize = RetryExhaustedError("away")
    assert isinstance(await talk.end(), Deferred)
    assert (len(talk.held()), talk.facts()) == (3, {})
    talk.clock.advance(RETRY.delay(1))
    talk.table.summarize = {"summary": "They talked of Berlin."}
    assert isinstance(await talk.ending().run(talk.key()), Done)
    assert (list(talk.facts()), talk.summaries()) == (["Berlin"], ["They talked of Berlin."])


async def test_a_session_that_could_not_be_ended_keeps_what_it_holds(talk: ConversationFixture) -> None:
    for _ in range(3):
        await talk.drawn("I live in Berlin")
    talk.table.summarize = RetryExhaustedError("away")
    talk.close()
    for _ in range(RETRY.attempts or 0):
        await talk.ending().run(talk.key())
        talk.clock.advance(RETRY.longest_delay)
    assert isinstance(await talk.ending().run(talk.key()), Dead)
    assert len(talk.held()) == 3


async def test_an_unknown_session_is_dead(talk: ConversationFixture) -> None:
    assert isinstance(await talk.ending().run("none"), Dead)


async def test_what_earlier_sessions_said_is_done_without_where_it_cannot_be_read(
    talk: ConversationFixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await talk.drawn("I live in Berlin")
    await talk.drawn("I live in Berlin")

    def newer(*_args: Any, **_given: Any) -> Any:
        raise MemoryRetrievalError("a memory has form 9")

    monkeypatch.setattr(talk.ledger.sessions, "held_before", newer)
    outcome = await talk.end()
    assert isinstance(outcome, Done)
    assert (outcome.facts["support_load_failed"], list(talk.facts())) == (1, ["Berlin"])
    assert Event.CONVERSATION_SUPPORT_LOAD_FAILED in caplog.messages


async def test_a_promotion_sees_earlier_sessions_and_not_its_own_summary(
    talk: ConversationFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    usual = promotion.promote

    def promote(held: Any, transcript: Any, **given: Any) -> Any:
        seen.append({"transcript": list(transcript), **given})
        return usual(held, transcript, **given)

    monkeypatch.setattr(promotion, "promote", promote)
    for session_id, summary in (
        ("s-0", "They talked."),
        ("s-1", "They talked again."),
        ("s-1", "They live in Berlin."),
    ):
        talk.table.summarize = {"summary": summary}
        for text in ("I live in Berlin", "so", "it is"):
            await talk.drawn(text, session_id=session_id)
        await talk.end(session_id)
        talk.clock.advance(timedelta(seconds=1))
    assert [each["arcs"] for each in seen] == [(), ("They talked.",), ("They talked.",)]
    assert [len(each["before"]) for each in seen] == [0, 1, 1]
    assert seen[1]["transcript"] == ["I live in Berlin", "so", "it is"]


@pytest.mark.parametrize("level", [MemoryLevel.NONE, MemoryLevel.SESSION])
async def test_an_agent_whose_memories_do_not_last_any_more_keeps_nothing(
    talk: ConversationFixture, level: MemoryLevel
) -> None:
    for _ in range(3):
        await talk.drawn("I live in Berlin")
    talk.level = level
    assert isinstance(await talk.end(), Done)
    assert (talk.facts(), talk.held(), talk.summaries()) == ({}, [], [])


# The summary


@pytest.mark.parametrize(
    ("said", "has_one"),
    [
        ([], False),
        (["x" * 399], False),
        (["x" * 400], True),
        (["x" * 200, "x" * 200], True),
        (["one", "two"], False),
        (["one", "two", "three"], True),
    ],
)
async def test_a_session_with_something_to_say_has_a_summary(
    talk: ConversationFixture, said: list[str], *, has_one: bool
) -> None:
    assert is_substantive(said) == has_one
    for text in said:
        await talk.drawn(text)
    if said:
        await talk.end()
    assert talk.summaries() == (["They talked."] if has_one else [])


async def test_the_summary_has_the_times_topics_and_vector_of_its_session(talk: ConversationFixture) -> None:
    talk.table.summarize = {"summary": " They\ntalked. ", "topics": ["talk", None, "", "x" * 300, "talk", "home"]}
    turns = [await talk.drawn(text, reply="I see") for text in ("one", "two", "three")]
    await talk.end()
    (found,) = talk.ledger.conversation.arcs(COMPANY, OWNER)
    arc: Any = found.entry
    assert (arc.summary, arc.topics, arc.turns, arc.session_id) == ("They talked.", ("talk", "home"), 3, "s-1")
    assert (arc.started_at, arc.ended_at) == (turns[0].at, turns[-1].at)
    assert found.embedded is not None
    content = talk.table.asked[-1].messages[1].content
    assert content.index("one") < content.index("I see") < content.index("three")
    assert '<person-said on="Sunday 2026-03-01">' in content


async def test_a_session_that_goes_on_is_ended_anew_with_one_summary(talk: ConversationFixture) -> None:
    for text in ("I live in Berlin", "I live in Berlin", "so it is"):
        await talk.drawn(text)
    await talk.end()
    talk.clock.advance(timedelta(hours=1))
    await talk.drawn("I live in Berlin, still")
    assert talk.session().ended_at is None
    talk.table.summarize = {"summary": "They talked again."}
    assert isinstance(await talk.end(), Done)
    assert talk.summaries() == ["They talked again."]
    assert "They talked." in talk.table.asked[-1].messages[1].content, "the earlier summary is shown"
    assert len(talk.facts()) == 1


async def test_a_session_whose_texts_are_gone_keeps_its_summary(talk: ConversationFixture) -> None:
    for text in ("one", "two", "three"):
        await talk.drawn(text)
    await talk.end()
    talk.clock.advance(timedelta(days=2))
    assert talk.ledger.turns.expire(COMPANY, before=talk.clock()) == 3
    await talk.drawn("do not save this")
    await talk.end()
    assert talk.summaries() == ["They talked."]


async def test_a_session_whose_texts_are_gone_and_that_goes_on_keeps_what_its_summary_said(
    talk: ConversationFixture,
) -> None:
    for text in ("one", "two", "three"):
        await talk.drawn(text)
    await talk.end()
    talk.clock.advance(timedelta(days=2))
    talk.ledger.turns.expire(COMPANY, before=talk.clock())
    await talk.drawn("four")
    talk.table.summarize = {"summary": "They talked on."}
    await talk.end()
    content = talk.table.asked[-1].messages[1].content
    assert ("They talked." in content, "four" in content, "three" in content) == (True, True, False)
    assert talk.summaries() == ["They talked on."]


@pytest.mark.parametrize("answer", ["no json", {}, {"summary": " "}, {"summary": None}, {"summary": [3]}])
async def test_a_malformed_summary_is_left_out_and_counted(talk: ConversationFixture, answer: Any) -> None:
    for text in ("I live in Berlin", "I live in Berlin", "three"):
        await talk.drawn(text)
    talk.table.summarize = answer
    outcome = await talk.end()
    assert isinstance(outcome, Done)
    assert (outcome.facts["failures"], talk.summaries(), list(talk.facts())) == (1, [], ["Berlin"])


async def test_a_long_session_is_shown_in_part(talk: ConversationFixture) -> None:
    for number in range(30):
        await talk.drawn(f"turn {number} " + "x" * 3_000)
    await talk.end()
    content = talk.table.asked[-1].messages[1].content
    assert len(content) < ending.SESSION_CHARS + 2_000
    assert "turn 0 " in content
    assert "turn 29 " in content


# Turns that come while it ends, or late


async def test_a_turn_that_comes_while_the_session_ends_keeps_it_open(talk: ConversationFixture) -> None:
    def meanwhile(_content: str) -> Any:
        talk.clock.advance(timedelta(seconds=1))
        talk.said("Berlin, I live in Berlin", turn_id="late")
        return {"summary": "They talked."}

    for text in ("I live in Berlin", "I live in Berlin", "three"):
        await talk.drawn(text)
    talk.table.summarize = meanwhile
    assert isinstance(await talk.end(), Deferred)
    session = talk.session()
    assert (session.ended_at, session.turns) == (None, 4)
    item = talk.ledger.sessions.item(COMPANY, talk.key())
    assert (item.state, item.dispatch_after) == ("waiting", session.last_turn_at + IDLE)
    # What was decided is written, and the turn is part of the end that follows.
    assert list(talk.facts()) == ["Berlin"]
    talk.table.summarize = {"summary": "They talked on."}
    await talk.extraction().run("late")
    talk.clock.advance(IDLE)
    assert isinstance(await talk.ending().run(talk.key()), Done)
    assert talk.summaries() == ["They talked on."]


async def test_a_turn_that_was_said_before_the_end_and_comes_late_does_not_open_the_session(
    talk: ConversationFixture,
) -> None:
    late = talk.payload("I live in Berlin")
    talk.clock.advance(timedelta(seconds=1))
    await talk.drawn("I live in Berlin")
    await talk.end()
    assert talk.facts() == {}
    talk.clock.advance(timedelta(seconds=3))
    talk.record(late)
    assert talk.session().ended_at is not None
    await talk.extraction().run(late.turn_id)
    # It is part of an end of its own, at once.
    assert talk.key() in [item.key for item in due(talk)]
    assert isinstance(await talk.ending().run(talk.key()), Done)


async def test_a_fact_that_is_superseded_at_an_end_names_its_successor(talk: ConversationFixture) -> None:
    del talk.table.policy["Berlin"]
    await talk.drawn("I live in Berlin", session_id="s-0")
    talk.table.extract["Rome"] = extracted(fact("I live in Rome", "Rome"))
    talk.table.policy["Rome"] = decided("commit_at_session_end")
    talk.table.reconcile["Rome"] = {"facts": [{"number": 1, "action": "supersede", "known": [1], "confidence": "high"}]}
    await talk.drawn("I live in Rome")
    await talk.drawn("I live in Rome")
    await talk.end()
    (old,) = talk.facts(FactState.SUPERSEDED).values()
    assert old.superseded_by == talk.facts()["Rome"].fact_id


async def test_a_password_in_a_summary_is_shown_as_stars(talk: ConversationFixture) -> None:
    talk.table.summarize = {"summary": "They set api_key=sk-abcdef1234567890abcdef1234567890 together.", "topics": []}
    for text in ("one", "two", "we set api_key=sk-abcdef1234567890abcdef1234567890 together"):
        await talk.drawn(text)
    await talk.end()
    (summary,) = talk.summaries()
    assert "abcdef1234567890" not in summary
    assert summary.startswith("They set")
