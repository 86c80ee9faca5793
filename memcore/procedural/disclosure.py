"""A lesson shown step by step: the line that finds it, when and why to act, and at last how."""

from enum import StrEnum

from memcore.procedural.lesson_text import LessonText


class DisclosureTier(StrEnum):
    """How much of a lesson is shown."""

    DISCOVERY = "discovery"
    ACTIVATION = "activation"
    EXECUTION = "execution"


def disclosed(lesson: LessonText, tier: DisclosureTier) -> str:
    """Return the text of one tier: a line to choose by, the reasons once it is chosen, the steps once it is applied.

    Args:
        lesson: the lesson.
        tier: which part; none contains another.

    Returns:
        The text; empty for the steps of a lesson that has none.
    """
    match tier:
        case DisclosureTier.DISCOVERY:
            return lesson.discovery
        case DisclosureTier.ACTIVATION:
            return f"When: {lesson.condition}\nDo: {lesson.action}\nBecause: {lesson.rationale}"
        case DisclosureTier.EXECUTION:
            return numbered(lesson.execution_steps)


def numbered(steps: tuple[str, ...]) -> str:
    """Return the steps as a numbered list, a line each."""
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
