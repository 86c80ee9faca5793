"""What a search says of a memory that it found: its scores, how it stands, and why."""

from enum import StrEnum

from pydantic import Field

from memcore.models.base import Frozen


class MemoryScores(Frozen):
    """What a memory's place in an answer rests on; None where it is not known.

    Attributes:
        semantic: the cosine of the question and the memory, -1.0 to 1.0.
        keyword: s / (1 + s) of the BM25 score s, 0.0 to 1.0.
        final: the score that the order follows, as a share of the best there could be: it compares within one answer.
    """

    semantic: float | None = Field(default=None, ge=-1.001, le=1.001)
    keyword: float | None = Field(default=None, ge=0.0, le=1.0)
    final: float | None = Field(default=None, ge=0.0, le=1.0)

    def reach(self, least: "MemoryScores") -> bool:
        """Return whether each score is at least what another one names; one that is not known counts as 0.0."""
        wanted = ((least.semantic, self.semantic), (least.keyword, self.keyword), (least.final, self.final))
        return all(bound is None or (score or 0.0) >= bound for bound, score in wanted)


class Standing(StrEnum):
    """How surely a memory answers the question that found it.

    ``strong`` stands near the best of an answered question; ``weak`` is the nearest where nothing answers it, and may
    be foreign to it; what is ``absent`` is returned only to who asks for everything.
    """

    STRONG = "strong"
    WEAK = "weak"
    ABSENT = "absent"


class Shown(StrEnum):
    """Which memories a search shows: strong ones alone, weak ones too where none is strong, or all that it found."""

    STRONG = "strong"
    WEAK = "weak"
    ANY = "any"

    def has(self, standing: Standing) -> bool:
        """Return whether a memory of this standing is shown."""
        return self is Shown.ANY or standing is Standing.STRONG or (self, standing) == (Shown.WEAK, Standing.WEAK)


class MemoryWhy(Frozen):
    """Why a search showed a memory, or did not.

    Attributes:
        words: the question's telling words that it has.
        word_share: their share of all of these, rare ones, names and numbers counting more.
        meaning: how far its cosine is above that of unrelated texts, as a share of what there is above it.
        alone: the share of the telling words of a part of the question that no other memory has nearly.
        is_of_time: whether it is of the time that the question names.
        place: in the ranking, from 1.
        share: its score as a share of the best one.
        needed: the share that a strong memory needs.
        evidence: that of the question's best memory.
        needed_evidence: what that must be, so that any is strong.
        read_as: the question as memories spell it; None where it was read as it is.
    """

    words: tuple[str, ...]
    word_share: float
    meaning: float
    alone: float
    is_of_time: bool
    place: int
    share: float
    needed: float
    evidence: float
    needed_evidence: float
    read_as: str | None = None
