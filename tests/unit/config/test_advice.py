from pathlib import Path

import pytest
import yaml

from memcore.config.loader import load_policy
from memcore.config.policy import Policy, log_once


def warnings_of(section: str, text: str) -> list[str]:
    warnings = Policy.model_validate(yaml.safe_load(f"memory: {{{section}: {{{text}}}}}")).warnings
    assert all(warning.startswith(f"memory.{section}.") for warning in warnings)
    return [warning.removeprefix(f"memory.{section}.") for warning in warnings]


def test_the_defaults_give_no_cause_for_a_warning() -> None:
    assert load_policy("").warnings == ()


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("rrf_k: 50", ["rrf_k has no effect: fusion_strategy is weighted"]),
        ("rrf_k: 50, fusion_strategy: rrf", []),
        ("dense_weight: 0.5", []),
        ("dense_weight: 0.5, fusion_strategy: linear", ["dense_weight has no effect: fusion_strategy is linear"]),
        (
            "personal_boost: 0.2, fusion_strategy: rrf",
            ["personal_boost has no effect: fusion_strategy is rrf, except when keywords find nothing"],
        ),
        (
            "relevance_weight: 0.5, recency_weight: 0.5, recency_decay_rate: 0.5, fusion_strategy: rrf",
            [
                "relevance_weight has no effect: fusion_strategy is rrf, except when keywords find nothing",
                "recency_weight has no effect: fusion_strategy is rrf, except when keywords find nothing",
                "recency_decay_rate has no effect: fusion_strategy is rrf, except when keywords find nothing",
            ],
        ),
        (
            "max_retry_count: 1, retriever: hierarchical, reflective_retry_enabled: false",
            ["max_retry_count has no effect: reflective_retry_enabled is false"],
        ),
        (
            "sparse: false",
            ["sparse is false: weighted has vectors alone to rank and does what linear does"],
        ),
        ("sparse: false, fusion_strategy: linear", []),
        (
            "diversity_lambda: 0.5, candidate_pool_multiplier: 4",
            [
                "diversity_lambda has no effect: diversity_penalty_enabled is false",
                "candidate_pool_multiplier has no effect: diversity_penalty_enabled is false",
            ],
        ),
        ("diversity_lambda: 0.5, diversity_penalty_enabled: true", []),
        (
            "diversity_penalty_enabled: true, strategy: tool_based",
            ["diversity_penalty_enabled has no effect: strategy tool_based ignores it"],
        ),
        (
            "max_workers_per_query: 3, reflective_retry_enabled: false, max_retry_count: 1",
            [
                "max_workers_per_query has no effect: retriever is flat",
                "reflective_retry_enabled has no effect: retriever is flat",
                "max_retry_count has no effect: retriever is flat",
            ],
        ),
        ("max_workers_per_query: 3, retriever: hierarchical", []),
        (
            "rerank_cache_ttl_seconds: 60",
            ["rerank_cache_ttl_seconds has no effect: query_specific_rerank_enabled is false"],
        ),
        (
            "max_reformulation_rounds: 3",
            ["max_reformulation_rounds has no effect: query_reformulation_enabled is false"],
        ),
    ],
)
def test_a_retrieval_setting_without_effect_is_named(text: str, warnings: list[str]) -> None:
    assert warnings_of("retrieval", text) == warnings


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (
            "strategy: dual_mode",
            [
                (
                    "strategy is dual_mode, and archival.dual_mode.enabled is false: "
                    "runs wait until it is enabled and names a summarization_model"
                )
            ],
        ),
        ("strategy: dual_mode, archival: {dual_mode: {enabled: true, summarization_model: m}}", []),
        ("llm: {temperature: 0.1}", ["llm has no effect: strategy is dedupe"]),
        ("condense: {keep_share: 0.4}", ["condense has no effect: strategy is dedupe"]),
        ("condense: {keep_share: 0.4}, strategy: condense", []),
        ("group_threshold: 4", ["group_threshold has no effect: strategy is dedupe"]),
        ("archival: {enabled: true}", []),
        (
            "archival: {enabled: false, age_threshold_days: 30}",
            [
                (
                    "archival.enabled has no effect: "
                    "what the limit removes and what consolidation replaces is always archived"
                ),
                (
                    "archival.age_threshold_days has no effect: "
                    "strategy is dedupe, and dual_mode alone waits until memories are so old"
                ),
            ],
        ),
        ("categories: [social]", []),
        ("categories: [social], strategy: none", ["categories has no effect: strategy is none"]),
        ("condense: {keep_share: 0.4}, strategy: simple", ["condense has no effect: strategy is simple"]),
        ("llm: {temperature: 0.1}, strategy: llm", []),
        ("group_threshold: 4, strategy: llm", ["group_threshold has no effect: strategy llm has llm.group_threshold"]),
    ],
)
def test_a_consolidation_setting_without_effect_is_named(text: str, warnings: list[str]) -> None:
    assert warnings_of("consolidation", text) == warnings


@pytest.mark.parametrize(
    ("section", "text", "warnings"),
    [
        ("embedder", "fine_tune: {enabled: true, checkpoint_path: /c, base_model: b}", []),
        (
            "embedder",
            "model: m, dims: 3, fine_tune: {enabled: true, checkpoint_path: /c, base_model: b}",
            [f"{name} has no effect: fine_tune.enabled is true" for name in ("model", "dims")],
        ),
        (
            "embedder",
            "fine_tune: {checkpoint_path: /c, base_model: b, training_data_dir: d}",
            [
                "fine_tune.checkpoint_path has no effect: enabled is false",
                "fine_tune.base_model has no effect: enabled is false",
                "fine_tune.training_data_dir has no effect: what a run is trained on is said when it is started",
            ],
        ),
        ("fine_tune", "backend: docker, image: i, gpu_enabled: true, memory_limit: 1g", []),
        (
            "fine_tune",
            "image: i, gpu_enabled: true",
            [
                f"{name} has no effect: backend is in-process, "
                "and that changes only where MEMTEND_FINE_TUNE_IMAGE names an image"
                for name in ("image", "gpu_enabled")
            ],
        ),
    ],
)
def test_a_setting_of_fine_tuning_without_effect_is_named(section: str, text: str, warnings: list[str]) -> None:
    assert warnings_of(section, text) == warnings


def test_a_process_logs_each_setting_without_effect_once_by_name(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "memory: {retrieval: {rrf_k: 77, diversity_lambda: 0.77, rerank_cache_ttl_seconds: 77, max_retry_count: 3}}"
    )
    log_once.cache_clear()  # other tests of this process have loaded the like

    for _ in range(3):
        load_policy(path)

    logged = [(record.levelname, getattr(record, "key", None)) for record in caplog.records]
    names = ("rrf_k", "diversity_lambda", "rerank_cache_ttl_seconds", "max_retry_count")
    assert logged == [("WARNING", f"memory.retrieval.{name}") for name in names]
    assert caplog.records[0].getMessage() == (
        "memory.config.no_effect: memory.retrieval.rrf_k has no effect: fusion_strategy is weighted"
    )

    path.write_text("memory: {retrieval: {rrf_k: 77, personal_boost: 0.77, fusion_strategy: rrf}}")
    load_policy(path)
    assert [getattr(record, "key", None) for record in caplog.records[4:]] == ["memory.retrieval.personal_boost"]
