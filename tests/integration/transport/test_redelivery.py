"""What comes back, when, and that both transports read each other's keys."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kombu.entity import Queue
from kombu.messaging import Consumer
from kombu.utils.encoding import bytes_to_str
from redis import Redis

from workers.transport.holder import holder_of

from .conftest import QUEUE, publish


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


@contextmanager
def other_process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        try:
            yield process
        finally:
            process.kill()


def take_as(connect: Callable[..., Any], process: subprocess.Popen[bytes]) -> Any:
    """Take a message as that process would: the channel bears its name."""
    worker = connect("ours")
    worker.default_channel._holder = holder_of(process.pid)
    return take(worker)


def test_a_killed_workers_message_goes_back_at_once(connect: Callable[..., Any], store: Redis) -> None:
    publish(connect("stock"), "held")
    with other_process() as worker:
        take_as(connect, worker)
        worker.kill()
        # Not reaped: as a container's first process leaves its children.
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        connection = connect("ours")
        connection.default_channel.qos.restore_visible()

    assert store.llen("jobs") == 1
    assert not store.exists("unacked", "unacked_index", "unacked_index:holders")
    message = take(connection)
    assert message.payload == "held"
    assert message.delivery_info["redelivered"]
    message.ack()
    assert not store.exists("unacked", "unacked_index", "unacked_index:holders", "jobs")


def test_two_successors_give_a_message_back_once(connect: Callable[..., Any], store: Redis) -> None:
    publish(connect("stock"), "held")
    first, second = connect("ours").default_channel.qos, connect("ours").default_channel.qos
    with other_process() as worker:
        take_as(connect, worker)
        name = holder_of(worker.pid)
    (tag,), (entry,) = store.hkeys("unacked"), store.hvals("unacked")

    # Both have read who holds it before either moves it.
    for qos in (first, second):
        qos._restore(bytes_to_str(tag), entry, idle_seconds=-1, leftmost=False, holder=name)

    assert store.llen("jobs") == 1


def test_a_message_that_another_worker_has_taken_since_stays_with_it(connect: Callable[..., Any], store: Redis) -> None:
    publish(connect("stock"), "held")
    with other_process() as worker:
        take_as(connect, worker)
        name = holder_of(worker.pid)
    (entry,) = store.hvals("unacked")
    successor = connect("ours")
    successor.default_channel.qos.restore_visible()
    message = take(successor)

    connect("ours").default_channel.qos._restore(
        message.delivery_tag, entry, idle_seconds=-1, leftmost=False, holder=name
    )

    assert store.llen("jobs") == 0
    assert store.hlen("unacked") == 1


@pytest.mark.parametrize("number", [0, signal.SIGSTOP], ids=["running", "stopped"])
def test_a_living_workers_message_stays_with_it(connect: Callable[..., Any], store: Redis, number: int) -> None:
    publish(connect("stock"), "held")
    with other_process() as worker:
        take_as(connect, worker)
        worker.send_signal(number)
        connect("ours").default_channel.qos.restore_visible()

    assert store.llen("jobs") == 0
    assert store.hlen("unacked") == store.hlen("unacked_index:holders") == 1


def test_of_a_worker_elsewhere_the_visibility_timeout_decides(connect: Callable[..., Any], store: Redis) -> None:
    publish(connect("stock"), "held")
    worker = connect("ours")
    place, _, process = holder_of(os.getpid()).partition(":")
    worker.default_channel._holder = f"{place[::-1]}:{process}9"
    take(worker)
    qos = connect("ours").default_channel.qos

    qos.restore_visible()
    assert store.llen("jobs") == 0
    make_overdue(store)
    qos.restore_visible()

    assert store.llen("jobs") == 1
    assert not store.exists("unacked_index:holders")


def test_the_name_of_a_message_that_is_gone_is_dropped(connect: Callable[..., Any], store: Redis) -> None:
    store.hset("unacked_index:holders", "acknowledged by an earlier release", holder_of(os.getpid()))

    connect("ours").default_channel.qos.restore_visible()

    assert not store.exists("unacked_index:holders")
