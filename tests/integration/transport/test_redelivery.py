"""What comes back, when, and that both transports read each other's keys."""

from collections.abc import Callable
from typing import Any

import pytest
from kombu.entity import Queue
from kombu.messaging import Consumer
from redis import Redis

QUEUE = Queue("jobs", routing_key="jobs")


def publish(connection: Any, body: str) -> None:
    with connection.Producer() as producer:
        producer.publish(body, routing_key="jobs", declare=[QUEUE])


def take(connection: Any) -> Any:
    messages: list[Any] = []
    with Consumer(connection.default_channel, [QUEUE], callbacks=[lambda _body, message: messages.append(message)]):
        while not messages:
            connection.drain_events(timeout=60)
    return messages[0]


def make_overdue(store: Redis) -> None:
    for tag in store.hkeys("unacked"):
        store.zincrby("unacked_index", -3601, tag)


@pytest.mark.parametrize(("transport", "returns"), [("stock", False), ("ours", True)])
def test_a_worker_killed_while_it_restored_does_not_stop_redelivery(
    connect: Callable[..., Any], store: Redis, transport: str, *, returns: bool
) -> None:
    publish(connect("stock"), "held by a dead worker")
    dead = connect("stock")
    take(dead)
    make_overdue(store)
    # kombu's mutex as that worker left it behind: kombu's own name, kombu's own five minutes.
    store.set("unacked_mutex", "token of the dead", ex=dead.default_channel.unacked_mutex_expire)

    connect(transport).default_channel.qos.restore_visible()

    assert store.llen("jobs") == (1 if returns else 0)


@pytest.mark.parametrize(("holder", "rescuer"), [("stock", "ours"), ("ours", "stock")])
def test_each_transport_redelivers_what_the_other_left_behind(
    connect: Callable[..., Any], store: Redis, holder: str, rescuer: str
) -> None:
    publish(connect(rescuer), "held")
    take(connect(holder))
    make_overdue(store)

    connection = connect(rescuer)
    connection.default_channel.qos.restore_visible()
    message = take(connection)

    assert message.payload == "held"
    message.ack()
    assert not store.exists("unacked", "unacked_index", "jobs")


def test_a_living_worker_keeps_its_message_however_long_the_job_takes(
    connect: Callable[..., Any], store: Redis
) -> None:
    publish(connect("stock"), "long")
    worker = connect("ours")
    take(worker)
    make_overdue(store)

    worker.default_channel.qos.renew()
    connect("ours").default_channel.qos.restore_visible()

    assert store.llen("jobs") == 0
    assert store.hlen("unacked") == 1


def test_renewing_brings_nothing_back_that_was_acknowledged(connect: Callable[..., Any], store: Redis) -> None:
    publish(connect("stock"), "done")
    worker = connect("ours")
    take(worker).ack()

    worker.default_channel.qos.renew()

    assert not store.exists("unacked", "unacked_index")


def test_acknowledging_twice_does_no_harm(connect: Callable[..., Any], store: Redis) -> None:
    publish(connect("stock"), "done")
    worker = connect("ours")
    message = take(worker)

    message.ack()
    worker.default_channel.qos.ack(message.delivery_tag)

    assert not store.exists("unacked", "unacked_index", "jobs")


def test_a_message_without_a_destination_stays_unacknowledged_instead_of_vanishing(
    connect: Callable[..., Any], store: Redis
) -> None:
    bound = Queue("bound", exchange="gone", routing_key="bound")
    publisher = connect("ours")
    with publisher.Producer() as producer:
        producer.publish("lonely", exchange="gone", routing_key="bound", declare=[bound])
    worker = connect("ours")
    assert bound(worker.default_channel).get() is not None
    store.delete("_kombu.binding.gone")
    make_overdue(store)

    connect("ours").default_channel.qos.restore_visible()

    assert store.hlen("unacked") == store.zcard("unacked_index") == 1


def test_an_index_row_without_its_message_is_swept_away(connect: Callable[..., Any], store: Redis) -> None:
    store.zadd("unacked_index", {"nothing behind me": 1.0})

    connect("ours").default_channel.qos.restore_visible()

    assert not store.exists("unacked_index")


def test_a_rejected_message_goes_back_to_its_queue(connect: Callable[..., Any], store: Redis) -> None:
    publish(connect("stock"), "not now")
    take(connect("ours")).reject(requeue=True)

    assert store.llen("jobs") == 1
    assert not store.exists("unacked", "unacked_index")
