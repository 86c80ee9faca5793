"""Every validator of the reference's configuration models, by its name there.

``CLASS.validator`` stands in the reference; the test of that name shows what it lets through and what it stops. Those
that the reference only warns about are warnings here too (see test_advice for all of their sentences).
"""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from memcore.config.loader import load_policy
from memcore.config.organization import WriteAccessConfig
from memcore.config.policy import Policy
from memcore.errors import MemoryConfigError


def valid(text: str) -> Policy:
    """Return a policy that the models let through, also one of parts that an engine brings itself."""
    return Policy.model_validate(yaml.safe_load(text))


def loads(text: str) -> Policy:
    """Return a policy that is sound in every respect."""
    policy = valid(text)
    assert policy.warnings == ()
    return policy


def warned(text: str) -> list[str]:
    """Return the keys of a valid policy that have no effect."""
    return [sentence.split(" ")[0].rpartition(".")[2] for sentence in valid(text).warnings]


def refused(text: str) -> str:
    with pytest.raises(MemoryConfigError) as caught:
        load_policy(text)
    return str(caught.value)


def retrieval(text: str) -> str:
    return f"memory: {{retrieval: {{{text}}}}}"


def consolidation(text: str) -> str:
    return f"memory: {{consolidation: {{{text}}}}}"


# MemoryRetrievalConfig


def test_validate_weight_sum() -> None:
    loads(retrieval("relevance_weight: 0.6, recency_weight: 0.4, fusion_strategy: linear"))
    loads(retrieval("relevance_weight: 0.1, recency_weight: 0.9000001"))
    assert "must be 1.0" in refused(retrieval("relevance_weight: 0.6, recency_weight: 0.3, fusion_strategy: linear"))
    assert "must be 1.0" in refused(retrieval("relevance_weight: 0.699998, recency_weight: 0.3"))
    load_policy(retrieval("relevance_weight: 0.6, recency_weight: 0.3, fusion_strategy: rrf"))


def test_validate_rrf_k_strategy_consistency() -> None:
    loads(retrieval("rrf_k: 10, fusion_strategy: rrf"))
    assert warned(retrieval("rrf_k: 10, fusion_strategy: linear")) == ["rrf_k"]
    assert warned(retrieval("rrf_k: 10")) == ["rrf_k"]


def test_validate_diversity_lambda_consistency() -> None:
    loads(retrieval("diversity_lambda: 0.2, diversity_penalty_enabled: true"))
    assert warned(retrieval("diversity_lambda: 0.2")) == ["diversity_lambda"]


def test_validate_diversity_strategy_consistency() -> None:
    loads(retrieval("diversity_penalty_enabled: true, strategy: context"))
    for strategy in ("tool_based", "self_editing"):
        assert warned(retrieval(f"diversity_penalty_enabled: true, strategy: {strategy}")) == [
            "diversity_penalty_enabled"
        ]


def test_validate_reformulation_requires_tool_based() -> None:
    loads(retrieval("query_reformulation_enabled: true, strategy: tool_based"))
    for strategy in ("context", "self_editing"):
        assert "needs strategy tool_based" in refused(
            retrieval(f"query_reformulation_enabled: true, strategy: {strategy}")
        )


def test_validate_personal_boost_rrf_consistency() -> None:
    for fusion in ("linear", "weighted"):
        loads(retrieval(f"personal_boost: 0.3, fusion_strategy: {fusion}"))
    assert warned(retrieval("personal_boost: 0.3, fusion_strategy: rrf")) == ["personal_boost"]


def test_validate_pool_multiplier_consistency() -> None:
    loads(retrieval("candidate_pool_multiplier: 5, diversity_penalty_enabled: true"))
    assert warned(retrieval("candidate_pool_multiplier: 5")) == ["candidate_pool_multiplier"]


def test_validate_supported_strategy() -> None:
    for strategy in ("context", "tool_based", "self_editing"):
        loads(retrieval(f"strategy: {strategy}"))
    assert refused(retrieval("strategy: passive")).startswith("memory.retrieval.strategy: ")


def test_validate_hierarchical_requires_context() -> None:
    loads(retrieval("retriever: hierarchical, strategy: context"))
    for strategy in ("tool_based", "self_editing"):
        assert "needs strategy context" in refused(retrieval(f"retriever: hierarchical, strategy: {strategy}"))


def test_validate_hierarchical_field_consistency() -> None:
    fields = {"max_workers_per_query": 3, "reflective_retry_enabled": "false", "max_retry_count": 1}
    for name, value in fields.items():
        assert warned(retrieval(f"{name}: {value}")) == [name]
        loads(retrieval(f"{name}: {value}, retriever: hierarchical"))


