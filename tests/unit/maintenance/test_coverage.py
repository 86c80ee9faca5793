"""The choice of sentences within a budget."""

from hypothesis import given
from hypothesis import strategies as st

from memcore.maintenance.consolidation.condense import SentenceCandidate, cover


def candidate(terms: str, *, cost: int = 10, **frames: int) -> SentenceCandidate:
    return SentenceCandidate(terms=frozenset(terms), cost=cost, frames=frames)


def evenly(_: str) -> float:
    return 1.0


def test_what_says_most_for_its_bytes_is_chosen_and_the_order_stays() -> None:
    assert cover([candidate("a"), candidate("abc"), candidate("xy")], budget=20, rarity=evenly) == [1, 2]


def test_what_another_has_said_counts_no_more() -> None:
    assert cover([candidate("abcd"), candidate("abc"), candidate("x")], budget=20, rarity=evenly) == [0, 2]


def test_a_repetition_is_left_out_even_within_the_budget() -> None:
    assert cover([candidate("abc"), candidate("ab"), candidate("")], budget=100, rarity=evenly) == [0]


def test_a_rare_word_is_worth_more_than_two_common_ones() -> None:
    rarity = {"a": 1.0, "b": 1.0, "z": 5.0}.__getitem__

    assert cover([candidate("ab"), candidate("z")], budget=10, rarity=rarity) == [1]


def test_a_frame_takes_bytes_once_for_all_that_share_it() -> None:
    shared = [candidate("a", line=30), candidate("b", line=30), candidate("c", other=30)]

    assert cover(shared, budget=50, rarity=evenly) == [0, 1]


def test_one_that_is_too_long_is_better_than_nothing_but_not_than_a_shorter_one() -> None:
    assert cover([candidate("abc", cost=90), candidate("abcd", cost=90)], budget=50, rarity=evenly) == [1]
    assert cover([candidate("abc", cost=90), candidate("a", cost=50)], budget=50, rarity=evenly) == [1]
    assert cover([], budget=50, rarity=evenly) == []


@given(
    st.lists(st.tuples(st.text("abcdef", max_size=5), st.integers(1, 30), st.integers(0, 3)), max_size=12),
    st.integers(0, 120),
)
def test_the_lazy_choice_is_the_plain_greedy_one(rows: list[tuple[str, int, int]], budget: int) -> None:
    def rarity(term: str) -> float:
        return float(ord(term) - 90)

    candidates = [candidate(terms, cost=cost, **{f"line{row}": 2 * row}) for terms, cost, row in rows]

    chosen = cover(candidates, budget=budget, rarity=rarity)

    said, framed, capacity, left, plain = set[str](), set[str](), budget, list(range(len(candidates))), list[int]()
    while left:
        best = max(
            left, key=lambda at: (sum(map(rarity, candidates[at].terms - said)) / (candidates[at].cost + 30), -at)
        )
        left.remove(best)
        each = candidates[best]
        cost = each.cost + sum(size for name, size in each.frames.items() if name not in framed)
        if cost > capacity or (plain and not each.terms - said):
            continue
        plain.append(best)
        capacity -= cost
        said |= each.terms
        framed |= each.frames.keys()
    if plain or not candidates:
        assert chosen == sorted(plain)
    else:
        assert len(chosen) == 1
