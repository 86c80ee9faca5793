import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from kombu.message import Message

from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.ledger.dead_letters import UNREADABLE, DeadLetters
from memcore.ledger.ledger import Ledger
from memcore.telemetry.events import Event
from workers.progress import AWAY_SECONDS
from workers.unreadable import BATCH, POLL_INTERVAL_SECONDS, RETRY_SECONDS, Refusals, unreadable_step

SECRET = "xylophonequartz"


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A ledger that takes no letter, until the function is called that this returns."""
    put = DeadLetters.put

    def refuse(*_: object) -> None:
        raise MemoryConnectionError("the ledger is away")

    monkeypatch.setattr(DeadLetters, "put", refuse)
    return lambda: monkeypatch.setattr(DeadLetters, "put", put)


def a_message(tag: int = 1, **headers: Any) -> Any:
    return Message(
        body=f"{SECRET} {tag}", headers={"id": "job-1", **headers}, delivery_tag=tag, channel=MagicMock(),
        delivery_info={"routing_key": "memory.store"}, content_type="application/json", content_encoding="utf-8",
    )  # fmt: skip


class Consumer:
    """What a step sees of Celery's consumer, with an event loop that the test drives."""

    connection_errors = (OSError, KeyError)
    channel_errors = ()

    def __init__(self) -> None:
        self.task_consumer: Any = SimpleNamespace(channel=object())
        self.timer = MagicMock()
        self.soon: list[Callable[[], None]] = []
        self.unreadable: Any = None

    def call_soon(self, step: Callable[[], None]) -> None:
        self.soon.append(step)

    def run(self) -> None:
        while self.soon:
            self.soon.pop(0)()


@pytest.fixture
def consumer(sqlite_ledger: LedgerUrls) -> Consumer:
    made = Consumer()
    unreadable_step(sqlite_ledger, company="acme")(made).start(made)
    return made