def test_validate_rerank_cache_ttl_consistency() -> None:
    loads(retrieval("rerank_cache_ttl_seconds: 60, query_specific_rerank_enabled: true"))
    assert warned(retrieval("rerank_cache_ttl_seconds: 60")) == ["rerank_cache_ttl_seconds"]


# CompanyMemoryConfig


def test_validate_backend_name() -> None:
    loads("memory: {backend: mem0}")
    loads("memory: {backend: inmemory}")
    assert refused("memory: {backend: mem1}").startswith("memory.backend: ")


def test_validate_composite_config() -> None:
    loads("memory: {backend: composite, composite: {default: mem0}}")
    assert "composite must be given" in refused("memory: {backend: composite}")
    for backend in ("mem0", "inmemory"):
        assert "composite must not be given" in refused(f"memory: {{backend: {backend}, composite: {{}}}}")


def test_apply_mirrors() -> None:
    # In the reference settings from elsewhere overwrite these keys; here two keys of the file mean one thing.
    policy = loads("memory: {options: {max_memories_per_agent: 7, consolidation_interval: weekly}}").memory
    assert (policy.consolidation.max_memories_per_agent, policy.consolidation.interval) == (7, "weekly")
    policy = loads(consolidation("max_memories_per_agent: 7, interval: hourly")).memory
    assert (policy.options.max_memories_per_agent, policy.options.consolidation_interval) == (7, "hourly")


# MemoryStorageConfig


def test_validate_store_names() -> None:
    loads("memory: {storage: {vector_store: qdrant-external, history_store: postgresql}}")
    assert refused("memory: {storage: {vector_store: chroma}}").startswith("memory.storage.vector_store: ")
    assert refused("memory: {storage: {history_store: mysql}}").startswith("memory.storage.history_store: ")


@pytest.mark.parametrize("path", ["/data/../etc", "..", "/a/b/..", "a\\\\..\\\\b", "C:\\\\data"])
@pytest.mark.parametrize("key", ["storage.data_dir", "consolidation.wiki_export.export_root"])
def test_reject_traversal(key: str, path: str) -> None:
    *sections, name = key.split(".")
    text = f'{name}: "{path}"'
    for section in reversed(["memory", *sections]):
        text = f"{section}: {{{text}}}"
    assert refused(text).startswith(f"memory.{key}: ")
    load_policy(text.replace(path, "/data/..hidden/m..n"))


# EmbedderOverrideConfig


def test_model_requires_dims() -> None:
    loads("memory: {embedder: {model: m, dims: 8}}")
    assert "dims must be set" in refused("memory: {embedder: {model: m}}")


# RetentionConfig, DualModeConfig, LLMConsolidationConfig, WriteAccessConfig


def test_validate_unique_categories() -> None:
    rule, other = "{category: social, retention_days: 3}", "{category: episodic, retention_days: 3}"
    loads(consolidation(f"retention: {{rules: [{rule}, {other}]}}"))
    assert "more than one rule" in refused(consolidation(f"retention: {{rules: [{rule}, {other}, {rule}]}}"))


def test_validate_model_when_enabled() -> None:
    loads(
        consolidation("strategy: dual_mode, archival: {dual_mode: {enabled: true, summarization_model: small-model}}")
    )
    assert "summarization_model must be set" in refused(consolidation("archival: {dual_mode: {enabled: true}}"))


def test_validate_entry_vs_total_chars() -> None:
    sizes = "max_entry_input_chars: {}, max_total_user_content_chars: {}"
    loads(consolidation(f"strategy: llm, llm: {{{sizes.format(3000, 3000)}}}"))
    assert "must not exceed" in refused(consolidation(f"strategy: llm, llm: {{{sizes.format(3001, 3000)}}}"))


def test_wrap_rules_readonly() -> None:
    rules = WriteAccessConfig().rules
    assert isinstance(rules, Mapping)
    with pytest.raises(TypeError):
        rules[next(iter(rules))] = rules[next(iter(rules))]  # type: ignore[index]  # the point


#: The validators that the reference lists for its configuration models, without the underscore before each.
VALIDATORS = """
validate_weight_sum validate_rrf_k_strategy_consistency validate_diversity_lambda_consistency
validate_diversity_strategy_consistency validate_reformulation_requires_tool_based
validate_personal_boost_rrf_consistency validate_pool_multiplier_consistency validate_supported_strategy
validate_hierarchical_requires_context validate_hierarchical_field_consistency validate_rerank_cache_ttl_consistency
validate_backend_name validate_composite_config apply_mirrors validate_store_names reject_traversal model_requires_dims
validate_unique_categories validate_model_when_enabled validate_entry_vs_total_chars wrap_rules_readonly
"""


def test_every_validator_of_the_reference_has_its_test() -> None:
    tests = set(re.findall(r"^def test_(\w+)", Path(__file__).read_text(encoding="utf-8"), re.MULTILINE))

    assert set(VALIDATORS.split()) <= tests
