"""Rows and their labels, sentences in several languages, and pieces of long ones."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.embedding.sentences import Label, part_rows, part_sentences


def sentences(text: str, *, longest: int = 200) -> list[str]:
    return [passage.text for passage in part_sentences(text, longest=longest)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Yes. It rained! Why? Nobody knows.", ["Yes.", "It rained!", "Why?", "Nobody knows."]),
        (
            "Dr. Who met J. R. at 10:30, i.e. late. Then both left.",
            ["Dr. Who met J. R. at 10:30, i.e. late.", "Then both left."],
        ),
        (
            "Version 1.2.3 is out. See https://example.org/a.b?c=d.",
            ["Version 1.2.3 is out.", "See https://example.org/a.b?c=d."],
        ),
        ("Sie kam am 3. März 2024. Dann ging sie.", ["Sie kam am 3. März 2024.", "Dann ging sie."]),
        ('He asked "Really?" She nodded.', ['He asked "Really?"', "She nodded."]),
        ("Я был в Москве. Потом уехал!", ["Я был в Москве.", "Потом уехал!"]),
        ("我来了。他说：「好吗？」她走了", ["我来了。", "他说：「好吗？」", "她走了"]),  # noqa: RUF001  # Chinese marks
        ("मैं गया था। ठीक है", ["मैं गया था।", "ठीक है"]),
        ("هل ذهبت؟ نعم.", ["هل ذهبت؟", "نعم."]),
        ("one line\n\n  another   line ", ["one line", "another line"]),
    ],
)
def test_a_text_falls_into_its_sentences(text: str, wanted: list[str]) -> None:
    assert sentences(text) == wanted


def test_a_long_sentence_is_parted_at_its_pauses_and_says_so() -> None:
    text = "We took the early train to the coast, walked along the cliffs until noon, and came home by bus."

    first, second, third = part_sentences(text, longest=40)

    assert (first.text, second.text) == ("We took the early train to the coast,", "walked along the cliffs until noon,")
    assert [(each.comes_on, each.goes_on) for each in (first, second, third)] == [
        (False, True),
        (True, True),
        (True, False),
    ]


def test_a_pause_near_the_beginning_parts_nothing() -> None:
    assert sentences("Well, then he talked about his boat again", longest=25) == [
        "Well, then he talked",
        "about his boat again",
    ]


def test_without_a_pause_it_is_parted_between_words_and_a_word_too_long_is_cut() -> None:
    assert sentences("aaaa bbbb cccc dddd", longest=10) == ["aaaa bbbb", "cccc dddd"]
    assert sentences("a" * 25, longest=10) == ["a" * 10, "a" * 10, "a" * 5]


@given(st.text(max_size=400), st.integers(1, 80))
def test_no_letter_is_lost_or_moved_and_no_passage_is_too_long(text: str, longest: int) -> None:
    passages = list(part_sentences(text, longest=longest))

    assert "".join("".join(each.text.split()) for each in passages) == "".join(text.split())
    assert all(0 < len(each.text) <= longest for each in passages)
    assert all(before.goes_on == after.comes_on for before, after in pairwise(passages))


@pytest.mark.parametrize(
    ("text", "when", "who", "rest"),
    [
        ("[8 May 2023] Caroline: I went.", "[8 May 2023]", "Caroline:", "I went."),
        ("[12:01] disk full", "[12:01]", "", "disk full"),
        ("Dr. Ada Smith said so: yes", "", "", "Dr. Ada Smith said so: yes"),
        ("Ada Smith: yes", "", "Ada Smith:", "yes"),
        ("Élodie: oui", "", "Élodie:", "oui"),
        ("https://example.org/x: gone", "", "", "https://example.org/x: gone"),
        ("[docs](x) are old", "", "", "[docs](x) are old"),
        ("10:30 is late", "", "", "10:30 is late"),
        ("Caroline:", "", "", "Caroline:"),
        ("[" + "x" * 80 + "] y", "", "", "[" + "x" * 80 + "] y"),
    ],
)
def test_a_label_says_when_and_by_whom(text: str, when: str, who: str, rest: str) -> None:
    assert list(part_rows(text)) == [(Label(when=when, who=who), rest)]


def test_each_remark_of_a_transcript_has_its_own_label_and_other_lines_follow_the_one_before() -> None:
    rows = list(part_rows("about the trip\nAda: when?\nBob: in May\nand in June\n"))

    assert [(label.who, rest) for label, rest in rows] == [
        ("", "about the trip"),
        ("Ada:", "when?"),
        ("Bob:", "in May\nand in June"),
    ]


@given(st.text(alphabet=st.sampled_from("ab [].:\n\r\u2028é"), max_size=60))
def test_rows_hold_everything_in_order(text: str) -> None:
    joined = "".join(label.when + label.who + rest for label, rest in part_rows(text))

    assert re.sub(r"\s", "", joined) == re.sub(r"\s", "", text)
