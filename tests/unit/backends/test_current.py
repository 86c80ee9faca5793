"""Of two memories that say nearly the same, the newer comes first; others keep their order."""

from datetime import timedelta

from support.memories import NOW
from support.scored_memories import entry

from memcore.backends.current import newer_first
from memcore.backends.when import AskedRange
from memcore.models.memory import MemoryEntry

PHONE = "What is the phone number of Ada?"
Memories = dict[str, MemoryEntry]


def said(**texts: tuple[str, int]) -> Memories:
    return {key: entry(key, text, created_at=NOW - timedelta(days=days)) for key, (text, days) in texts.items()}


def test_the_newer_value_of_one_subject_has_the_older_ones_score() -> None:
    memories = said(old=("The phone number of Ada is 555 01.", 300), new=("Ada's phone number is 555 99 now.", 2))
    assert newer_first(PHONE, {"old": 0.9, "new": 0.85}, memories) == {"old": 0.9, "new": 0.9}
    assert newer_first(PHONE, {"old": 0.8, "new": 0.9}, memories) == {"old": 0.8, "new": 0.9}


def test_the_same_form_about_another_subject_stays_behind() -> None:
    memories = said(ada=("The phone number of Ada is 555 01.", 300), ben=("The phone number of Ben is 555 99.", 2))
    scores = {"ada": 0.9, "ben": 0.85}
    assert newer_first(PHONE, scores, memories) == scores


def test_a_worse_match_another_text_and_a_question_of_no_words_change_nothing() -> None:
    memories = said(old=("The phone number of Ada is 555 01.", 300), new=("The phone number of Ada is 555 99.", 2))
    weak = {"old": 0.9, "new": 0.8}
    assert newer_first(PHONE, weak, memories) == weak
    near = {"old": 0.9, "new": 0.85}
    assert newer_first("what is it?", near, memories) == near
    other = said(
        old=("The phone number of Ada is 555 01.", 300),
        new=(
            "Ada lost the phone with every number and went to a small hotel on the harbour at dusk to search benches.",
            2,
        ),
    )
    assert newer_first(PHONE, near, other) == near


def test_of_three_values_the_newest_is_as_good_as_the_best() -> None:
    memories = said(
        first=("Ada sits in room 1 east.", 90),
        second=("Ada sits in room 2 east.", 60),
        third=("Ada sits in room 3.", 9),
    )
    found = newer_first("Where does Ada sit?", {"first": 1.0, "second": 0.95, "third": 0.91}, memories)
    assert found == {"first": 1.0, "second": 1.0, "third": 1.0}


def test_names_that_share_a_part_are_not_one_subject() -> None:
    memories = said(
        wanted=("walrus_3 fails: 1. read it 2. end it 3. call it again.", 60),
        other=("walrus_45 fails: 1. read it 2. end it 3. call it again.", 2),
        longer=("walrus_30 fails: 1. read it 2. end it 3. call it again.", 1),
    )
    scores = {"wanted": 1.0, "other": 0.95, "longer": 0.94}
    assert newer_first('Why does "walrus_3" fail?', scores, memories) == {**scores, "longer": 0.95}


def replaced(memories: Memories, **successors: str) -> Memories:
    marks = {old: {"superseded_by": new, "superseded_at": memories[new].created_at} for old, new in successors.items()}
    return {key: each.model_copy(update=marks.get(key, {})) for key, each in memories.items()}


def test_what_was_replaced_is_behind_its_successor_whatever_both_say() -> None:
    memories = said(first=("Ada lives in Oslo.", 90), second=("She moved to Bergen.", 60), third=("Now Rome.", 9))
    scores = {"first": 1.0, "second": 0.1, "third": 0.2}
    found = newer_first("Where does Ada live?", scores, replaced(memories, first="second", second="third"))
    assert found["third"] == 1.0
    assert found["third"] > found["second"] > found["first"] > 0.9
    gone = newer_first("Where does Ada live?", {"first": 1.0}, replaced(memories, first="second"))
    assert gone == {"first": 1.0}


def test_memories_that_replace_each_other_still_have_an_order() -> None:
    memories = said(one=("Ada lives in Oslo.", 90), two=("She moved to Bergen.", 60))
    found = newer_first("Where does Ada live?", {"one": 1.0, "two": 0.5}, replaced(memories, one="two", two="one"))
    assert found.keys() == {"one", "two"}
    assert min(found.values()) > 0.9


def test_who_asks_for_a_time_gets_what_is_of_it_and_else_what_holds() -> None:
    memories = replaced(said(old=("Ada lives in Oslo.", 90), new=("Ada lives in Bergen.", 60)), old="new")
    scores = {"old": 1.0, "new": 0.5}
    then = AskedRange(start=NOW - timedelta(days=91), end=NOW - timedelta(days=89))
    assert newer_first("Where did Ada live then?", scores, memories, asked=then) == scores
    lately = AskedRange(start=NOW - timedelta(days=2), end=NOW)
    found = newer_first("Where does Ada live on Monday?", scores, memories, asked=lately)
    assert found["new"] > found["old"]


def test_what_was_said_again_is_newer_than_what_was_said_in_between() -> None:
    memories = said(berlin=("Ada lives in Berlin.", 90), munich=("Ada lives in Munich.", 60))
    scores = {"berlin": 0.95, "munich": 1.0}
    assert newer_first("Where does Ada live?", scores, memories) == scores
    again = memories["berlin"].model_copy(update={"stated_at": NOW - timedelta(days=1)})
    found = newer_first("Where does Ada live?", scores, {**memories, "berlin": again})
    assert found == {"berlin": 1.0, "munich": 1.0}
