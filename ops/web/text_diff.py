"""The difference of two texts, sentence by sentence and then word by word, as rows of a table with two columns."""

import re
from itertools import zip_longest
from typing import NamedTuple

from memcore.approvals import changes, sentences


class Piece(NamedTuple):
    """Some words of a cell; ``is_changed`` where the other column does not have them."""

    text: str
    is_changed: bool


class DiffRow(NamedTuple):
    """A sentence before and after; None in the column that has none."""

    before: tuple[Piece, ...] | None
    after: tuple[Piece, ...] | None


_WORD = re.compile(r"\s+|\w+|[^\w\s]")


def difference(before: str, after: str) -> list[DiffRow]:
    """Return the rows; sentences that are alike stand beside one another."""
    rows: list[DiffRow] = []
    for change in changes(sentences(before), sentences(after)):
        if change.is_equal:
            rows += [DiffRow((Piece(each, is_changed=False),), (Piece(each, is_changed=False),)) for each in change.old]
        else:
            rows += [_compared(left, right) for left, right in zip_longest(change.old, change.new)]
    return rows


def _compared(left: str | None, right: str | None) -> DiffRow:
    if left is None or right is None:
        return DiffRow(
            None if left is None else (Piece(left, is_changed=True),),
            None if right is None else (Piece(right, is_changed=True),),
        )
    before, after = list[Piece](), list[Piece]()
    for change in changes(_WORD.findall(left), _WORD.findall(right)):
        if change.old:
            before.append(Piece("".join(change.old), not change.is_equal))
        if change.new:
            after.append(Piece("".join(change.new), not change.is_equal))
    return DiffRow(tuple(before), tuple(after))
