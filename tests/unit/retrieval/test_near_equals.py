"""What says nearly the same more than three times stands behind all else, and no fact is lost by it."""

from datetime import timedelta
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from support.memories import NOW
from support.scored_memories import entry, scored
from support.search_backends import HybridBackend, hits, near

from memcore.backends.fusion import RankedLists
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.formatting import memory_block
from memcore.retrieval.near_equals import varied
from memcore.retrieval.repetitions import collapsed

_SAID = [
    f"{opening} {subject} {tail}"
    for opening, subject, tail in product(
        ("Ticket 5120:", "Support, ticket 5120:", "Ticket 5120 once more:", "News of ticket 5120:"),
        (
            "the Northwind portal prints no invoices",
            "invoices cannot be printed in the Northwind portal",
            "printing an invoice from the Northwind portal fails",
            "the Northwind portal hangs while it prints invoices",
        ),
        ("since the update.", "with the latest update.", "as customers report.", "in every browser."),
    )
]

_OTHERS = (
    "The Northwind portal is hosted in Lund.",
    "Only Sanna may restart the Northwind portal.",
    "Invoices of the Northwind portal are numbered by quarter.",
)


async def test_64_of_one_ticket_do_not_hide_three_other_facts() -> None:
    entries = [
        entry(f"m{place}", text, relevance=0.9 - place / 1_000, created_at=NOW - timedelta(days=place))
        for place, text in enumerate([*_SAID, *_OTHERS])
    ]
    backend = HybridBackend(RankedLists(dense=near(*entries), sparse=hits(*entries)))
    strategy = ContextInjectionStrategy(backend=backend, config=MemoryRetrievalConfig(), clock=lambda: NOW)
    question = "What do we know about invoices of the Northwind portal?"
    (_, shown) = await strategy.prepare_messages("ada", question, 600)
    assert all(text in shown.content for text in _OTHERS)
    assert sum(text in shown.content for text in _SAID) >= 3
    assert ' count="' in shown.content


def test_the_best_says_how_many_and_when() -> None:
    texts = [f"The lift in hall 9 {word} again" for word in ("sticks", "stops", "halts", "hangs", "jams")]
    made = [scored(str(place), 0.9 - place / 10, text) for place, text in enumerate([*texts, "the canteen is shut"])]
    dated = [
        each.model_copy(update={"entry": each.entry.model_copy(update={"created_at": NOW - timedelta(days=place)})})
        for place, each in enumerate(made)
    ]
    shown = varied(dated, most=9)
    assert [each.entry.id for each in shown] == ["0", "1", "2", "5", "3", "4"]
    first = f'count="3 nearly, {(NOW - timedelta(days=4)).date()} to {NOW.date()}"'
    assert first in memory_block(shown[0])
    assert [each.combined_score for each in shown][3:] == [0.4, 0.4, 0.4]
    assert varied(dated[:3], most=9) == tuple(dated[:3])
    assert varied(dated, most=3) == tuple(dated)


_WORDS = st.sampled_from("Alice Bob 3 12 not never only needs rooms red blue on Monday in Oslo v1.2 -5".split())  # noqa: SIM905


@given(
    texts=st.lists(st.lists(_WORDS, min_size=1, max_size=9).map(" ".join), max_size=14),
    shared=st.lists(st.booleans(), min_size=14, max_size=14),
)
def test_no_name_number_or_negation_is_only_behind(texts: list[str], shared: list[bool]) -> None:
    made = [
        scored(str(place), 1.0 - place / 100, f"x {text}", is_shared=shared[place]) for place, text in enumerate(texts)
    ]
    found = varied(made, most=20)
    assert sorted(each.entry.id for each in found) == sorted(each.entry.id for each in made)
    assert sum(each.count for each in found) == len(made) + sum(each.count - 1 for each in found)
    scores = [each.combined_score for each in found]
    assert scores == sorted(scores, reverse=True)
    moved = sum(each.count - 1 for each in found)
    first, last = found[: len(found) - moved], found[len(found) - moved :]
    for each in last:
        values = {word for word in each.entry.content.split() if not word.islower()}
        same = [
            set(one.entry.content.split())
            for one in first
            if one.is_shared is each.is_shared and values <= set(one.entry.content.split())
        ]
        assert same
        assert {"not", "never", "only"} & set(each.entry.content.split()) <= set().union(*same)


def test_what_says_the_same_and_nearly_counts_once() -> None:
    same, nearly = "The lift in hall 9 sticks again", ("stops", "halts", "hangs", "jams")
    texts = [same, *(f"The lift in hall 9 {word} again" for word in nearly), same]
    shown = collapsed(varied([scored(str(place), 0.9, text) for place, text in enumerate(texts)], most=9))
    assert [each.count for each in shown if each.count > 1] == [4]
    assert [each for each in shown if each.count > 1] == [each for each in shown if each.counted_days]


def test_texts_without_a_telling_word_are_not_alike() -> None:
    made = [
        scored(str(place), 0.9, text) for place, text in enumerate(["it is so", "so it was", "is it", "it is", "so"])
    ]
    assert varied(made, most=9) == tuple(made)
