"""Plans: refused values, and the names of their fields."""

import pytest

from memcore.errors import MemoryInputError
from memcore.models.finetune import FineTunePlan, Recipe


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
        ("minutes", 0.0),
        ("minutes", 661.0),
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


def test_both_kinds_are_trained_by_default_each_with_what_the_benchmark_measured() -> None:
    plan = FineTunePlan()
    assert plan.kinds == ("static", "transformer")
    assert (plan.epochs, plan.temperature, plan.top_k, plan.minutes) == (3, 0.02, 1, 30.0)
    assert plan.recipe("transformer") == Recipe(learning_rate=5e-5, batch_size=32, max_pairs=1_500)
    assert plan.recipe("static") == Recipe(learning_rate=2e-3, batch_size=128, max_pairs=5_000)
    mine = FineTunePlan(kind="static", learning_rate=0.1, batch_size=8, max_pairs=9)
    assert (mine.kinds, mine.recipe("static")) == (("static",), Recipe(learning_rate=0.1, batch_size=8, max_pairs=9))


def test_one_learning_rate_is_not_for_two_kinds() -> None:
    with pytest.raises(MemoryInputError, match=r"^learning_rate: differs by the kind"):
        FineTunePlan(learning_rate=1e-4)
