"""What cannot be read goes to a list of its own, whole, and says nothing of itself in the log."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from time import monotonic
from typing import Any

import pytest
from kombu.asynchronous import Hub
from kombu.entity import Exchange, Queue
from kombu.messaging import Consumer
from redis import Redis
from support.running_stack import wait_until

from .conftest import QUEUE, publish

#: Stands in every message that cannot be read, and in no log.
SECRET = "xylophonequartz"

#: Longest wait for what takes milliseconds, in seconds.
PATIENCE = 60


@contextmanager
def heard_by(connection: Any) -> Iterator[list[Any]]:
    heard: list[Any] = []

    def take(body: Any, message: Any) -> None:
        heard.append(body)
        message.ack()

    with Consumer(connection.default_channel, [QUEUE], callbacks=[take]):
        yield heard


def drain_until(connection: Any, holds: Callable[[], bool]) -> None:
    until = monotonic() + PATIENCE
    while not holds():
        assert monotonic() < until
        connection.drain_events(timeout=PATIENCE)


def message(**fields: Any) -> str:
    properties = {"delivery_tag": "tag-1", "delivery_info": {"exchange": "", "routing_key": "jobs"}}
    return json.dumps({"body": SECRET, "headers": {}, "properties": properties, **fields})


def properties(**fields: Any) -> dict[str, Any]:
    return {"delivery_tag": "tag-1", "delivery_info": {"exchange": "", "routing_key": "jobs"}, **fields}


@pytest.mark.parametrize(
    "raw",
    [
        f"no JSON {SECRET}",
        json.dumps({"properties": {}, "body": SECRET}),
        message(properties=properties(delivery_info=SECRET)),
        message(properties=properties(delivery_info={"exchange": ["x"], "routing_key": "jobs"})),
        message(properties=properties(delivery_tag="\ud83d\ude00")),
        message(properties=properties(delivery_tag="x" * 256)),
        message(properties=properties(body_encoding="base64")),
        message(properties=properties(body_encoding="no such thing")),
        message(headers=[SECRET]),
        message().replace("{}", "[" * 900 + "]" * 900).replace(SECRET, SECRET + "[" * 99_000),
        message().replace("{}", f'{{"x": {"9" * 5_000}}}'),
        message().encode("utf-8").replace(b"{}", b'{"x": "\xff"}'),
    ],
    ids=lambda raw: str(raw)[:40] if len(raw) < 200 else f"{len(raw)} bytes",
)
def test_what_cannot_be_read_is_moved_aside_whole_and_blocks_nothing(
    connect: Callable[..., Any], store: Redis, caplog: pytest.LogCaptureFixture, raw: str | bytes
) -> None:
    store.rpush("jobs", raw)
    publish(connect("stock"), "good")
    connection = connect("ours")

    with heard_by(connection) as heard:
        drain_until(connection, lambda: "good" in heard and store.llen("unreadable") == 1)

    assert heard == ["good"]
    assert not store.exists("unacked", "unacked_index", "jobs")
    found = connection.default_channel.unreadable.oldest()
    expected = raw.encode() if isinstance(raw, str) else raw
    assert (found.queue, found.size, b"".join(found.pieces())) == ("jobs", len(expected), expected)
    found.remove()
    assert not store.exists("unreadable")
    assert connection.default_channel.unreadable.oldest() is None
    assert SECRET not in caplog.text


def test_a_message_above_the_limit_is_never_handed_to_a_client(
    connect: Callable[..., Any], store: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.transport.channel.PIECE_BYTES", 1_000)
    large = message(body="x" * 20_000)
    store.rpush("jobs", large)
    publish(connect("stock"), "good")
    connection = connect("ours", largest_message=10_000)

    with heard_by(connection) as heard:
        drain_until(connection, lambda: heard == ["good"])

    found = connection.default_channel.unreadable.oldest()
    pieces = list(found.pieces())
    assert max(map(len, pieces)) <= 1_000
    assert sha256(b"".join(pieces)).digest() == sha256(large.encode()).digest()


def test_what_a_lost_answer_moved_aside_is_looked_for(connect: Callable[..., Any], store: Redis) -> None:
    connection = connect("ours")
    channel = connection.default_channel
    with heard_by(connection) as heard:
        publish(connection, message())
        drain_until(connection, lambda: len(heard) == 1)
        assert channel.unreadable.oldest() is None
        assert not channel.unreadable.may_wait
        store.rpush("jobs", "no message")
        channel.qos.acks.add("done before")
        channel._send_round({"jobs": 1}, 1)
        wait_until(lambda: store.exists("unreadable") == 1, what="the server to move it")
        # As kombu does with a connection whose server did not answer in time.
        channel._in_poll.disconnect()
        assert channel.unreadable.may_wait
        assert len(channel.qos.acks) == 1


def test_two_workers_that_empty_the_list_remove_each_message_once(connect: Callable[..., Any], store: Redis) -> None:
    store.lpush("unreadable", "jobs\none", "jobs\ntwo")
    one, two = (connect("ours").default_channel.unreadable.oldest() for _ in range(2))

    one.remove()
    two.remove()

    assert store.lrange("unreadable", 0, -1) == [b"jobs\ntwo"]
    with pytest.raises(RuntimeError, match="another worker"):
        list(connect("ours").default_channel.unreadable.oldest().__class__(one._channel, b"jobs\none", 8, "0").pieces())


def test_a_worker_takes_no_more_in_one_turn_than_fits(
    connect: Callable[..., Any], store: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.transport.channel.TURN_BYTES", 2_500)
    publish(connect("stock"), *(str(number) * 1_000 for number in range(9)))
    connection = connect("ours")
    channel = connection.default_channel
    hub = Hub()
    connection.transport.register_with_event_loop(connection.connection, hub)
    loop, most = hub.create_loop(), 0

    with heard_by(connection) as heard:
        until = monotonic() + PATIENCE
        while len(heard) < 9:
            assert monotonic() < until
            before = int(store.llen("jobs"))
            next(loop)
            most = max(most, before - int(store.llen("jobs")))
    hub.close()

    assert most == 2
    assert [body[0] for body in heard] == list("012345678")
    assert not channel.unreadable.oldest()


@pytest.mark.parametrize(
    "entry",
    [
        f'[{message(headers=[SECRET])}, "", "jobs"]',
        f'[{message(properties=properties(delivery_info=SECRET))}, "", "jobs"]',
        f'[{message(properties=properties(priority=1e999))}, "", "jobs"]',
        f'[{message()}, ["{SECRET}"], "jobs"]',
        f"no JSON {SECRET}",
    ],
    ids=["headers", "delivery_info", "priority", "exchange", "no JSON"],
)
def test_what_cannot_be_given_back_is_moved_aside_and_not_quoted(
    connect: Callable[..., Any], store: Redis, caplog: pytest.LogCaptureFixture, entry: str
) -> None:
    store.hset("unacked", "tag-1", entry)
    store.zadd("unacked_index", {"tag-1": 1.0})

    connect("ours").default_channel.qos.restore_visible()

    assert not store.exists("unacked", "unacked_index", "jobs")
    assert store.lrange("unreadable", 0, -1) == [b"\n" + entry.encode()]
    assert SECRET not in caplog.text


@pytest.mark.parametrize("broadcast", [f"no JSON {SECRET}", "{}", "[" * 100_000, json.dumps({"properties": SECRET})])
def test_a_broadcast_that_cannot_be_read_is_dropped_and_not_quoted(
    connect: Callable[..., Any], store: Redis, caplog: pytest.LogCaptureFixture, broadcast: str
) -> None:
    connection = connect("ours")
    exchange = Exchange("control", type="fanout")
    inbox = Queue("inbox", exchange, auto_delete=True)
    heard: list[Any] = []
    with Consumer(connection.default_channel, [inbox], no_ack=True, callbacks=[lambda body, _: heard.append(body)]):
        channels = store.pubsub_channels()
        until = monotonic() + PATIENCE
        while not store.publish("/0.control", broadcast):
            assert monotonic() < until, channels
            connection.transport.cycle.on_poll_start()
        sender = connect("stock")
        with sender.Producer() as producer:
            producer.publish("good", exchange=exchange, declare=[inbox(sender.default_channel)])
        drain_until(connection, lambda: bool(heard))
    assert heard == ["good"]
    assert SECRET not in caplog.text
