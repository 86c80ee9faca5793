from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.write_batcher import FairQueues, PendingWrite, QueueClass


def pending_write(owner: str, count: int = 1, number: int = 0) -> PendingWrite:
    """Return memories of one owner; their size tells one from another."""
    item: Any = SimpleNamespace(agent_id=owner)
    return PendingWrite([item] * count, number)


def served(fair_queues: FairQueues, *, batches: int, size: int) -> list[tuple[QueueClass, list[PendingWrite]]]:
    """Take batches as the batch writer does: of one queue, until they are full or the queue is empty."""
    taken: list[tuple[QueueClass, list[PendingWrite]]] = []
    for _ in range(batches):
        queue_class = fair_queues.next_class()
        if queue_class is None:
            break
        batch: list[PendingWrite] = []
        while sum(pending.count for pending in batch) < size and (pending := fair_queues.take(queue_class)) is not None:
            batch.append(pending)
        taken.append((queue_class, batch))
    return taken


def test_pending_writes_are_dealt_one_an_owner_and_each_owners_in_order() -> None:
    fair_queues = FairQueues()
    for number in range(4):
        fair_queues.enqueue(pending_write("loud", number=number), "engine")
    fair_queues.enqueue(pending_write("quiet"), "engine")
    fair_queues.enqueue(pending_write("calm"), "engine")
    ((queue_class, batch),) = served(fair_queues, batches=9, size=9)
    assert queue_class == "engine"
    assert [pending.owner for pending in batch] == ["loud", "quiet", "calm", "loud", "loud", "loud"]
    assert [pending.size for pending in batch if pending.owner == "loud"] == [0, 1, 2, 3]
    assert fair_queues.next_class() is None


def test_an_owner_who_comes_late_waits_one_round_not_one_backlog() -> None:
    fair_queues = FairQueues()
    for number in range(1_000):
        fair_queues.enqueue(pending_write("loud", number=number), "engine")
    fair_queues.take("engine")
    fair_queues.enqueue(pending_write("late"), "engine")
    assert [pending.owner for _, batch in served(fair_queues, batches=1, size=2) for pending in batch] == [
        "loud",
        "late",
    ]


def test_engines_go_before_a_bulk_load_and_never_in_one_batch_with_it() -> None:
    fair_queues = FairQueues()
    for _ in range(3):
        fair_queues.enqueue(pending_write("import", count=256), "bulk")
    fair_queues.enqueue(pending_write("ada"), "engine")
    assert [(queue_class, len(batch)) for queue_class, batch in served(fair_queues, batches=9, size=256)] == [
        ("engine", 1),
        ("bulk", 1),
        ("bulk", 1),
        ("bulk", 1),
    ]


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
@pytest.mark.parametrize("batch", [1, 16, 256])
def test_a_bulk_load_keeps_its_share_however_busy_the_engines_are(share: float, batch: int) -> None:
    fair_queues = FairQueues(bulk_share=share)
    written: Counter[QueueClass] = Counter()
    longest = waiting = laid = 0
    while written.total() < 10_000:
        while laid * 64 < written["bulk"] + 1_024:
            fair_queues.enqueue(pending_write("import", count=64), "bulk")
            laid += 1
        for number in range(batch):
            fair_queues.enqueue(pending_write(f"agent-{number}"), "engine")
        ((queue_class, pending_writes),) = served(fair_queues, batches=1, size=batch)
        written[queue_class] += sum(pending.count for pending in pending_writes)
        waiting = 0 if queue_class == "bulk" else waiting + sum(pending.count for pending in pending_writes)
        longest = max(longest, waiting)
    assert written["bulk"] / written.total() == pytest.approx(share, abs=0.02)
    assert longest <= max(64, batch) * (1 - share) / share + batch


def test_credit_is_earned_only_while_both_wait() -> None:
    fair_queues = FairQueues()
    for _ in range(2_000):
        fair_queues.enqueue(pending_write("ada"), "engine")
    served(fair_queues, batches=1, size=2_000)
    fair_queues.enqueue(pending_write("import", count=40), "bulk")
    fair_queues.enqueue(pending_write("ada"), "engine")
    assert [queue_class for queue_class, _ in served(fair_queues, batches=2, size=256)] == ["engine", "bulk"]


@given(
    pending_writes=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 300), st.booleans()), max_size=60),
    size=st.integers(1, 300),
)
def test_every_pending_write_is_taken_once(pending_writes: list[tuple[str, int, bool]], size: int) -> None:
    fair_queues = FairQueues()
    laid = [
        (pending_write(owner, count, number), is_bulk) for number, (owner, count, is_bulk) in enumerate(pending_writes)
    ]
    for pending, is_bulk in laid:
        fair_queues.enqueue(pending, "bulk" if is_bulk else "engine")
    taken = [
        (pending, queue_class == "bulk")
        for queue_class, batch in served(fair_queues, batches=1_000, size=size)
        for pending in batch
    ]
    assert sorted(taken, key=lambda each: each[0].size) == laid
    assert not fair_queues
