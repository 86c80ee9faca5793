"""What a proposal changes, line by line, as a person reads it before deciding."""

import re
from collections.abc import Iterator
from difflib import unified_diff

from memcore.approval_models import Approval

#: The end of a sentence inside a line: memories are often one long line, and a diff of one line shows nothing. The
#: number that begins the line of a list ends no sentence.
_SENTENCE_END = re.compile(r"(?<=[.!?。])(?<!^\d\.)(?<!^\d\d\.)\s+")


def diff_of(approval: Approval) -> tuple[str, ...]:
    """Return the proposed text against each text that it supersedes, or against nothing, whole.

    The lines are those of a unified diff, one for each sentence. What a terminal would obey or hide (control
    characters, marks that turn the direction of writing) is written as its escape.
    """
    return tuple(_lines(approval))


def visible(text: str) -> str:
    """Return a text in which nothing acts on a terminal, and nothing is hidden; line breaks and tabs stay."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text
    )


def _lines(approval: Approval) -> Iterator[str]:
    new = _sentences(approval.proposal.content)
    old = [(each.id, _sentences(each.content)) for each in approval.proposal.supersedes] or [("nothing", [])]
    for name, before in old:
        whole = len(before) + len(new)
        yield from unified_diff(before, new, fromfile=name, tofile="proposed", lineterm="", n=whole)


def _sentences(text: str) -> list[str]:
    return [sentence for line in visible(text).split("\n") for sentence in _SENTENCE_END.split(line)]
