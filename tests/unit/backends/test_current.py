"""Of two memories that say nearly the same, the newer comes first; others keep their order."""

from datetime import datetime, timedelta

from support.memories import NOW

from memcore.backends.current import newer_first

PHONE = "What is the phone number of Ada?"
Memories = dict[str, tuple[str, datetime]]


def said(**texts: tuple[str, int]) -> Memories:
    return {key: (text, NOW - timedelta(days=days)) for key, (text, days) in texts.items()}


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
