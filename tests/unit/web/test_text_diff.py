"""Differences of texts: no word is lost, what is alike stands beside itself, what hides is shown."""

from hypothesis import given
from hypothesis import strategies as st
from support.present import present

from memcore.approvals import sentences
from ops.web.text_diff import DiffRow, difference


def _side(rows: list[DiffRow], place: int) -> list[str]:
    cells = [row[place] for row in rows]
    return ["".join(piece.text for piece in cell) for cell in cells if cell is not None]


@given(
    before=st.text(st.sampled_from("ab. \n\u202e"), max_size=60),
    after=st.text(st.sampled_from("ab. \n\u202e"), max_size=60),
)
def test_both_texts_are_whole(before: str, after: str) -> None:
    rows = difference(before, after)
    assert (_side(rows, 0), _side(rows, 1)) == (sentences(before), sentences(after))
    assert "\u202e" not in str(_side(rows, 0) + _side(rows, 1))


def test_the_words_that_changed_are_marked() -> None:
    (same, changed) = difference("Ask first. Then restart all workers.", "Ask first. Then restart one worker.")
    assert same.before == same.after
    assert [piece.text for piece in present(changed.before) if piece.is_changed] == ["all", "workers"]
    assert [piece.text for piece in present(changed.after) if piece.is_changed] == ["one", "worker"]


def test_a_sentence_of_one_side_stands_alone() -> None:
    rows = difference("One. Two.", "One.")
    assert (rows[1].before is not None, rows[1].after) == (True, None)
