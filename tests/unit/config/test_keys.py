"""The whole schema, written out from the reference: a key that comes, goes or changes must change here too."""

import pytest
from reference.keys import ADDED as REASONS
from reference.keys import keys

from memcore.config.errors import key_names, nearest
from memcore.config.explain import explain
from memcore.config.policy import Policy

#: Keys whose default differs stand here with memtend's; docs/reference/configuration.md has the reason ("Values that
#: differ from the reference").
REFERENCE = """
memory.backend mem0
memory.level persistent
memory.storage.data_dir /data/memory
memory.storage.vector_store qdrant
memory.storage.history_store sqlite
memory.options.retention_days None
memory.options.max_memories_per_agent 10000
memory.options.consolidation_interval daily
memory.options.shared_knowledge_base True
memory.retrieval.strategy context
memory.retrieval.relevance_weight 0.95
memory.retrieval.recency_weight 0.05
memory.retrieval.recency_decay_rate 0.01
memory.retrieval.personal_boost 0.1
memory.retrieval.min_evidence 0.45
memory.retrieval.min_relevance 0.3
memory.retrieval.max_memories 20
memory.retrieval.include_shared True
memory.retrieval.default_relevance 0.5
memory.retrieval.injection_point system
memory.retrieval.non_inferable_only False
memory.retrieval.fusion_strategy weighted
memory.retrieval.rrf_k 60
memory.retrieval.diversity_penalty_enabled False
memory.retrieval.diversity_lambda 0.7
memory.retrieval.candidate_pool_multiplier 3
memory.retrieval.query_reformulation_enabled False
memory.retrieval.max_reformulation_rounds 2
memory.retrieval.retriever flat
memory.retrieval.max_workers_per_query 2
memory.retrieval.reflective_retry_enabled True
memory.retrieval.max_retry_count 2
memory.retrieval.query_specific_rerank_enabled False
memory.retrieval.rerank_cache_ttl_seconds 3600
memory.consolidation.enabled True
memory.consolidation.interval daily
memory.consolidation.max_memories_per_agent 10000
memory.consolidation.retention.rules []
memory.consolidation.retention.default_retention_days None
memory.consolidation.archival.enabled False
memory.consolidation.archival.age_threshold_days 90
memory.consolidation.archival.dual_mode.enabled False
memory.consolidation.archival.dual_mode.dense_threshold 0.5
memory.consolidation.archival.dual_mode.summarization_model None
memory.consolidation.archival.dual_mode.max_summary_tokens 200
memory.consolidation.archival.dual_mode.max_facts 20
memory.consolidation.archival.dual_mode.anchor_length 150
memory.consolidation.experience_compressor.enabled False
memory.consolidation.experience_compressor.model None
memory.consolidation.experience_compressor.temperature 0.3
memory.consolidation.experience_compressor.max_tokens 1000
memory.consolidation.experience_compressor.min_compression_ratio 0.0
memory.consolidation.wiki_export.enabled False
memory.consolidation.wiki_export.export_root /data/wiki
memory.consolidation.wiki_export.trigger manual
memory.consolidation.wiki_export.include_raw_tier True
memory.consolidation.wiki_export.include_compressed_tier True
memory.consolidation.wiki_export.max_entries_per_view None
memory.embedder None
memory.procedural.enabled True
memory.procedural.model example-small-001
memory.procedural.temperature 0.3
memory.procedural.max_tokens 1500
memory.procedural.min_confidence 0.5
memory.procedural.skill_md_directory None
memory.composite None
org_memory.backend hybrid_prompt_retrieval
org_memory.core_policies []
org_memory.extended_store.backend sqlite
org_memory.extended_store.max_retrieved_per_query 5
"""

