"""What a cycle of the skill evolver is at."""

from enum import StrEnum


class CycleStage(StrEnum):
    """A stage, in their order."""

    #: Patterns are looked for, and the lesson that speaks for each.
    SEARCHING = "searching"
    #: Their conditions are tried on past executions.
    REPLAYING = "replaying"
    #: What is left is held against the skills that stand, and proposed.
    FILING = "filing"
