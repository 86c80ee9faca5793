from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.write_batcher import LaneName, Lanes


@dataclass(frozen=True)
class Slip:
    owner: str
    count: int = 1
    number: int = 0


def served(lanes: Lanes[Slip], *, batches: int, size: int) -> list[tuple[LaneName, list[Slip]]]:
    """Take batches as the desk does: of one lane, until they are full or the lane is empty."""
    taken: list[tuple[LaneName, list[Slip]]] = []
    for _ in range(batches):
        lane = lanes.next_lane()
        if lane is None:
            break
        batch: list[Slip] = []
        while sum(slip.count for slip in batch) < size and (slip := lanes.take(lane)) is not None:
            batch.append(slip)
        taken.append((lane, batch))
    return taken


def test_slips_are_dealt_one_an_owner_and_each_owners_in_order() -> None:
    lanes: Lanes[Slip] = Lanes()
    for number in range(4):
        lanes.lay(Slip("loud", number=number), "engine")
    lanes.lay(Slip("quiet"), "engine")
    lanes.lay(Slip("calm"), "engine")
    ((lane, batch),) = served(lanes, batches=9, size=9)
    assert lane == "engine"
    assert [slip.owner for slip in batch] == ["loud", "quiet", "calm", "loud", "loud", "loud"]
    assert [slip.number for slip in batch if slip.owner == "loud"] == [0, 1, 2, 3]
    assert lanes.next_lane() is None


def test_an_owner_who_comes_late_waits_one_round_not_one_backlog() -> None:
    lanes: Lanes[Slip] = Lanes()
    for number in range(1_000):
        lanes.lay(Slip("loud", number=number), "engine")
    lanes.take("engine")
    lanes.lay(Slip("late"), "engine")
    assert [slip.owner for _, batch in served(lanes, batches=1, size=2) for slip in batch] == ["loud", "late"]


def test_engines_go_before_a_bulk_load_and_never_in_one_batch_with_it() -> None:
    lanes: Lanes[Slip] = Lanes()
    for _ in range(3):
        lanes.lay(Slip("import", count=256), "bulk")
    lanes.lay(Slip("ada"), "engine")
    assert [(lane, len(batch)) for lane, batch in served(lanes, batches=9, size=256)] == [
        ("engine", 1),
        ("bulk", 1),
        ("bulk", 1),
        ("bulk", 1),
    ]


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
@pytest.mark.parametrize("batch", [1, 16, 256])
def test_a_bulk_load_keeps_its_share_however_busy_the_engines_are(share: float, batch: int) -> None:
    lanes: Lanes[Slip] = Lanes(bulk_share=share)
    written: Counter[LaneName] = Counter()
    longest = waiting = laid = 0
    while written.total() < 50_000:
        while laid * 64 < written["bulk"] + 1_024:
            lanes.lay(Slip("import", count=64), "bulk")
            laid += 1
        for number in range(batch):
            lanes.lay(Slip(f"agent-{number}"), "engine")
        ((lane, slips),) = served(lanes, batches=1, size=batch)
        written[lane] += sum(slip.count for slip in slips)
        waiting = 0 if lane == "bulk" else waiting + sum(slip.count for slip in slips)
        longest = max(longest, waiting)
    assert written["bulk"] / written.total() == pytest.approx(share, abs=0.02)
    assert longest <= max(64, batch) * (1 - share) / share + batch


def test_credit_is_earned_only_while_both_wait() -> None:
    lanes: Lanes[Slip] = Lanes()
    for _ in range(10_000):
        lanes.lay(Slip("ada"), "engine")
    served(lanes, batches=1, size=10_000)
    lanes.lay(Slip("import", count=40), "bulk")
    lanes.lay(Slip("ada"), "engine")
    assert [lane for lane, _ in served(lanes, batches=2, size=256)] == ["engine", "bulk"]


@given(
    slips=st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 300), st.booleans()), max_size=60),
    size=st.integers(1, 300),
)
def test_every_slip_is_taken_once(slips: list[tuple[str, int, bool]], size: int) -> None:
    lanes: Lanes[Slip] = Lanes()
    laid = [(Slip(owner, count, number), is_bulk) for number, (owner, count, is_bulk) in enumerate(slips)]
    for slip, is_bulk in laid:
        lanes.lay(slip, "bulk" if is_bulk else "engine")
    taken = [(slip, lane == "bulk") for lane, batch in served(lanes, batches=1_000, size=size) for slip in batch]
    assert sorted(taken, key=lambda each: each[0].number) == laid
    assert not lanes
