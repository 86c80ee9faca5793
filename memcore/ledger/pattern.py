"""A pattern: what the executions of several agents have in common, counted."""

from enum import StrEnum

from pydantic import Field

from memcore.frozen import Frozen


class PatternKind(StrEnum):
    """What a pattern's executions share."""

    #: They failed in one category.
    FAILURE = "failure"
    #: They succeeded with one chain of tools, and this chain does better than the rest.
    SUCCESS = "success"


class Pattern(Frozen):
    """A pattern of a window.

    Attributes:
        key: the category of the failures, or the key of the chain (memcore.ids.tools_key).
        occurrences: the executions that show it.
        agents: how many agents they are of.
        exposure: the executions that could have shown it: of a failure, all those of the task types in which it
            occurred; of a chain, all those that called it.
    """

    kind: PatternKind
    key: str
    occurrences: int = Field(ge=1)
    agents: int = Field(ge=1)
    exposure: int = Field(ge=1)

    @property
    def confidence(self) -> float:
        """How sure it is, 0 to 1: half and half the rate for failures, the rate for successes."""
        rate = self.occurrences / self.exposure
        return 0.5 + 0.5 * rate if self.kind is PatternKind.FAILURE else rate


class PatternTally(Frozen):
    """How many patterns a window has.

    Attributes:
        found: all of them.
        shared: those that enough agents show.
        sure: those of the shared ones that are sure enough.
    """

    found: int = 0
    shared: int = 0
    sure: int = 0
