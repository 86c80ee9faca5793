"""Which memories may contradict one another."""

import random
import time
from datetime import timedelta

import pytest
from support.memories import NOW, record

from memcore.backends.current import ALIKE
from memcore.records import SUCCESSION_KEY, MemoryRecord
from memcore.retrieval.conflicts import _MOST_LOOKS, _Terms, conflicts, possible_conflicts


def said(*texts: str, **more: dict[str, object]) -> list[MemoryRecord]:
    return [
        record("ada", text, created_at=NOW + timedelta(days=day), extra=more.get("extra"))
        for day, text in enumerate(texts)
    ]


def pairs(records: list[MemoryRecord]) -> list[tuple[str, str]]:
    return [(each.older.content, each.newer.content) for each in conflicts([each.entry for each in records])]


def test_two_values_of_one_thing_are_a_pair_and_the_latest_comes_first() -> None:
    old, new = "Ada's office is in Oslo.", "The office of Ada is in Rome."
    other, again = "Ben likes tea.", "Ben likes rum."
    assert pairs(said(old, other, new, again)) == [(other, again), (old, new)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The stand-up is at 9:30.", "The stand-up is at 10:15."),
        ("The invoice is due on 01/05/2026.", "The invoice is due on 30/06/2027."),
        ("The fee is $1,200.", "The fee is $3,450.75."),
        ("The disk has 1.5 TB.", "The disk has 24.25 TB."),
        ("The freezer is at -20 degrees.", "The freezer is at 20 degrees."),
        ("Ada's blood group is A+.", "Ada's blood group is A-."),
        ("Ada is vegetarian.", "Ada is no longer vegetarian."),
        ("Ada is no longer vegetarian.", "Ada is vegetarian."),
        ("Ada smokes.", "Ada stopped smoking."),
        ("Ada smokes.", "Ada does not smoke any more."),
        ("Ada likes coffee.", "Ada doesn't like coffee anymore."),
        ("Ada works at Acme.", "Ada used to work at Acme."),
        ("Ada drinks tea with milk.", "Ada drinks tea without milk."),
        ("Ada ist Vegetarierin.", "Ada ist keine Vegetarierin mehr."),
        ("Ada raucht.", "Ada raucht nicht mehr."),
        ("Ada est végétarienne.", "Ada n'est plus végétarienne."),
        ("Ada come carne.", "Ada ya no come carne."),
        ("Ada eet vlees.", "Ada eet geen vlees meer."),
        ("Ada mangia carne.", "Ada non mangia più carne."),
        ("Ada come peixe.", "Ada não come mais peixe."),
    ],
)
def test_two_times_or_amounts_and_what_is_so_no_more_are_pairs(old: str, new: str) -> None:
    assert pairs(said(old, new)) == [(old, new)]
    # Whatever else is known of the same thing.
    beside = [f"The lift of house {number} is blue." for number in range(3)]
    assert pairs(said(old, *beside, new)) == [(old, new)]


def test_a_denial_or_a_time_of_another_thing_is_no_pair() -> None:
    assert pairs(said("Ada is vegetarian.", "Ada does not cook vegetarian food for her brother.")) == []
    assert pairs(said("Ada does not smoke.", "Ada has stopped smoking.")) == []
    assert pairs(said("Ada likes tea.", "Ada likes tea more.")) == []
    meetings = [f"The {name} meeting is at {hour}:{hour + 20}." for hour, name in enumerate("abcdef", start=10)]
    assert pairs(said(*meetings)) == []
    moved = "The c meeting is at 9:05."
    assert pairs(said(*meetings, moved)) == [(meetings[2], moved)]


def test_what_is_said_of_many_things_in_one_form_is_no_pair() -> None:
    forms = [f"The {name} dashboard is owned by team {team}." for name, team in zip("abcdef", "xyxyxy", strict=True)]
    assert pairs(said(*forms)) == []
    # Until one of them changes.
    changed = "The c dashboard is owned by team z."
    assert pairs(said(*forms, changed)) == [(forms[2], changed)]


