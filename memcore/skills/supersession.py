"""What a new skill is to one that is there already: its contradiction, its better, or its neighbour."""

import re
import unicodedata
from enum import StrEnum
from typing import Protocol

#: Conditions that share so much are about the same case, and actions that share so much agree (Jaccard of tokens).
SAME_CASE = 0.5
SAME_ACTION = 0.5

#: Share of the old condition's tokens that stand in the new one which reaches as far.
COVERS = 0.8

#: Shortest token, in characters.
_TOKEN_CHARS = 2

_WORD = re.compile(r"\w+")


class Verdict(StrEnum):
    """What a new skill is to an old one."""

    #: The same case, another action: a person must look; it is not proposed.
    CONFLICT = "conflict"
    #: It covers the old one's case, acts alike, and is surer: once approved it takes the old one's place.
    FULL = "full"
    #: Both stand beside each other.
    PARTIAL = "partial"


class Claim(Protocol):
    """When a skill applies, what it does then, and how sure it is; a ProceduralMemoryProposal is one."""

    @property
    def condition(self) -> str:
        """When it applies."""
        ...

    @property
    def action(self) -> str:
        """What to do then."""
        ...

    @property
    def confidence(self) -> float:
        """From 0.0 to 1.0."""
        ...


def verdict_of(candidate: Claim, existing: Claim) -> Verdict:
    """Return what the candidate is to the one that exists; a contradiction is looked for first.

    A condition without a word says nothing about its case, so both stand. Actions without a word agree with nothing.
    """
    new, old = tokens(candidate.condition), tokens(existing.condition)
    if not new or not old:
        return Verdict.PARTIAL
    agreement = jaccard(tokens(candidate.action), tokens(existing.action))
    if jaccard(new, old) >= SAME_CASE and agreement < SAME_ACTION:
        return Verdict.CONFLICT
    covers = len(new & old) / len(old) >= COVERS
    if covers and agreement >= SAME_ACTION and candidate.confidence > existing.confidence:
        return Verdict.FULL
    return Verdict.PARTIAL


def tokens(text: str) -> frozenset[str]:
    """Return the words of the text, of any script, in lower case and one Unicode form, without single characters."""
    folded = unicodedata.normalize("NFKC", text).lower()
    return frozenset(word for word in _WORD.findall(folded) if len(word) >= _TOKEN_CHARS)


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return which share of all tokens both have; 0.0 when there is none."""
    every = one | other
    return len(one & other) / len(every) if every else 0.0
