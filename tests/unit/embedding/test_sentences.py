"""Rows and their labels, sentences in several languages, and statements."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.embedding.sentences import Label, part_rows, part_sentences, part_statements


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
    assert list(part_sentences(text)) == wanted


def test_a_statement_with_its_reason_is_one_and_longer_texts_fall_apart() -> None:
    assert list(part_statements("Ann is allergic to nuts. Ask Ines instead.")) == [
        "Ann is allergic to nuts. Ask Ines instead."
    ]
    assert list(part_statements("One. Two.\nThree.")) == ["One.", "Two.", "Three."]
    assert list(part_statements(" \n ")) == []


@given(st.text(max_size=400))
def test_no_letter_is_lost_or_moved(text: str) -> None:
    for parts in (list(part_sentences(text)), list(part_statements(text))):
        assert "".join("".join(each.split()) for each in parts) == "".join(text.split())
        assert all(parts)


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
