"""Plans: what they refuse, and by which name."""

import pytest

from memcore.errors import MemoryInputError
from memcore.finetune.plan import FineTunePlan


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("base_model", "../x"),
        ("base_model", "a/../../x"),
        ("base_model", "https://example.org/model"),
        ("base_model", "file:///etc/passwd"),
        ("base_model", "C:\\models\\x"),
        ("base_model", "D:model"),
        ("base_model", " "),
        ("source_dir", "../documents"),
        ("source_dir", "docs\\x"),
        ("epochs", 0),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("temperature", -1.0),
        ("top_k", 0),
        ("batch_size", 0),
        ("validation_split", 0.0),
        ("validation_split", 1.0),
        ("chunk_words", 1),
        ("max_pairs", 1),
        ("seed", -1),
        ("kind", "gbm"),
        ("surprise", 1),
    ],
)
def test_a_value_beyond_its_limit_is_refused_by_its_name(field: str, value: object) -> None:
    with pytest.raises(MemoryInputError, match=f"^{field}"):
        FineTunePlan.model_validate({field: value})


def test_a_plan_needs_something_to_learn_from() -> None:
    with pytest.raises(MemoryInputError, match=r"^source_dir"):
        FineTunePlan(uses_memories=False)
    assert FineTunePlan(uses_memories=False, source_dir="docs").source_dir == "docs"


def test_the_defaults_are_those_of_the_reference() -> None:
    plan = FineTunePlan()
    assert (plan.epochs, plan.learning_rate, plan.temperature) == (3, None, 0.02)
    assert (plan.top_k, plan.batch_size, plan.validation_split) == (4, 128, 0.1)
