"""Where a group is cut."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from support.maintenance_fixture import START, memory

from memcore.maintenance.consolidation.strategy import ChunkLimits, SummaryCandidate


def members(hours: Sequence[float], *, tokens: Sequence[int] = ()) -> list[SummaryCandidate]:
    return [
        replace(
            SummaryCandidate.of(memory(n, content=f"memory {n}")),
            created_at=START + timedelta(hours=hour),
            tokens=tokens[n] if tokens else 10,
        )
        for n, hour in enumerate(hours)
    ]


def test_a_full_part_ends_at_the_longest_pause_of_its_second_half() -> None:
    hours = [0, 1, 50, 51, 52, 60, 61, 62, 90]

    parts = list(ChunkLimits(max_entries=6).cut(members(hours)))

    assert [len(part) for part in parts] == [5, 4]


def test_of_equal_pauses_the_last_makes_the_part_as_large_as_it_may_be() -> None:
    assert [len(part) for part in ChunkLimits(max_entries=6).cut(members(range(12)))] == [6, 6]


def test_a_part_aims_at_the_target_and_long_ones_still_find_a_partner() -> None:
    limits = ChunkLimits(max_tokens=1000, target_tokens=300)

    short = list(limits.cut(members(range(9), tokens=[100] * 9)))
    long = list(limits.cut(members(range(4), tokens=[450] * 4)))

    assert [len(part) for part in short] == [3, 3, 3]
    assert [len(part) for part in long] == [2, 2]


@given(
    st.lists(st.tuples(st.floats(0.0, 1000.0), st.integers(1, 1200)), max_size=60),
    st.integers(2, 9),
    st.sampled_from([None, 300]),
)
def test_parts_are_neighbours_within_the_limits_and_no_member_stands_in_two(
    timed: list[tuple[float, int]], most: int, target: int | None
) -> None:
    found = members(sorted(hour for hour, _ in timed), tokens=[tokens for _, tokens in timed])

    parts = list(ChunkLimits(max_entries=most, max_tokens=1000, target_tokens=target).cut(found))

    places = [found.index(member) for part in parts for member in part]
    assert places == sorted(set(places))
    for part in parts:
        assert 2 <= len(part) <= most
        assert found.index(part[-1]) - found.index(part[0]) == len(part) - 1
        assert sum(member.tokens for member in part) <= 1000
        assert target is None or len(part) == 2 or sum(member.tokens for member in part) <= target
