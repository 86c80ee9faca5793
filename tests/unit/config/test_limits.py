"""Every bound of every key, from both sides."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from support.memories import NOW

from memcore.config.loader import load_policy
from memcore.errors import MemoryConfigError
from memcore.models.base import Frozen

RETRIEVAL = "memory.retrieval."
CONSOLIDATION = "memory.consolidation."
LLM = CONSOLIDATION + "llm."
DUAL = CONSOLIDATION + "archival.dual_mode."
COMPRESSOR = CONSOLIDATION + "experience_compressor."
PROCEDURAL = "memory.procedural."

#: key, the last values that are taken, the first ones that are not
BOUNDS: list[tuple[str, list[object], list[object]]] = [
    ("memory.options.retention_days", [1, "null"], [0]),
    ("memory.options.max_memories_per_agent", [1], [0]),
    ("memory.approvals.expire_days", [1, 365], [0, 366]),
    ("memory.approvals.max_waiting", [1, 10_000], [0, 10_001]),
    ("memory.options.session_timeout_hours", [1, "null"], [0]),
    ("memory.options.project_timeout_hours", [1, "null"], [0]),
    ("memory.options.task_timeout_hours", [1, "null"], [0]),
    (RETRIEVAL + "recency_decay_rate", [0.0], [-0.1]),
    (RETRIEVAL + "personal_boost", [0.0, 1.0], [-0.1, 1.1]),
    (RETRIEVAL + "min_relevance", [0.0, 1.0], [-0.1, 1.1, ".nan", ".inf"]),
    (RETRIEVAL + "max_memories", [1, 100], [0, 101]),
    (RETRIEVAL + "default_relevance", [0.0, 1.0], [-0.1, 1.1]),
    (RETRIEVAL + "rrf_k", [1, 1000], [0, 1001]),
    (RETRIEVAL + "dense_weight", [0.0, 1.0], [-0.1, 1.1]),
    (RETRIEVAL + "diversity_lambda", [0.0, 1.0], [-0.1, 1.1]),
    (RETRIEVAL + "candidate_pool_multiplier", [1, 10], [0, 11]),
    (RETRIEVAL + "max_reformulation_rounds", [1, 5], [0, 6]),
    (RETRIEVAL + "max_workers_per_query", [1, 4], [0, 5]),
    (RETRIEVAL + "max_retry_count", [0, 5], [-1, 6]),
    (RETRIEVAL + "query_specific_rerank_enabled", ["false", "true"], ["maybe"]),
    (RETRIEVAL + "rerank_cache_ttl_seconds", [60, 86400], [59, 86401]),
    (RETRIEVAL + "strategy", ["context", "tool_based", "self_editing"], ["passive"]),
    (RETRIEVAL + "fusion_strategy", ["linear", "rrf", "weighted"], ["borda"]),
    (RETRIEVAL + "injection_point", ["system", "user"], ["assistant"]),
    (RETRIEVAL + "retriever", ["flat", "hierarchical"], ["deep"]),
    (RETRIEVAL + "self_editing.core_memory_token_budget", [256, 8192], [255, 8193]),
    (RETRIEVAL + "self_editing.core_max_entries", [1, 200], [0, 201]),
    (RETRIEVAL + "self_editing.archival_search_limit", [1, 50], [0, 51]),
    (RETRIEVAL + "self_editing.archival_categories", ["[episodic]"], ["[]", "[working]"]),
    (RETRIEVAL + "sparse_term_weight", ["saturated", "raw"], ["log"]),
    (CONSOLIDATION + "interval", ["hourly", "daily", "weekly", "never"], ["monthly"]),
    (CONSOLIDATION + "max_memories_per_agent", [1], [0]),
    (CONSOLIDATION + "strategy", ["none", "simple", "dual_mode", "llm"], ["magic"]),
    (CONSOLIDATION + "min_age_days", [0], [-1]),
    (CONSOLIDATION + "group_threshold", [2], [1]),
    (CONSOLIDATION + "group_max_entries", [2], [1]),
    (CONSOLIDATION + "group_max_tokens", [100], [99]),
    (CONSOLIDATION + "max_removed_fraction", [0.01, 1.0], [0.0, 1.1]),
    (CONSOLIDATION + "max_removed_floor", [0], [-1]),
    (CONSOLIDATION + "first_runs_fraction", [0, 1.0], [-0.1, 1.1]),
    (CONSOLIDATION + "apply", ["auto", "propose"], ["ask"]),
    (CONSOLIDATION + "journal_days", [1], [0]),
    (CONSOLIDATION + "restored_hold_days", [0], [-1]),
    (CONSOLIDATION + "gate.max_loss", [0.0, 1.0], [-0.1, 1.1]),
    (CONSOLIDATION + "gate.prompt_tokens", [50], [49]),
    (CONSOLIDATION + "retention.default_retention_days", [1, "null"], [0]),
    (CONSOLIDATION + "archival.age_threshold_days", [1], [0]),
    (
        CONSOLIDATION + "categories",
        ["[episodic]", "[episodic, semantic, procedural, social]", "null"],
        ["[]", "[working]", "[episodic, working]", "episodic"],
    ),
    (CONSOLIDATION + "archival.keep_days", [1], [0]),
    (DUAL + "dense_threshold", [0.0, 1.0], [-0.1, 1.1]),
    (DUAL + "max_summary_tokens", [50, 1000], [49, 1001]),
    (DUAL + "max_facts", [1, 100], [0, 101]),
    (DUAL + "anchor_length", [50, 500], [49, 501]),
    (COMPRESSOR + "temperature", [0.0, 1.0], [-0.1, 1.1]),
    (COMPRESSOR + "max_tokens", [100, 4000], [99, 4001]),
    (COMPRESSOR + "min_compression_ratio", [0.0, 0.99], [-0.1, 1.0]),
    (CONSOLIDATION + "wiki_export.max_entries_per_view", [1, 1000, "null"], [0, 1001]),
    (CONSOLIDATION + "wiki_export.trigger", ["manual", "on_consolidation"], ["hourly"]),
    (LLM + "group_threshold", [3], [2]),
    (LLM + "temperature", [0.0, 2.0], [-0.1, 2.1]),
    (LLM + "max_summary_tokens", [50], [49]),
    (LLM + "max_trajectory_context_entries", [1], [0]),
    (LLM + "max_trajectory_chars_per_entry", [50], [49]),
    (LLM + "max_entry_input_chars", [100, 20000], [99]),
    (LLM + "max_total_user_content_chars", [2000], [999]),
    (LLM + "fallback_truncate_length", [50], [49]),
    (PROCEDURAL + "temperature", [0.0, 2.0], [-0.1, 2.1]),
    (PROCEDURAL + "max_tokens", [1], [0]),
    (PROCEDURAL + "min_confidence", [0.0, 1.0], [-0.1, 1.1]),
    (PROCEDURAL + "model", ["a-model"], ["''", "'  '", "null"]),
    (PROCEDURAL + "capture.type", ["failure", "success", "hybrid"], ["all"]),
    (PROCEDURAL + "capture.min_quality_score", [0.0, 10.0], [-0.1, 10.1]),
    (PROCEDURAL + "capture.success_quality_percentile", [0.0, 100.0], [-0.1, 100.1]),
    (PROCEDURAL + "pruning.type", ["ttl", "pareto", "hybrid"], ["none"]),
    (PROCEDURAL + "pruning.max_age_days", [1], [0]),
    (PROCEDURAL + "pruning.max_entries", [1], [0]),
    (PROCEDURAL + "propagation.type", ["none", "role", "department"], ["all"]),
    (PROCEDURAL + "propagation.max_propagation_targets", [1], [0]),
    (PROCEDURAL + "evolver.min_confidence_for_org_promotion", [0.0, 1.0], [-0.1, 1.1]),
    (PROCEDURAL + "evolver.min_agents_seen_pattern", [1], [0]),
    (PROCEDURAL + "evolver.max_proposals_per_cycle", [1], [0]),
    (PROCEDURAL + "evolver.max_org_entries", [1], [0]),
    (PROCEDURAL + "evolver.requires_human_approval", ["true"], ["false"]),
    ("memory.backend", ["mem0", "inmemory"], ["redis"]),
    ("memory.level", ["persistent", "project", "session", "none"], ["forever"]),
    ("memory.storage.vector_store", ["qdrant", "qdrant-external"], ["faiss"]),
    ("memory.storage.history_store", ["sqlite", "postgresql"], ["mysql"]),
    ("memory.llm.model", ["a-model", "null"], ["''"]),
    ("memory.llm.api", ["auto", "chat", "responses", "anthropic", "ollama"], ["openai"]),
    ("memory.llm.context_tokens", [1024, 10_000_000, "null"], [1023, 10_000_001]),
    (
        "memory.llm.extra_body",
        ["{reasoning_effort: low}", "{options: {num_gpu: 1}}"],
        ["{max_tokens: 5}", "{model: x}", "{options: {num_ctx: 5}}"],
    ),
    (
        "memory.llm.extra_headers",
        ["{X-Team: red}", "{Authorization: Basic abc=}"],
        ["{Host: x}", "{'a b': x}", "{X-Team: ''}", '{X-Team: "a\\nb"}'],
    ),
    ("memory.llm.timeout_seconds", [1.0, 600.0], [0.9, 600.1]),
    ("memory.llm.attempts", [1, 10], [0, 11]),
    ("memory.llm.prices.a-model", ["{prompt_per_million: 0, completion_per_million: 2.5}"], ["null"]),
    ("memory.llm.prices.a-model.prompt_per_million", [], [-0.1, "null"]),
    ("memory.budgets.tokens_per_agent_per_day", [0, 1, "null"], [-1]),
    ("memory.budgets.cost_per_agent_per_day", [0, 0.01, "null"], [-0.01]),
    ("memory.fine_tune.backend", ["in-process"], ["ssh"]),
    ("memory.fine_tune.image", ["registry.example/tuner@sha256:0", "null"], ["''"]),
    ("memory.fine_tune.memory_limit", ["8g", "512m", "1B"], ["much", "0g", "8", "1.5g", "-1g"]),
    ("memory.fine_tune.timeout_seconds", [0.1, 39_600.0], [0.0, 39_600.1]),
    ("org_memory.backend", ["hybrid_prompt_retrieval"], ["graph"]),
    ("org_memory.extended_store.backend", ["sqlite"], ["redis"]),
    ("org_memory.extended_store.max_retrieved_per_query", [1, 50], [0, 51]),
]


def text_of(key: str, value: object) -> str:
    *parents, last = key.split(".")
    lines = [f"{'  ' * depth}{parent}:" for depth, parent in enumerate(parents)]
    return "\n".join([*lines, f"{'  ' * len(parents)}{last}: {value}"])


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, taken, _ in BOUNDS for value in taken])
def test_a_value_at_its_limit_is_taken(key: str, value: object) -> None:
    load_policy(text_of(key, value))


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, _, refused in BOUNDS for value in refused])
def test_a_value_beyond_its_limit_is_refused_by_its_key(key: str, value: object) -> None:
    with pytest.raises(MemoryConfigError) as caught:
        load_policy(text_of(key, value))

    sentence = str(caught.value)
    assert sentence.startswith(f"{key}: ")
    assert "\n" not in sentence


@pytest.mark.parametrize("key", ["memory.storage.data_dir", CONSOLIDATION + "wiki_export.export_root"])
@pytest.mark.parametrize("path", ["../x", "/data/../etc", r"a\..\b", r"C:\x", "C:/x", "c:x", r"\\host\share", r"a\b"])
def test_a_path_that_climbs_out_or_is_of_windows_is_refused(key: str, path: str) -> None:
    with pytest.raises(MemoryConfigError, match=rf"^{key}: must (not contain '\.\.'|be a POSIX path)"):
        load_policy(text_of(key, f"'{path}'"))


@pytest.mark.parametrize("path", ["/data/memory", "data/..hidden", "a..b/c", "/srv/m:emory"])
def test_a_plain_path_is_taken_as_it_is(path: str) -> None:
    assert load_policy(text_of("memory.storage.data_dir", path)).memory.storage.data_dir == path


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (RETRIEVAL + "max_memories", "'20'"),
        (RETRIEVAL + "max_memories", "yes"),
        (RETRIEVAL + "max_memories", "20.0"),
        (RETRIEVAL + "sparse", "'yes'"),
        (RETRIEVAL + "sparse", "1"),
        (PROCEDURAL + "model", "5"),
        (CONSOLIDATION + "retention.rules", "{}"),
        ("org_memory.core_policies", "a policy"),
    ],
)
def test_a_value_of_another_type_is_not_guessed_at(key: str, value: str) -> None:
    with pytest.raises(MemoryConfigError, match=f"^{key}: should be a valid "):
        load_policy(text_of(key, value))


@pytest.mark.parametrize("section", ["memory", "memory.retrieval", "memory.procedural.evolver", "org_memory"])
@pytest.mark.parametrize("value", ["null", "[]", "5", "text"])
def test_a_section_that_is_no_mapping_is_refused(section: str, value: str) -> None:
    with pytest.raises(MemoryConfigError, match=f"^{section}: should be a mapping"):
        load_policy(text_of(section, value))


def test_no_term_is_longer_than_there_are_dates() -> None:
    models = [each for each in _every(Frozen) if each.__module__.startswith("memcore.config.")]
    terms = [
        (f"{model.__name__}.{name}", name.rpartition("_")[2], field.metadata)
        for model in models
        for name, field in model.model_fields.items()
        if name.rpartition("_")[2] in {"days", "hours", "minutes", "seconds"}
    ]
    assert len(terms) > 30
    for name, unit, metadata in terms:
        most = [getattr(each, "le", None) or getattr(each, "lt", None) for each in metadata]
        longest = [timedelta(**{unit: each}) for each in most if each is not None]
        assert longest, f"{name}: has no longest term"
        assert NOW - longest[0] < NOW < NOW + longest[0], name


def _every(model: type[Frozen]) -> Iterator[type[Frozen]]:
    for each in model.__subclasses__():
        yield each
        yield from _every(each)
