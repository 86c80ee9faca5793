"""Closing: with a dead broker, with jobs still running, and in order."""

from collections.abc import Callable
from typing import Any

import pytest
from kombu.asynchronous import Hub
from kombu.entity import Exchange, Queue
from kombu.messaging import Consumer
from redis import Redis
from support.cutting_proxy import cutting_proxy
from support.valkey_servers import BrokerAddress

from .conftest import QUEUE, drain_for_ever, publish


def take_without_ack(connection: Any, number: int) -> list[Any]:
    messages: list[Any] = []
    consumer = Consumer(
        connection.default_channel, [QUEUE], callbacks=[lambda _body, message: messages.append(message)]
    )
    consumer.consume()
    while len(messages) < number:
        connection.drain_events(timeout=60)
    return messages


@pytest.mark.parametrize("transport", ["stock", "ours"])
def test_a_connection_closes_although_the_broker_died_with_messages_unacknowledged(
    connect: Callable[..., Any], broker: BrokerAddress, transport: str
) -> None:
    publish(connect("ours"), "held")
    connection = connect(transport)
    assert connection.default_channel
    # Celery's worker has this second channel: remote control, with a queue that closing deletes.
    control = connection.channel()
    inbox = Queue("control", Exchange("control", type="fanout"), auto_delete=True)
    Consumer(control, [inbox], no_ack=True, callbacks=[lambda _body, _message: None]).consume()
    take_without_ack(connection, 1)
    connection.transport.cycle.on_poll_start()  # a pop is under way when the broker dies
    broker.kill()

    try:
        connection.collect()  # the two calls that Celery makes after a lost connection
    except connection.connection_errors:
        pytest.fail("collect must not raise")

    if transport == "stock":
        with pytest.raises(AttributeError, match="hostname"):
            connection.close()
    else:
        connection.close()


def test_a_deliberate_close_gives_messages_back_in_their_order(connect: Callable[..., Any], store: Redis) -> None:
    publish(connect("stock"), "one", "two", "three")
    connection = connect("ours")
    take_without_ack(connection, 2)

    connection.close()

    assert not store.exists("unacked", "unacked_index")
    heard: list[Any] = []
    other = connect("stock")
    with Consumer(other.default_channel, [QUEUE], callbacks=[lambda body, _: heard.append(body)]):
        for _ in range(3):
            other.drain_events(timeout=60)
    assert heard == ["one", "two", "three"]


@pytest.mark.parametrize(("transport", "runs_again"), [("stock", True), ("ours", False)])
def test_a_job_that_outlives_its_connection_is_acknowledged_and_does_not_run_again(
    connect: Callable[..., Any], broker: BrokerAddress, store: Redis, transport: str, *, runs_again: bool
) -> None:
    publish(connect("stock"), "long job")
    with cutting_proxy(broker.port) as proxy:
        connection = connect(transport, url=broker.url_at(proxy.port))
        (message,) = take_without_ack(connection, 1)
        proxy.cut_now()
        with pytest.raises(connection.connection_errors):
            drain_for_ever(connection)
        connection.collect()

        try:
            message.ack()
        except (AttributeError, *connection.connection_errors):
            assert transport == "stock"

    left = int(store.llen("jobs")) + int(store.hlen("unacked"))
    assert left == (1 if runs_again else 0)


def test_a_consumer_cancelled_with_a_pop_under_way_leaves_the_messages_to_others(
    connect: Callable[..., Any], store: Redis
) -> None:
    connection = connect("ours")
    channel = connection.default_channel
    hub = Hub()
    connection.transport.register_with_event_loop(connection.connection, hub)
    channel.basic_qos(prefetch_count=10)
    consumer = Consumer(channel, [QUEUE], callbacks=[lambda _body, _message: pytest.fail("cancelled")])
    consumer.consume()
    publish(connect("stock"), "one", "two", "three")
    connection.transport.cycle.on_poll_start()

    consumer.cancel()

    assert store.llen("jobs") == 3
    assert not store.exists("unacked", "unacked_index")
    hub.close()


def test_acknowledgements_held_for_the_next_turn_go_out_when_the_channel_closes(
    connect: Callable[..., Any], store: Redis
) -> None:
    publish(connect("stock"), "done")
    connection = connect("ours")
    (message,) = take_without_ack(connection, 1)
    connection.transport.in_event_loop = True  # from here on a next turn is promised, and never comes

    message.ack()
    assert store.hlen("unacked") == 1
    connection.close()

    assert not store.exists("unacked", "unacked_index", "jobs")
