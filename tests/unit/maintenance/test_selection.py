"""Groups, the one that is kept, and how the rest is cut."""

from dataclasses import replace

import pytest
from support.maintenance_fixture import memory, uid
from support.present import present

from memcore.errors import MemoryConfigError
from memcore.maintenance.consolidation.strategy import ChunkLimits, HighestRelevanceSelector, SummaryCandidate
from memcore.models.memory import MemoryCategory


def members(*numbers: int, tokens: int = 10, **more: object) -> list[SummaryCandidate]:
    return [
        replace(SummaryCandidate.of(memory(n, days_old=100 - n, **more)), tokens=tokens)  # type: ignore[arg-type]  # test's words
        for n in numbers
    ]


def ids(group: tuple[SummaryCandidate, ...]) -> list[int]:
    return [int(member.id.replace("-", ""), 16) for member in group]


def test_without_a_query_the_newest_of_a_group_is_kept() -> None:
    (group,) = HighestRelevanceSelector().select(members(3, 1, 2))

    assert present(group.kept).id == uid(3)
    assert ids(group.members) == [1, 2]


def test_the_most_relevant_is_kept_and_recency_breaks_the_tie() -> None:
    found = members(1, 2, 3, 4)
    found[0], found[1] = replace(found[0], relevance=0.9), replace(found[1], relevance=0.9)

    (group,) = HighestRelevanceSelector().select(found)

    assert present(group.kept).id == uid(2)


def test_groups_below_the_threshold_are_left_alone() -> None:
    two_of_each = members(1, 2, namespace="a") + members(3, 4, namespace="b")
    assert HighestRelevanceSelector(group_threshold=3).select(two_of_each) == ()
    assert len(HighestRelevanceSelector(group_threshold=2).select(two_of_each)) == 2


def test_categories_and_namespaces_are_never_mixed() -> None:
    found = [
        *members(1, 2, 3, category=MemoryCategory.SOCIAL),
        *members(4, 5, 6, category=MemoryCategory.EPISODIC),
        *members(7, 8, 9, category=MemoryCategory.EPISODIC, namespace="work"),
    ]

    groups = HighestRelevanceSelector().select(found)

    assert [ids(group.members) for group in groups] == [[1, 2], [4, 5], [7, 8]]


def test_a_threshold_that_would_merge_a_single_memory_is_refused() -> None:
    with pytest.raises(MemoryConfigError, match="group_threshold is 1; the least is 2"):
        HighestRelevanceSelector(group_threshold=1)


def test_chunks_follow_time_and_hold_at_most_twenty() -> None:
    chunks = list(ChunkLimits().cut(members(*range(1, 46))))

    assert [ids(chunk) for chunk in chunks] == [[*range(1, 21)], [*range(21, 41)], [*range(41, 46)]]


def test_a_chunk_ends_before_its_tokens_are_too_many() -> None:
    chunks = list(ChunkLimits(max_tokens=2000).cut(members(1, 2, 3, 4, 5, tokens=900)))

    assert [ids(chunk) for chunk in chunks] == [[1, 2], [3, 4]]


def test_a_chunk_of_one_is_no_chunk() -> None:
    assert list(ChunkLimits().cut(members(1))) == []
    assert [ids(chunk) for chunk in ChunkLimits().cut(members(*range(1, 22)))] == [[*range(1, 21)]]


def test_a_memory_longer_than_a_summary_may_stand_for_is_never_merged() -> None:
    found = [*members(1, 2), *members(3, tokens=2001), *members(4, 5)]

    assert [ids(chunk) for chunk in ChunkLimits().cut(found)] == [[1, 2], [4, 5]]


def test_no_tag_is_lost_because_a_summary_may_have_only_so_many() -> None:
    found = [member for n in range(1, 5) for member in members(n, tags=[f"{n}-{k}" for k in range(25)])]

    chunks = list(ChunkLimits().cut(found))

    assert [ids(chunk) for chunk in chunks] == [[1, 2], [3, 4]]


@pytest.mark.parametrize(("text", "tokens"), [("a", 1), ("abcd", 1), ("abcde", 2), ("記憶の話", 3)])
def test_tokens_are_estimated_from_bytes(text: str, tokens: int) -> None:
    assert SummaryCandidate.of(memory(1, content=text)).tokens == tokens
