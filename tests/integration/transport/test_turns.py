"""How messages are read and acknowledgements sent: in groups, fairly, and without waste."""

from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic
from typing import Any

import pytest
from kombu.asynchronous import Hub
from kombu.entity import Queue
from kombu.messaging import Consumer
from redis import Redis
from support.valkey_servers import queue_length

from workers.transport.scripts import SORTED_AT_ONCE

#: Seconds that a condition gets: far more than it needs on a busy machine.
PATIENCE = 60

type_of_loop = Callable[[Any], Callable[[Callable[[], bool]], None]]


def queue(name: str) -> Queue:
    return Queue(name, routing_key=name)


def publish(connection: Any, name: str, *bodies: Any, **options: Any) -> None:
    with connection.Producer() as producer:
        for body in bodies:
            producer.publish(body, routing_key=name, declare=[queue(name)], **options)


@pytest.fixture
def in_loop() -> Iterator[type_of_loop]:
    """Drive a connection by an event loop as Celery's worker does, until a condition holds."""
    hubs: list[Hub] = []

    def enter(connection: Any) -> Callable[[Callable[[], bool]], None]:
        hub = Hub()
        hubs.append(hub)
        assert connection.default_channel
        connection.transport.register_with_event_loop(connection.connection, hub)
        loop = hub.create_loop()

        def run_until(is_done: Callable[[], bool]) -> None:
            until = monotonic() + PATIENCE
            while not is_done():
                assert monotonic() < until
                next(loop)

        return run_until

    yield enter
    for hub in hubs:
        hub.close()


def acking(heard: list[Any]) -> Callable[[Any, Any], None]:
    """Return a callback that notes each body in ``heard`` and acknowledges its message."""

    def take(body: Any, message: Any) -> None:
        heard.append(body)
        message.ack()

    return take


def holds(heard: list[Any], number: int) -> bool:
    return len(heard) == number


def are_waiters_started(connection: Any) -> bool:
    waiters = connection.default_channel._waiters
    return bool(waiters) and all(waiter.wait_started_at is not None for waiter in waiters.values())


def calls(store: Redis, command: str) -> int:
    statistics: Any = store.info("commandstats")
    return int(statistics.get(f"cmdstat_{command}", {"calls": 0})["calls"])


@pytest.mark.parametrize(("transport", "is_grouped"), [("stock", False), ("ours", True)])
def test_a_hundred_messages_cost_few_conversations_and_no_new_client(
    connect: Callable[..., Any], store: Redis, in_loop: type_of_loop, transport: str, *, is_grouped: bool
) -> None:
    publish(connect("stock"), "jobs", *range(100))
    connection = connect(transport)
    channel = connection.default_channel
    channel.basic_qos(prefetch_count=50)
    built: list[None] = []
    build = channel.Client

    def count(**arguments: Any) -> Any:
        built.append(None)
        return build(**arguments)

    channel.Client = count
    heard: list[Any] = []
    run_until = in_loop(connection)
    store.config_resetstat()
    with Consumer(channel, [queue("jobs")], callbacks=[acking(heard)]):
        run_until(lambda: len(heard) == 100 and not store.hlen("unacked"))

    conversations = calls(store, "brpop") + calls(store, "multi") + calls(store, "eval") + calls(store, "evalsha")
    assert heard == list(range(100))
    # one each for a hundred would be two hundred; a busy machine cuts the groups smaller
    assert (conversations < 40) is is_grouped
    assert (len(built) == 0) is is_grouped


def test_a_lone_acknowledgement_is_told_soon_although_nothing_else_happens(
    connect: Callable[..., Any], store: Redis, in_loop: type_of_loop
) -> None:
    publisher, connection = connect("stock"), connect("ours")
    messages: list[Any] = []
    waits: list[float] = []
    run_until = in_loop(connection)
    with Consumer(connection.default_channel, [queue("jobs")], callbacks=[lambda _, message: messages.append(message)]):
        for number in range(1, 6):
            publish(publisher, "jobs", number)
            run_until(partial(holds, messages, number))
            run_until(lambda: are_waiters_started(connection))
            messages[-1].ack()
            started = monotonic()
            run_until(lambda: not store.exists("unacked"))
            waits.append(monotonic() - started)

    # the best of five, so that a busy machine makes no difference: waiting for the queue waiter would take a second
    # each time
    assert min(waits) < 0.5


