"""The models of the reference that are made in code and have no key in the file."""

from typing import Any

import pytest
from pydantic import ValidationError

from memcore.config.finetune import EmbeddingFineTuneConfig, FineTuneExecutionConfig
from memcore.config.maintenance import RetentionRule
from memcore.config.memory import MemoryConfig
from memcore.config.retrieval import SelfEditingMemoryConfig
from memcore.models.base import Frozen
from memcore.models.memory import MemoryCategory, MemoryLevel

RULE = {"category": "semantic", "retention_days": 3}


@pytest.mark.parametrize(
    ("model", "values", "problem"),
    [
        (MemoryConfig, {"type": "none", "retention_days": 3}, "retention_days must be null when type is none"),
        (MemoryConfig, {"retention_days": 0}, "greater than or equal to 1"),
        (MemoryConfig, {"retention_overrides": [RULE, RULE]}, "category semantic has more than one rule"),
        (SelfEditingMemoryConfig, {"archival_categories": []}, "must name at least one category"),
        (SelfEditingMemoryConfig, {"archival_categories": ["working"]}, "must not name working"),
        (SelfEditingMemoryConfig, {"core_memory_token_budget": 255}, "greater than or equal to 256"),
        (SelfEditingMemoryConfig, {"core_memory_token_budget": 8193}, "less than or equal to 8192"),
        (SelfEditingMemoryConfig, {"core_max_entries": 201}, "less than or equal to 200"),
        (SelfEditingMemoryConfig, {"archival_search_limit": 51}, "less than or equal to 50"),
        (SelfEditingMemoryConfig, {"core_memory_tag": " "}, "at least 1 character"),
        (EmbeddingFineTuneConfig, {"enabled": True}, "checkpoint_path and base_model must be set"),
        (EmbeddingFineTuneConfig, {"enabled": True, "base_model": "m"}, "checkpoint_path and base_model must be set"),
        (EmbeddingFineTuneConfig, {"checkpoint_path": "../x"}, "must not contain '..'"),
        (EmbeddingFineTuneConfig, {"base_model": "C:\\m"}, "must be a POSIX path"),
        (EmbeddingFineTuneConfig, {"training_data_dir": "a/../../b"}, "must not contain '..'"),
        (FineTuneExecutionConfig, {"backend": "docker"}, "image must be set when backend is docker"),
        (FineTuneExecutionConfig, {"timeout_seconds": 0}, "greater than 0"),
        (FineTuneExecutionConfig, {"backend": "ssh"}, "'in-process' or 'docker'"),
        (RetentionRule, {"category": "semantic"}, "Field required"),
    ],
)
def test_a_value_that_breaks_a_rule_is_refused(model: type[Frozen], values: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        model.model_validate(values)


def test_the_defaults_are_those_of_the_reference() -> None:
    assert MemoryConfig().model_dump() == {
        "type": MemoryLevel.SESSION,
        "retention_days": None,
        "retention_overrides": (),
    }
    assert SelfEditingMemoryConfig().model_dump() == {
        "core_memory_token_budget": 1024,
        "core_memory_tag": "core",
        "allow_core_writes": True,
        "core_max_entries": 20,
        "archival_search_limit": 10,
        "archival_categories": frozenset(MemoryCategory) - {MemoryCategory.WORKING},
        "write_auto_tag": True,
    }
    assert FineTuneExecutionConfig().model_dump() == {
        "backend": "in-process",
        "image": None,
        "gpu_enabled": False,
        "memory_limit": "8g",
        "timeout_seconds": 7200.0,
    }
    assert EmbeddingFineTuneConfig().model_dump() == {
        "enabled": False,
        "checkpoint_path": None,
        "base_model": None,
        "training_data_dir": None,
    }


def test_a_complete_fine_tune_is_taken() -> None:
    config = EmbeddingFineTuneConfig(enabled=True, checkpoint_path="/data/ft/1", base_model="sentence/all-MiniLM-L6-v2")

    assert config.enabled
