"""The one lesson that speaks for many: the agents' own words, never a text made of a template."""

from collections.abc import Sequence

from pydantic import ValidationError

from memcore.ledger.lesson import Lesson
from memcore.procedural.lesson_text import LessonText
from memcore.skills.supersession import jaccard
from memcore.skills.terms import terms


def medoid(lessons: Sequence[Lesson]) -> LessonText | None:
    """Return the lesson that most agrees with all, weighted by how sure it is of itself; None when none can be read.

    Agreement is the mean over all lessons, itself among them, of the words of condition and action that both have. Of
    equals the one with the least id is taken, so that the order of the lessons cannot matter.
    """
    read = [(lesson.lesson_id, text) for lesson in lessons if (text := _text(lesson)) is not None]
    words = {lesson_id: (terms(text.condition), terms(text.action)) for lesson_id, text in read}

    def standing(one: tuple[str, LessonText]) -> tuple[float, str]:
        lesson_id, text = one
        # Rounded: a sum must not depend on its order.
        agreement = round(sum(_agreement(words[lesson_id], each) for each in words.values()) / len(words), 9)
        return -agreement * text.confidence, lesson_id

    return min(read, key=standing)[1] if read else None


def _agreement(one: tuple[frozenset[str], frozenset[str]], other: tuple[frozenset[str], frozenset[str]]) -> float:
    return sum(jaccard(these, those) for these, those in zip(one, other, strict=True)) / 2


def _text(lesson: Lesson) -> LessonText | None:
    try:
        return LessonText.model_validate_json(lesson.text or "")
    except ValidationError:
        return None