def test_what_says_more_what_says_it_again_and_what_shares_little_are_no_pairs() -> None:
    assert pairs(said("Ada's office is in Oslo.", "Ada's office is in Oslo, in the north.")) == []
    assert pairs(said("Ada's office is in Oslo.", "ada's offices: in Oslo")) == []
    assert pairs(said("Ada's office is in Oslo.", "Ada flew to a wedding with two old friends.")) == []
    assert ALIKE < 0.5


def test_what_was_superseded_and_summaries_are_left_out() -> None:
    old, new = said("Ada's office is in Oslo.", "Ada's office is in Rome.")
    replaced = record(
        "ada", old.entry.content, extra={SUCCESSION_KEY: {"by": new.entry.id, "at": new.entry.created_at.timestamp()}}
    )
    assert pairs([replaced, new]) == []
    assert pairs([record("ada", old.entry.content, tags=("consolidated",)), new]) == []
    assert pairs([old, new]) == [(old.entry.content, new.entry.content)]


def test_where_many_have_one_form_a_pair_costs_little_more_than_a_look_at_both() -> None:
    forms = [f"The deploy of service s{number} to stage {number % 20} by team {number % 10} failed twice again on the "
             f"old cluster in the north" for number in range(3_000)]  # fmt: skip
    entries = [each.entry for each in said(*forms)]
    terms = [_Terms.of(each.content) for each in entries]
    looks = [(old, new) for new in range(len(terms)) for old in range(new % 20, new, 20)]
    begin = time.process_time()
    assert all(terms[old].is_near(terms[new]) for old, new in looks)
    of_looks, begin = time.process_time() - begin, time.process_time()
    assert conflicts(entries) == ()
    assert time.process_time() - begin < 12 * of_looks


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One for each two memories whose words are compared."""
    counted, is_near = list[None](), _Terms.is_near

    def counting(self: _Terms, other: _Terms) -> bool:
        counted.append(None)
        return is_near(self, other)

    monkeypatch.setattr(_Terms, "is_near", counting)
    return counted


def mixed(count: int, *, always: int, of: int, rare: int) -> list[MemoryRecord]:
    """Memories of some words that all have, and some that few have."""
    words, chance = (
        ["".join(chr(97 + int(digit)) for digit in f"{number:03}") + "x" for number in range(of)],
        random.Random(7),
    )
    same = " ".join(f"{letter}qqqq" for letter in "abcdefghijklmnopqrst"[:always])
    return said(*(f"{same} {' '.join(chance.sample(words, rare))}" for _ in range(count)))


def test_memories_that_share_some_rare_words_and_are_not_alike_are_not_compared(looks: list[None]) -> None:
    entries = [each.entry for each in mixed(1_500, always=0, of=120, rare=12)]
    # Each word stands in 150 of them, so each shares one with a thousand others.
    list(possible_conflicts(entries))
    assert len(looks) < 50 * len(entries)


def test_a_memory_is_compared_with_so_many_at_most_however_many_are_alike(looks: list[None]) -> None:
    entries = [each.entry for each in mixed(900, always=16, of=70, rare=12)]
    list(possible_conflicts(entries))
    assert len(looks) <= _MOST_LOOKS * len(entries)


def test_who_asks_for_the_latest_pair_waits_for_no_other(looks: list[None]) -> None:
    old, new = "Zoe's harp is in Oslo.", "Zoe's harp is in Rome."
    entries = [each.entry for each in [*mixed(300, always=16, of=70, rare=12), *said(old, new)]]
    entries[-2:] = [
        each.model_copy(update={"created_at": NOW + timedelta(days=1_000 + day)})
        for day, each in enumerate(entries[-2:])
    ]
    first = next(possible_conflicts(entries))
    assert (first.older.content, first.newer.content) == (old, new)
    assert len(looks) < _MOST_LOOKS