def test_a_full_prefetch_window_is_never_exceeded_and_acknowledgements_still_flow(
    connect: Callable[..., Any], store: Redis, in_loop: type_of_loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The event loop runs between any two deliveries, while messages of the last turn wait for theirs.
    monkeypatch.setattr("workers.transport.channel.SLICE_SECONDS", 0)
    publish(connect("stock"), "jobs", *range(10))
    connection = connect("ours")
    connection.default_channel.basic_qos(prefetch_count=3)
    messages: list[Any] = []
    run_until = in_loop(connection)
    with Consumer(connection.default_channel, [queue("jobs")], callbacks=[lambda _, message: messages.append(message)]):
        run_until(lambda: len(messages) == 3)
        assert store.hlen("unacked") == 3

        messages[0].ack()
        run_until(lambda: len(messages) == 4)
        assert store.hlen("unacked") == 3

        connection.default_channel.basic_qos(prefetch_count=1)
        messages[1].ack()
        run_until(lambda: store.hlen("unacked") == 2)

        assert len(messages) == 4


def test_queues_take_turns_whatever_their_length(
    connect: Callable[..., Any], store: Redis, in_loop: type_of_loop
) -> None:
    publish(connect("stock"), "bulk", *["bulk"] * 40)
    publish(connect("stock"), "small", *["small"] * 3)
    connection = connect("ours")
    connection.default_channel.basic_qos(prefetch_count=8)
    heard: list[Any] = []
    run_until = in_loop(connection)
    with Consumer(connection.default_channel, [queue("bulk"), queue("small")], callbacks=[acking(heard)]):
        run_until(lambda: heard.count("small") == 3)

    assert len(heard) <= 8
    assert not store.exists("small")


@pytest.mark.parametrize("loud", [500, 3_000])
def test_companies_and_the_agents_of_each_take_turns_however_many_messages_one_has(
    connect: Callable[..., Any], store: Redis, in_loop: type_of_loop, loud: int
) -> None:
    publisher = connect("stock")
    for body, owner in [("loud", "a1/1")] * loud + [("its neighbour", "a1/2"), ("quiet", "b2/1"), ("old client", "")]:
        publish(publisher, "jobs", body, headers={"owner": owner} if owner else {})
    connection = connect("ours")
    connection.default_channel.basic_qos(prefetch_count=8)
    heard: list[Any] = []
    run_until = in_loop(connection)
    with Consumer(connection.default_channel, [queue("jobs")], callbacks=[acking(heard)]):
        run_until(lambda: {"its neighbour", "quiet", "old client"} <= set(heard))
        first = list(heard)
        run_until(lambda: len(heard) == loud + 3 and not store.exists("unacked"))

    # One of each owner in turn, as soon as they are sorted: of the longer list that takes three turns of eight.
    assert max(map(first.index, ("its neighbour", "quiet", "old client"))) < 8 * (1 + loud // SORTED_AT_ONCE)
    assert sorted(heard) == sorted(["loud"] * loud + ["its neighbour", "quiet", "old client"])
    assert not store.exists("jobs", "jobs:owners", "jobs:sorted")


def test_a_message_that_comes_while_others_are_sorted_waits_for_one_round(
    connect: Callable[..., Any], store: Redis
) -> None:
    publisher, channel = connect("stock"), connect("ours").default_channel
    publish(publisher, "jobs", *range(200), headers={"owner": "a1/1"})
    assert channel.basic_get("jobs").payload == 0
    publish(publisher, "jobs", "late", headers={"owner": "b2/1"})

    assert queue_length(store, "jobs") == channel.queue_declare("jobs", passive=True).message_count == 200
    assert [channel.basic_get("jobs").payload for _ in range(3)] == [1, "late", 2]
    assert queue_length(store, "jobs") == 197


def test_sorted_messages_are_purged_with_their_queue(connect: Callable[..., Any], store: Redis) -> None:
    channel = connect("ours").default_channel
    publish(connect("stock"), "jobs", *range(3), headers={"owner": "a1/1"})
    channel.basic_get("jobs").ack()

    assert channel.queue_purge("jobs") == 2
    assert not store.exists("jobs", "jobs:owners", "jobs:owners:a1", "jobs:owners:a1:1", "jobs:sorted")


def test_a_limited_queue_leaves_the_other_slots_free_and_spins_no_wheel_while_it_waits(
    connect: Callable[..., Any], store: Redis, in_loop: type_of_loop
) -> None:
    publisher = connect("stock")
    publish(publisher, "bulk", *["bulk"] * 40)
    publish(publisher, "small", "first")
    connection = connect("ours", queue_limits={"bulk": 2})
    connection.default_channel.basic_qos(prefetch_count=8)
    heard: list[Any] = []
    run_until = in_loop(connection)
    with Consumer(
        connection.default_channel,
        [queue("bulk"), queue("small")],
        callbacks=[lambda _, message: heard.append(message)],
    ):
        run_until(lambda: len(heard) == 3)
        assert sorted(message.payload for message in heard) == ["bulk", "bulk", "first"]

        store.config_resetstat()
        publish(publisher, "small", *["later"] * 5)
        run_until(lambda: len(heard) == 8)
        assert [message.payload for message in heard[3:]] == ["later"] * 5
        assert calls(store, "eval") + calls(store, "evalsha") < 50
        assert queue_length(store, "bulk") == 38

        next(message for message in heard if message.payload == "bulk").ack()
        run_until(lambda: len(heard) == 9)
        assert heard[-1].payload == "bulk"
        for message in heard[3:]:
            message.reject()
        run_until(lambda: queue_length(store, "bulk") == 36)
    assert store.hlen("unacked") == 3


def test_an_idle_consumer_hears_every_queue_at_once_and_priorities_within_a_second(
    connect: Callable[..., Any], in_loop: type_of_loop
) -> None:
    publisher, connection = connect("stock"), connect("ours")
    heard: list[Any] = []
    waits: list[float] = []
    run_until = in_loop(connection)
    with Consumer(
        connection.default_channel,
        [queue("a"), queue("b")],
        no_ack=True,
        callbacks=[lambda body, _: heard.append(body)],
    ):
        run_until(lambda: are_waiters_started(connection))
        for count, name in enumerate(("a", "b", "a"), start=1):
            started = monotonic()
            publish(publisher, name, name)
            run_until(partial(holds, heard, count))
            waits.append(monotonic() - started)
        # the best of three, so that a busy machine makes no difference
        assert min(waits) < 0.5
        publish(publisher, "a", "urgent", priority=9)
        run_until(lambda: heard[-1] == "urgent")

    assert heard == ["a", "b", "a", "urgent"]


def test_messages_consumed_without_acknowledgement_are_not_registered(
    connect: Callable[..., Any], store: Redis
) -> None:
    publish(connect("stock"), "jobs", "fire and forget")
    connection = connect("ours")
    heard: list[Any] = []
    with Consumer(
        connection.default_channel, [queue("jobs")], no_ack=True, callbacks=[lambda body, _: heard.append(body)]
    ):
        connection.drain_events(timeout=PATIENCE)

    assert heard == ["fire and forget"]
    assert not store.exists("unacked", "unacked_index", "jobs")


@pytest.mark.parametrize("reader", ["stock", "ours"])
def test_a_key_prefix_is_kept_everywhere(connect: Callable[..., Any], store: Redis, reader: str) -> None:
    connection = connect(reader, global_keyprefix="tenant.")
    publish(connection, "jobs", "one")
    messages: list[Any] = []
    with Consumer(connection.default_channel, [queue("jobs")], callbacks=[lambda _, message: messages.append(message)]):
        connection.drain_events(timeout=PATIENCE)
    holders = [b"tenant.unacked_index:holders"] if reader == "ours" else []
    assert sorted(store.keys("*")) == [b"tenant.unacked", b"tenant.unacked_index", *holders]

    messages[0].ack()

    assert store.keys("*") == []


def test_a_single_message_can_be_fetched_and_acknowledged(connect: Callable[..., Any], store: Redis) -> None:
    connection = connect("ours")
    publish(connection, "jobs", "one")

    message: Any = queue("jobs")(connection.default_channel).get()

    assert store.hlen("unacked") == 1
    message.ack()
    assert not store.exists("unacked", "unacked_index", "jobs")
    assert queue("jobs")(connection.default_channel).get() is None


def test_scripts_forgotten_by_the_server_are_sent_again(
    connect: Callable[..., Any], store: Redis, in_loop: type_of_loop
) -> None:
    connection = connect("ours")
    heard: list[Any] = []
    run_until = in_loop(connection)
    with Consumer(
        connection.default_channel, [queue("jobs")], no_ack=True, callbacks=[lambda body, _: heard.append(body)]
    ):
        for body in ("before", "after"):
            publish(connect("stock"), "jobs", body)
            run_until(partial(holds, heard, len(heard) + 1))
            store.script_flush()

    assert heard == ["before", "after"]
