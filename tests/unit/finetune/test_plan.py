"""Plans: refused values, and the names of their fields."""

import pytest

from memcore.errors import MemoryInputError
from memcore.models.finetune import FineTunePlan


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
        ("llm_questions", -1),
        ("llm_questions", 10_001),
        ("max_pairs", 1),
        ("seed", -1),
        ("threads", 0),
        ("threads", 129),
        ("kind", "gbm"),
        ("surprise", 1),
    ],
)
def test_a_value_beyond_its_limit_is_refused_by_its_name(field: str, value: object) -> None:
    with pytest.raises(MemoryInputError, match=f"^{field}"):
        FineTunePlan.model_validate({field: value})


def test_there_is_one_table_to_train() -> None:
    with pytest.raises(MemoryInputError, match=r"^base_model: must be wordllama-256-tempered for kind static$"):
        FineTunePlan(kind="static", base_model="models/mine")
    assert FineTunePlan(kind="static", base_model="wordllama-256-tempered").kind == "static"


def test_a_plan_needs_something_to_learn_from() -> None:
    with pytest.raises(MemoryInputError, match=r"^source_dir"):
        FineTunePlan(uses_memories=False)
    assert FineTunePlan(uses_memories=False, source_dir="docs").source_dir == "docs"


def test_the_worker_gathers_memories_and_what_a_model_is_asked_about() -> None:
    assert FineTunePlan().is_gathered
    assert not FineTunePlan(uses_memories=False, source_dir="docs").is_gathered
    assert FineTunePlan(uses_memories=False, source_dir="docs", llm_questions=1).is_gathered


def test_the_defaults_are_those_of_the_reference() -> None:
    plan = FineTunePlan()
    assert (plan.epochs, plan.learning_rate, plan.temperature) == (3, None, 0.02)
    assert (plan.top_k, plan.batch_size, plan.validation_split) == (4, 128, 0.1)
