import json
from typing import Any

import pytest
from pydantic import ValidationError

from memcore.experience import ExperienceLesson


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"strategic_decisions": []},
        {"strategic_decisions": [" "]},
        {"strategic_decisions": ["x"] * 13},
        {"strategic_decisions": ["x" * 1_001]},
        {"strategic_decisions": ["x"], "applicable_contexts": ["x"] * 9},
        {"strategic_decisions": "x"},
        {"strategic_decisions": ["x"], "id": "mine"},
        {"strategic_decisions": ["x"], "metadata": {"tags": ["core"]}},
        {"strategic_decisions": ["x"], "agent_id": "bob"},
    ],
)
def test_an_answer_says_two_lists_of_sentences_and_nothing_else(answer: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ExperienceLesson.model_validate_json(json.dumps(answer))


def test_its_length_is_that_of_its_sentences() -> None:
    made = ExperienceLesson(strategic_decisions=("abc", " de "), applicable_contexts=("f",))
    assert made.chars == 6
    assert ExperienceLesson(strategic_decisions=("abc",)).applicable_contexts == ()
