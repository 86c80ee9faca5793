"""The moment between the queue and ``unacked``, where kombu's own transport loses messages."""

from collections.abc import Callable
from typing import Any

import pytest
from kombu.messaging import Consumer
from redis import Redis
from redis.exceptions import ResponseError
from support.cutting_proxy import cutting_proxy
from support.valkey_servers import BrokerAddress, queue_length

from .conftest import QUEUE, drain_for_ever, publish


@pytest.mark.parametrize(("transport", "is_kept"), [("stock", False), ("ours", True)])
def test_a_message_survives_a_connection_cut_after_the_answer_to_the_pop(
    connect: Callable[..., Any], broker: BrokerAddress, store: Redis, transport: str, *, is_kept: bool
) -> None:
    publish(connect("stock"), "needle")

    with cutting_proxy(broker.port) as proxy:
        connection = connect(transport, url=broker.url_at(proxy.port))
        consumer = Consumer(connection.default_channel, [QUEUE], callbacks=[lambda _body, _message: None])
        consumer.consume()
        proxy.cut_at(b"delivery_tag")
        with pytest.raises(connection.connection_errors):
            drain_for_ever(connection)
        assert proxy.has_cut.wait(5)
        connection.collect()

    kept = int(store.llen("jobs")) + int(store.hlen("unacked"))
    assert kept == (1 if is_kept else 0)
    assert store.zcard("unacked_index") == store.hlen("unacked")


def test_a_cut_message_comes_back_after_the_visibility_timeout(
    connect: Callable[..., Any], broker: BrokerAddress, store: Redis
) -> None:
    publish(connect("stock"), "needle")
    with cutting_proxy(broker.port) as proxy:
        connection = connect("ours", url=broker.url_at(proxy.port))
        Consumer(connection.default_channel, [QUEUE], callbacks=[lambda _body, _message: None]).consume()
        proxy.cut_at(b"delivery_tag")
        with pytest.raises(connection.connection_errors):
            connection.drain_events(timeout=60)
        connection.collect()
    (tag,) = store.hkeys("unacked")
    store.zincrby("unacked_index", -61, tag)

    heard: list[tuple[Any, Any]] = []
    healthy = connect("ours", visibility_timeout=60)
    healthy.default_channel.qos.restore_visible()
    with Consumer(healthy.default_channel, [QUEUE], callbacks=[lambda body, message: heard.append((body, message))]):
        healthy.drain_events(timeout=60)

    body, message = heard[0]
    assert body == "needle"
    assert message.headers["redelivered"] is True
    message.ack()
    assert not store.exists("unacked", "unacked_index", "jobs")


def test_a_full_server_still_hands_out_its_messages(connect: Callable[..., Any], store: Redis) -> None:
    publish(connect("stock"), "first", "second")
    connection = connect("ours")
    heard: list[Any] = []

    def take(body: Any, message: Any) -> None:
        heard.append(body)
        message.ack()

    with Consumer(connection.default_channel, [QUEUE], callbacks=[take]):
        store.config_set("maxmemory", "1")
        try:
            for _ in range(2):
                connection.drain_events(timeout=60)
        finally:
            store.config_set("maxmemory", "0")

    assert heard == ["first", "second"]


def test_a_message_that_cannot_be_registered_goes_back_to_its_queue(connect: Callable[..., Any], store: Redis) -> None:
    publish(connect("stock"), "older", "newer")
    # As a full server does: the write after the pop is refused.
    store.set("unacked", "no hash")
    with pytest.raises(ResponseError):
        connect("ours").default_channel.basic_get("jobs")
    store.delete("unacked")
    assert connect("ours").default_channel.basic_get("jobs").payload == "older"
    assert (queue_length(store, "jobs"), store.hlen("unacked")) == (1, 1)
