"""The difference of two texts, sentence by sentence and then word by word, as rows of a table with two columns."""

import re
from difflib import SequenceMatcher
from typing import NamedTuple

from memcore.approvals import sentences


class Piece(NamedTuple):
    """Some words of a cell; ``is_changed`` where the other column does not have them."""

    text: str
    is_changed: bool


class DiffRow(NamedTuple):
    """A sentence before and after; None in the column that has none."""

    before: tuple[Piece, ...] | None
    after: tuple[Piece, ...] | None


_WORD = re.compile(r"\s+|\w+|[^\w\s]")

#: Longest sentences that are compared by words, in words: it takes the square of it.
_MOST_WORDS = 2_000


def difference(before: str, after: str) -> list[DiffRow]:
    """Return the rows; sentences that are alike stand beside one another."""
    old, new = sentences(before), sentences(after)
    rows: list[DiffRow] = []
    for tag, first, last, start, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            rows += [
                DiffRow((Piece(each, is_changed=False),), (Piece(each, is_changed=False),)) for each in old[first:last]
            ]
            continue
        for place in range(max(last - first, stop - start)):
            left = old[first + place] if first + place < last else None
            right = new[start + place] if start + place < stop else None
            rows.append(_compared(left, right))
    return rows


def _compared(left: str | None, right: str | None) -> DiffRow:
    if left is None or right is None:
        return DiffRow(
            None if left is None else (Piece(left, is_changed=True),),
            None if right is None else (Piece(right, is_changed=True),),
        )
    old, new = _WORD.findall(left), _WORD.findall(right)
    if len(old) > _MOST_WORDS or len(new) > _MOST_WORDS:
        return DiffRow((Piece(left, is_changed=True),), (Piece(right, is_changed=True),))
    before, after = list[Piece](), list[Piece]()
    for tag, first, last, start, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        is_changed = tag != "equal"
        if last > first:
            before.append(Piece("".join(old[first:last]), is_changed))
        if stop > start:
            after.append(Piece("".join(new[start:stop]), is_changed))
    return DiffRow(tuple(before), tuple(after))
