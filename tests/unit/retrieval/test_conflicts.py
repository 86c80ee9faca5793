"""Which memories may contradict one another."""

from datetime import timedelta

from support.memories import NOW, record

from memcore.backends.current import ALIKE
from memcore.records import SUCCESSION_KEY, MemoryRecord
from memcore.retrieval.conflicts import conflicts


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
