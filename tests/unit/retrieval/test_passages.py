"""Passages of long memories: where they begin and end, how they are shown, and how well they match a question."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.retrieval.passages import CUT, PassageMatcher, part_passages, shown_passages

TALK = (
    "[8 May 2023]\n- Ada: We met. It rained! See you.\n- Bob: Nice.\nThen we left.\n\n"
    "Decided:\nThe lift stays. So be it."
)


def parts(text: str) -> list[str]:
    return [text[each.start : each.stop] for each in part_passages(text)]


def shown(text: str, *places: int) -> str:
    return shown_passages(text, part_passages(text), places)


def test_a_text_falls_into_its_sentences_with_headings_and_labels() -> None:
    assert [(TALK[each.start : each.stop], each.heading, each.label) for each in part_passages(TALK)] == [
        ("- Ada: We met.", "[8 May 2023]", ""),
        ("It rained!", "[8 May 2023]", "- Ada:"),
        ("See you.", "[8 May 2023]", "- Ada:"),
        ("- Bob: Nice.", "[8 May 2023]", ""),
        ("Then we left.", "[8 May 2023]", "- Bob:"),
        ("The lift stays.", "Decided:", ""),
        ("So be it.", "Decided:", ""),
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"a": "Yes. No.", "b": [1, 2]}', ['{"a": "Yes. No.", "b": [1, 2]}']),
        ('Before.\n{\n"a": "Yes. No.",\n"b": 1\n}\nAfter.', ["Before.", '{\n"a": "Yes. No.",\n"b": 1\n}', "After."]),
        (
            "import os\n\ndef f(x):\n    # One. Two.\n\n    return x\n\nThat is it.",
            ["import os", "def f(x):\n    # One. Two.\n\n    return x", "That is it."],
        ),
        ("See this:\n```\na. B\n\nC. d\n```\nGood. Bye.", ["```\na. B\n\nC. d\n```", "Good.", "Bye."]),
        ("call(\n'A. B',\n'C'\n)\nDone.", ["call(\n'A. B',\n'C'\n)", "Done."]),
        ("Ask her (she is in. On Mondays) first. Then go.", ["Ask her (she is in. On Mondays) first.", "Then go."]),
        ("We went to the\nsea. It rained.\nAda: no", ["We went to the\nsea.", "It rained.", "Ada: no"]),
        ("- a: 1\n  b: 2. C\n- a: 3", ["- a: 1\n  b: 2. C", "- a: 3"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_structures_stay_whole_and_a_wrapped_line_goes_on(text: str, wanted: list[str]) -> None:
    assert parts(text) == wanted


def test_what_is_left_out_has_a_mark_and_headings_and_labels_come_along() -> None:
    assert shown(TALK, 0) == f"[8 May 2023]\n- Ada: We met. {CUT}"
    assert shown(TALK, 0, 2) == f"[8 May 2023]\n- Ada: We met. {CUT} See you. {CUT}"
    assert shown(TALK, 1, 4) == f"[8 May 2023]\n{CUT} - Ada: It rained! {CUT}\n- Bob: Then we left. {CUT}"
    assert shown(TALK, 2, 3, 6) == f"[8 May 2023]\n{CUT} - Ada: See you.\n- Bob: Nice. {CUT}\nDecided:\nSo be it."
    assert shown(TALK, 4, 5) == f"[8 May 2023]\n{CUT} - Bob: Then we left.\n\nDecided:\nThe lift stays. {CUT}"


_LINES = st.lists(
    st.sampled_from(
        [
            "[8 May 2023]",
            "- Ada: We met. It rained!",
            "so (it. Is)",
            "{",
            '"a": 1.',
            "}",
            "    x = 1. Y",
            "```",
            "",
            "我来了。她走了",
        ]
    )
    | st.text(alphabet=st.sampled_from("aB .:!()[]{}`…\n\r\u2028\t"), max_size=20),
    max_size=12,
).map("\n".join)


@given(text=_LINES, data=st.data())
def test_no_letter_is_lost_and_what_is_shown_are_whole_passages_in_order(text: str, data: st.DataObject) -> None:
    passages = part_passages(text)
    places = [place for place in range(len(passages)) if data.draw(st.booleans())]
    assert all(0 <= each.start < each.stop <= len(text) for each in passages)
    assert all(one.stop <= two.start for one, two in pairwise(passages))
    headings = "".join(each.heading for each in passages)
    between = text
    for each in reversed(passages):
        between = between[: each.start] + between[each.stop :]
    # Between passages stand headings alone; the last one may have nothing below it.
    assert not passages or all(letter in headings + text[passages[-1].stop :] for letter in "".join(between.split()))
    at = 0
    for place in places:
        said = text[passages[place].start : passages[place].stop]
        at = shown_passages(text, passages, places).index(said, at) + len(said)


def _matches(question: str, *texts: Sequence[str]) -> list[list[float]]:
    return PassageMatcher().matches(question, texts)


def test_a_passage_matches_by_rare_words_and_by_what_stands_beside_it() -> None:
    (found,) = _matches("Who repairs the printers?", ["The printer jams.", "Ask Ines.", "We met.", "The roof leaks."])
    assert found == [1.0, 1.0, 0.0, 0.0]
    rare, common = _matches("printer roof", ["roof"], ["printer", "x", "x", "printer", "roof"])
    assert rare == [1.0]
    assert common == [common[0], common[0], common[2], 1.0, 1.0]
    assert 0.0 < common[0] == common[2] < 1.0
    assert _matches("what is it?", ["The printer jams.", "Ask Ines."]) == [[1.0, 1.0]]
    assert _matches("printer", []) == [[]]
