"""Questions to the fleet: the demo's example searches, and the evaluation set that a person wrote."""

from collections.abc import Iterator
from datetime import datetime
from random import Random

from examples.demo.fleet.day import midnight
from examples.demo.fleet.pages import page
from examples.demo.fleet.phrases import Phrases
from memcore.models.base import Frozen, NotBlankStr


class FleetQuestion(Frozen):
    """A question to one agent's memory.

    Attributes:
        expects: keys of the memories of which a good search returns at least one near the top; none in a test.
        answer: what a good answer contains, in a person's words; empty in the evaluation set. In a test, word for word.
    """

    agent_id: NotBlankStr
    text: NotBlankStr
    expects: tuple[NotBlankStr, ...] = ()
    answer: str = ""


def searches(now: datetime) -> tuple[FleetQuestion, ...]:
    """Return the demo's example searches; month names in them fit ``now``."""
    return tuple(_asked("searches", now))


def evaluation(now: datetime) -> tuple[FleetQuestion, ...]:
    """Return the evaluation set: questions with the keys of the memories that answer them."""
    return tuple(_asked("evaluation", now))


def tests(now: datetime) -> tuple[FleetQuestion, ...]:
    """Return the memory tests of the fleet: questions about what is old, with a detail that must still be found."""
    return tuple(_asked("tests", now))


def _asked(part: str, now: datetime) -> Iterator[FleetQuestion]:
    phrases = Phrases({}, Random(part), midnight(now))  # noqa: S311 - questions hold dates only, nothing is drawn
    for row in page("searches.yaml")[part]:
        question = FleetQuestion.model_validate(row)
        yield question.model_copy(update={"text": phrases.fill(question.text, 0)})