ADDED = """
memory.storage.text_template {content}
memory.options.session_timeout_hours 24
memory.options.project_timeout_hours None
memory.options.task_timeout_hours 24
memory.retrieval.dense_weight None
memory.retrieval.sparse True
memory.retrieval.sparse_term_weight saturated
memory.retrieval.shared_fraction 0.3
memory.retrieval.max_per_publisher 3
memory.consolidation.changes.enabled False
memory.consolidation.changes.model None
memory.consolidation.changes.temperature 0.0
memory.consolidation.changes.max_tokens 100
memory.consolidation.search_notes.enabled False
memory.consolidation.search_notes.model None
memory.consolidation.search_notes.temperature 0.3
memory.consolidation.search_notes.max_tokens 200
memory.retrieval.standing weak
memory.retrieval.zoom True
memory.retrieval.passages True
memory.retrieval.time_zone UTC
memory.retrieval.hemisphere north
memory.retrieval.deadline_seconds 5.0
memory.retrieval.record_queries False
memory.retrieval.query_days 30
memory.retrieval.self_editing.core_memory_token_budget 1024
memory.retrieval.self_editing.core_memory_tag core
memory.retrieval.self_editing.allow_core_writes True
memory.retrieval.self_editing.core_max_entries 20
memory.retrieval.self_editing.archival_search_limit 10
memory.retrieval.self_editing.archival_categories ['episodic', 'procedural', 'semantic', 'social']
memory.retrieval.self_editing.write_auto_tag True
memory.consolidation.strategy dedupe
memory.consolidation.condense.keep_share 0.5
memory.consolidation.condense.target_tokens 800
memory.consolidation.apply auto
memory.consolidation.categories None
memory.consolidation.min_age_days 7
memory.consolidation.group_threshold 3
memory.consolidation.group_max_entries 20
memory.consolidation.group_max_tokens 2000
memory.consolidation.min_new 3
memory.consolidation.max_tokens_per_run 100000
memory.consolidation.max_removed_fraction 0.5
memory.consolidation.max_removed_floor 20
memory.consolidation.first_runs_fraction 0.1
memory.consolidation.journal_days 7
memory.consolidation.restored_hold_days 1
memory.consolidation.gate.ask_model False
memory.consolidation.gate.enabled True
memory.consolidation.gate.max_loss 0.02
memory.consolidation.gate.prompt_tokens 1000
memory.consolidation.archival.keep_days None
memory.consolidation.llm None
memory.procedural.capture.type hybrid
memory.procedural.capture.min_quality_score 8.0
memory.procedural.capture.success_quality_percentile 75.0
memory.procedural.pruning.type ttl
memory.procedural.pruning.max_age_days 90
memory.procedural.pruning.max_entries 100
memory.procedural.propagation.type none
memory.procedural.propagation.max_propagation_targets 10
memory.procedural.evolver.enabled False
memory.procedural.evolver.min_confidence_for_org_promotion 0.8
memory.procedural.evolver.min_agents_seen_pattern 3
memory.procedural.evolver.max_proposals_per_cycle 10
memory.procedural.evolver.max_org_entries 10000
memory.procedural.evolver.requires_human_approval True
memory.procedural.evolver.window_days 30
memory.procedural.evolver.min_precision 0.5
memory.procedural.evolver.keep_days 90
memory.llm.model None
memory.llm.api auto
memory.llm.context_tokens None
memory.llm.extra_body {}
memory.llm.extra_headers {}
memory.llm.timeout_seconds 60.0
memory.llm.attempts 4
memory.llm.patience_hours 24.0
memory.llm.prices {}
memory.budgets.tokens_per_agent_per_day 200000
memory.budgets.cost_per_agent_per_day None
memory.approvals.expire_days 14
memory.approvals.max_waiting 200
memory.fine_tune.backend in-process
memory.fine_tune.image None
memory.fine_tune.gpu_enabled False
memory.fine_tune.memory_limit 8g
memory.fine_tune.timeout_seconds 7200.0
memory.conversation.idle_minutes 20
memory.conversation.max_rules 20
memory.conversation.facts_shown 5
memory.conversation.arcs_shown 2
memory.conversation.arc_days 30
memory.conversation.transcript_hours 24
memory.conversation.archive_days 180
memory.conversation.crisis_days 365
memory.conversation.feedback_days 365
memory.conversation.model None
memory.conversation.temperature 0.0
memory.conversation.max_tokens 1500
memory.records.explained_days 30
memory.records.replaced_days 400
memory.records.history_days 1
memory.records.session_days 1
memory.records.usage_days 400
memory.records.audit_days 400
memory.records.experience_days 400
memory.origins.authority {'person': 'instruct', 'operator': 'instruct', 'agent': 'inform', 'unknown': 'inform', \
'tool': 'reference', 'document': 'reference', 'peer': 'reference', 'import': 'reference', 'suspect': 'reference'}
memory.origins.corroboration.least 0
memory.origins.corroboration.principals {}
memory.router.upstreams {}
memory.router.agent assistant
memory.router.token_budget 1000
"""


def table(text: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in text.strip().splitlines())


@pytest.mark.parametrize(("text", "is_added"), [(REFERENCE, False), (ADDED, True)], ids=["reference", "added"])
def test_the_keys_and_defaults_are_these_and_no_others(*, text: str, is_added: bool) -> None:
    added = {key.name for key in keys() if key.is_added}

    effective = {setting.key: str(setting.value) for setting in explain(Policy()) if (setting.key in added) is is_added}
    # The one value that is a table of its own is tested with the write rules.
    effective.pop("org_memory.write_access.rules", None)

    assert effective == table(text)


def test_every_reason_is_that_of_a_key() -> None:
    assert REASONS.keys() <= {key.name for key in keys()}


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("memory.retrival", "memory.retrieval"),
        ("memory.retrieval.max_memory", "memory.retrieval.max_memories"),
        ("retrieval", "memory.retrieval"),
        ("memory.interval", "memory.consolidation.interval"),
        ("org_memroy", "org_memory"),
        ("memory.retrieval.embeder", None),
        ("zzz", None),
    ],
)
def test_an_unknown_key_leads_to_the_one_that_was_meant(wrong: str, meant: str | None) -> None:
    assert nearest(wrong, list(key_names(Policy))) == meant
