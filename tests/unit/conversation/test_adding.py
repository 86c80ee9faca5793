"""mem0's add: messages as turns, and an event for each fact and rule that came of them."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest
from support.conversation_fixture import OWNER, ConversationFixture
from support.ledger_records import COMPANY
from support.table_model import decided, extracted, fact, rule

from memcore.client.results import TurnReceipt
from memcore.config.policy import Policy
from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.memory.conversation import AddResult, ConversationReader

if TYPE_CHECKING:
    from memcore.client.client import MemoryClient


class Workers:
    """A client whose turns are recorded and drawn at once, as workers would."""

    def __init__(self, talk: ConversationFixture) -> None:
        self.talk = talk
        self.is_away = False
        self.has_model = True

    def extract_turn(self, agent_id: str, *, user_text: str, assistant_text: str, **_more: Any) -> TurnReceipt | None:
        assert agent_id == OWNER.agent_id
        if self.is_away:
            return None
        turn_id = self.talk.said(user_text, reply=assistant_text)
        if self.has_model:
            asyncio.run(self.talk.extraction().run(turn_id))
        return TurnReceipt(job_id="job", turn_id=turn_id)


@pytest.fixture
def workers(talk: ConversationFixture) -> Workers:
    return Workers(talk)


def _add(workers: Workers, messages: Any, *, timeout_seconds: float = 5.0) -> AddResult:
    reader = ConversationReader(lambda: workers.talk.ledger, company=COMPANY, policy=Policy())
    client = cast("MemoryClient", workers)
    return reader.add(client, messages, owner=OWNER, user_id="mia", session_id="s-1", timeout_seconds=timeout_seconds)


def test_each_fact_and_rule_has_its_event(workers: Workers) -> None:
    table = workers.talk.table
    table.extract["Berlin"] = extracted(fact("I live in Berlin", "Berlin"), rules=(rule("be brief", "Be brief."),))
    table.extract["Rome"] = extracted(fact("I moved to Rome", "Rome"))
    table.reconcile["Rome"] = {"facts": [{"number": 1, "action": "supersede", "known": [1], "confidence": "high"}]}
    first = _add(workers, "I live in Berlin, and always be brief")["results"]
    assert {(each["memory"], each["event"]) for each in first} == {
        ("User lives in Berlin", "ADD"), ("Be brief.", "ADD"),
    }  # fmt: skip
    (known,) = (each for each in _add(workers, "I live in Berlin")["results"] if "lives" in each["memory"])
    assert (known["event"], known["id"]) == ("NOOP", next(each["id"] for each in first if "lives" in each["memory"]))
    (moved,) = _add(workers, [{"role": "user", "content": "I moved to Rome"}])["results"]
    assert (moved["event"], moved["memory"]) == ("UPDATE", "User lives in Rome")
    assert moved.get("previous_memory") == "User lives in Berlin"


def test_what_waits_for_the_end_of_its_session_has_no_event(workers: Workers) -> None:
    workers.talk.table.extract["tea"] = extracted(fact("I like tea", "tea", category="preference"))
    workers.talk.table.policy["tea"] = decided("commit_at_session_end")
    assert _add(workers, "I like tea") == {"results": []}
    assert workers.talk.held() == ["tea"]


def test_turns_that_no_model_was_asked_about_are_kept(workers: Workers) -> None:
    workers.has_model = False
    with pytest.raises(TimeoutError, match="kept"):
        _add(workers, "I live in Berlin", timeout_seconds=0.0)
    assert workers.talk.ledger.conversation.counts(COMPANY, OWNER).waiting_turns == 1


def test_a_turn_that_cannot_be_sent_is_told(workers: Workers) -> None:
    workers.is_away = True
    with pytest.raises(MemoryConnectionError, match="again"):
        _add(workers, "I live in Berlin")


def test_a_message_of_another_form_is_refused_before_anything_is_sent(workers: Workers) -> None:
    with pytest.raises(MemoryInputError, match=r"messages\.1"):
        _add(workers, [{"role": "user", "content": "a"}, {"role": "judge", "content": "b"}])
    assert workers.talk.ledger.conversation.counts(COMPANY, OWNER).waiting_turns == 0
