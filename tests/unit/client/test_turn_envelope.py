import logging
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from support.memories import NOW

from memcore import MemoryClient
from memcore.client.envelopes import OutgoingJob, build_close_payload, build_turn_payload
from memcore.errors import MemoryConnectionError, MemoryInputError, MemoryQueueFullError
from memcore.jobs import MAX_TURN_CHARS, TurnPayload
from memcore.models.conversation import MAX_SUBJECT_CHARS

SAID = "I live in Zanzibar-4711"


def built(agent_id: str = "ada", **changed: Any) -> TurnPayload:
    given: dict[str, Any] = {
        "company": "acme",
        "session_id": "s-1",
        "user_text": SAID,
        "assistant_text": "Noted.",
        "user_id": "mia",
        "turn": None,
        "at": NOW,
    }
    return build_turn_payload(agent_id, now=NOW, **{**given, **changed})


def test_a_turn_has_one_id_by_its_time_and_texts_or_by_its_name() -> None:
    first = built()
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5)))
    assert built(" ada ", session_id=" s-1 ", user_id="mia ", at=elsewhere).turn_id == first.turn_id
    others = [
        built("bob"),
        built(company="globex"),
        built(session_id="s-2"),
        built(user_id="max"),
        built(user_id=None),
        built(user_text=f"{SAID}!"),
        built(assistant_text=""),
        built(at=NOW + timedelta(seconds=1)),
        built(turn="7"),
        built(turn="8"),
        built(turn="7", session_id="s-2"),
    ]
    assert len({first.turn_id, *(each.turn_id for each in others)}) == 12
    assert built(turn="7", user_text="other", at=NOW + timedelta(days=1)).turn_id == built(turn="7").turn_id


def test_the_subject_is_the_user_or_else_the_session() -> None:
    assert [built().subject, built(user_id=None).subject] == ["user:mia", "session:s-1"]
    close = build_close_payload("ada", company="acme", session_id="s-1", user_id=None, at=NOW)
    assert (close.subject, close.session_id, close.at) == ("session:s-1", "s-1", NOW)


def test_texts_are_sent_as_they_were_said() -> None:
    text = " naïve\n日本 "
    assert built(user_text=text).user_text == text
    assert len(built(user_text="x" * MAX_TURN_CHARS).user_text) == MAX_TURN_CHARS


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"agent_id": "a\0"}, "agent_id"),
        ({"agent_id": "__shared__"}, "agent_id"),
        ({"company": " "}, "company"),
        ({"session_id": " "}, "session_id"),
        ({"session_id": None}, "session_id"),
        ({"user_id": " "}, "user_id"),
        ({"user_id": "x" * (MAX_SUBJECT_CHARS + 1)}, "user_id"),
        ({"user_id": "a\nb"}, "subject"),
        ({"turn": " "}, "turn"),
        ({"turn": "a\nb"}, "turn"),
        ({"user_text": " \n"}, "user_text"),
        ({"user_text": SAID + "\0"}, "user_text"),
        ({"user_text": SAID + "x" * MAX_TURN_CHARS}, "user_text"),
        ({"user_text": SAID + "\ud800"}, "user_text"),
        ({"assistant_text": SAID + "x" * MAX_TURN_CHARS}, "assistant_text"),
        ({"at": datetime(2026, 3, 1)}, "at"),  # noqa: DTZ001  # the zone is missing on purpose
    ],
)
def test_what_breaks_a_limit_is_refused_by_name_and_without_its_text(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(MemoryInputError) as refused:
        built(**fields)
    assert refused.value.field == field
    assert SAID not in str(refused.value)
    assert len(str(refused.value)) < 200


class Broker:
    """Stands for a client's connection."""

    def __init__(self, trouble: Exception | None = None) -> None:
        self.trouble, self.sent = trouble, list[OutgoingJob]()

    def send_many(self, _task: str, jobs: list[OutgoingJob], **_more: object) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.sent += jobs


def client(broker: Broker) -> MemoryClient:
    made = MemoryClient("redis://127.0.0.1:1/0", company="acme", clock=lambda: NOW)
    made._opened = broker  # type: ignore[assignment]  # it has what these calls need
    return made


def test_monitoring_is_shown_nothing_of_what_was_said() -> None:
    broker = Broker()
    receipt = client(broker).extract_turn("ada", session_id="s-1", user_text=SAID, user_id="mia")
    client(broker).end_conversation("ada", session_id="s-1", user_id="mia")
    assert receipt is not None
    turn, end = broker.sent
    assert [turn.summary, end.summary] == ["1 turn of ada", "the end of a session of ada"]
    assert (turn.queue, end.queue) == ("memory.distill", "memory.distill")
    assert SAID in turn.payload
    assert SAID not in repr(turn) + repr(TurnPayload.model_validate_json(turn.payload))
    assert TurnPayload.model_validate_json(turn.payload).at == NOW.astimezone(UTC)


@pytest.mark.parametrize("trouble", [MemoryConnectionError("gone"), MemoryQueueFullError("full")], ids=type)
def test_a_broker_that_does_not_take_it_fails_no_reply(trouble: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert client(Broker(trouble)).extract_turn("ada", session_id="s-1", user_text=SAID) is None
        assert client(Broker(trouble)).end_conversation("ada", session_id="s-1") is None
    lost, also = caplog.records
    assert [lost.message, also.message] == ["memory.conversation.turn.lost", "memory.conversation.end.lost"]
    for line in (lost, also):
        assert {"ada", type(trouble).__name__} <= set(map(str, vars(line).values()))
        assert SAID not in str(vars(line))


def test_a_field_that_is_missing_or_unknown_is_named() -> None:
    client = MemoryClient("redis://127.0.0.1:1/0", company="acme")
    for given, name in (({"user_text": "x"}, "session_id"), ({"session_id": "s"}, "user_text")):
        with pytest.raises(MemoryInputError, match=f"^{name}: is missing"):
            client.extract_turn("ada", **given)  # type: ignore[arg-type]
    with pytest.raises(MemoryInputError, match=r"^text: is not a field"):
        client.extract_turn("ada", session_id="s", user_text="x", text="y")  # type: ignore[call-arg]