def test_a_message_is_acknowledged_only_after_its_letter_is_kept(
    consumer: Consumer, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    message = a_message()
    message.channel.basic_ack.side_effect = lambda _tag: ledger.dead_letters.ids("acme")[0]
    consumer.unreadable.add(message, "body: is wrong")
    message.channel.basic_ack.assert_not_called()

    consumer.run()

    message.channel.basic_ack.assert_called_once_with(1)
    (letter,) = ledger.dead_letters.list("acme")
    assert (letter.job, letter.queue, letter.reason) == (UNREADABLE, "memory.store", "body: is wrong")
    head, _, body = json.loads(letter.payload)["text"].partition("\n")
    assert (json.loads(head)["headers"], body) == ({"id": "job-1"}, f"{SECRET} 1")
    assert SECRET not in caplog.text


def test_while_the_ledger_is_away_the_broker_keeps_the_message_and_is_not_asked_all_the_time(
    consumer: Consumer, ledger: Ledger, away: Callable[[], None]
) -> None:
    ((first_check, health_check, parent),) = [call.args for call in consumer.timer.call_after.call_args_list]
    assert first_check == POLL_INTERVAL_SECONDS
    one, two = a_message(1), a_message(2)
    consumer.unreadable.add(one, "r")
    consumer.run()
    consumer.unreadable.add(two, "r")
    assert consumer.soon == []
    health_check(*parent)
    assert consumer.timer.call_after.call_args.args[0] == RETRY_SECONDS
    one.channel.basic_ack.assert_not_called()

    away()
    health_check(*parent)

    assert consumer.timer.call_after.call_args.args[0] == POLL_INTERVAL_SECONDS
    assert ledger.dead_letters.count("acme") == 2
    for message in (one, two):
        message.channel.basic_ack.assert_called_once()


def test_a_message_that_comes_again_has_the_same_letter(consumer: Consumer, ledger: Ledger) -> None:
    for message in (a_message(), a_message(redelivered=True)):
        consumer.unreadable.add(message, "r")
    consumer.run()
    assert ledger.dead_letters.count("acme") == 1


@pytest.mark.parametrize(
    ("queue", "headers"), [("memory.extract", {}), ("memory.distill", {"task": "memory.conversation.turn"})]
)
def test_of_what_people_may_have_said_only_size_and_hash_are_kept(
    consumer: Consumer, ledger: Ledger, queue: str, headers: dict[str, Any]
) -> None:
    message = a_message(**headers)
    message.delivery_info["routing_key"] = queue
    consumer.unreadable.add(message, "body: is wrong")
    consumer.run()
    (letter,) = ledger.dead_letters.list("acme")
    assert json.loads(letter.payload).keys() == {"bytes", "sha256"}
    assert (letter.queue, letter.reason) == (queue, "body: is wrong")


def test_of_kombus_own_transports_the_whole_message_is_kept_without_the_marks_of_its_return(
    consumer: Consumer, ledger: Ledger
) -> None:
    for marks in ({}, {"redelivered": True}):
        message = a_message()
        info = {"exchange": "", "routing_key": "memory.store", **marks}
        message._raw = {"bodies": SECRET, "headers": {"id": "job-1", **marks}, "properties": {"delivery_info": info}}
        consumer.unreadable.add(message, "r")
    consumer.run()
    (letter,) = ledger.dead_letters.list("acme")
    kept = json.loads(json.loads(letter.payload)["text"])
    assert kept == {
        "bodies": SECRET,
        "headers": {"id": "job-1"},
        "properties": {"delivery_info": {"exchange": "", "routing_key": "memory.store"}},
    }


def test_many_letters_leave_the_event_loop_its_turn(consumer: Consumer, ledger: Ledger) -> None:
    for tag in range(BATCH + 1):
        consumer.unreadable.add(a_message(tag), "r")
    consumer.soon[:] = consumer.soon[:1]
    consumer.soon.pop()()
    assert ledger.dead_letters.count("acme") == BATCH
    consumer.run()
    assert ledger.dead_letters.count("acme") == BATCH + 1


def test_a_message_whose_connection_is_gone_costs_nobody_anything(consumer: Consumer, ledger: Ledger) -> None:
    message = a_message()
    message.channel.basic_ack.side_effect = AttributeError("no connection")
    consumer.unreadable.add(message, "r")
    consumer.run()
    assert ledger.dead_letters.count("acme") == 1


def test_a_queue_that_is_none_of_ours_is_not_named(consumer: Consumer, ledger: Ledger) -> None:
    message = a_message()
    message.delivery_info["routing_key"] = SECRET
    consumer.unreadable.add(message, "r")
    consumer.run()
    assert ledger.dead_letters.list("acme")[0].queue == "unknown"


def refused(message: Any, reason: str = "headers.expires: must not be set") -> MagicMock:
    results = MagicMock()
    Refusals(lambda: results).write(message, reason)
    found: MagicMock = results.mark_as_failure
    return found


def test_a_refused_job_has_a_result_that_says_why() -> None:
    found = refused(a_message())
    (job_id, error), options = found.call_args
    assert (job_id, str(error)) == ("job-1", "headers.expires: must not be set")
    # As Celery makes it again where it is read.
    assert str(MemoryInputError(*error.args)) == str(error)
    assert options["call_errbacks"] is False


def test_a_refused_part_of_a_chord_or_a_chain_fails_the_whole() -> None:
    embed = {"chord": {"task": "sum"}, "chain": [{"task": "next"}], "callbacks": [{"task": "x"}]}
    message = a_message(group="g")
    message.body = json.dumps([[{}], {}, embed])
    request = refused(message).call_args.kwargs["request"]
    assert (request.id, request.group, request.chord, request.chain) == ("job-1", "g", embed["chord"], embed["chain"])
    assert not request.callbacks


@pytest.mark.parametrize("headers", [{"id": ["x"]}, {"id": None}, {"ignore_result": True}])
def test_nobody_waits_for_a_message_without_an_id_or_a_result(headers: dict[str, Any]) -> None:
    refused(a_message(**headers)).assert_not_called()


def test_a_result_store_that_is_away_is_left_alone_for_a_while_and_stops_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now, results = [0.0], MagicMock()
    results.mark_as_failure.side_effect = OSError(SECRET)
    refusals = Refusals(lambda: results, monotonic=lambda: now[0])
    for _ in range(3):
        refusals.write(a_message(), "body: is wrong")
    assert results.mark_as_failure.call_count == 1
    assert [record.message for record in caplog.records] == [Event.RESULT_UNWRITTEN]
    assert SECRET not in caplog.text
    now[0] += AWAY_SECONDS
    refusals.write(a_message(), "body: is wrong")
    assert results.mark_as_failure.call_count == 2


def test_a_message_that_no_result_fits_does_not_keep_those_of_others_away() -> None:
    results = MagicMock()
    results.mark_as_failure.side_effect = [KeyError("a chord without a task"), None]
    refusals = Refusals(lambda: results)
    refusals.write(a_message(), "body: is wrong")
    refusals.write(a_message(), "body: is wrong")
    assert results.mark_as_failure.call_count == 2


def test_the_result_is_written_once_the_letter_is(sqlite_ledger: LedgerUrls, ledger: Ledger) -> None:
    letters: list[int] = []
    consumer = Consumer()
    step = unreadable_step(
        sqlite_ledger, company="acme", on_refused=lambda *_: letters.append(ledger.dead_letters.count("acme"))
    )
    step(consumer).start(consumer)
    message = a_message()
    consumer.unreadable.add(message, "body: is wrong")
    consumer.run()
    assert letters == [1]
    message.channel.basic_ack.assert_called_once_with(1)
