"""The areas of the product whose lines mutants.py breaks, and the tests that must see it."""

MAINTENANCE, LEDGER = "tests/integration/maintenance", "tests/integration/ledger"

#: The tests that must see a mutant of an area; the quick ones come first, and the first failure ends them.
TESTS = {
    "lessons": (
        "tests/unit/procedural", "tests/unit/retrieval/test_surer.py", "tests/integration/procedural",
        f"{MAINTENANCE}/test_pruning.py",
    ),
    "proposals": (f"{MAINTENANCE}/test_proposals.py", f"{MAINTENANCE}/test_first_runs.py"),
    "fallbacks": (f"{MAINTENANCE}/test_fallbacks.py",),
    "journal": (
        f"{LEDGER}/test_journal.py", f"{LEDGER}/test_deletion.py", f"{LEDGER}/test_archive.py",
        f"{MAINTENANCE}/test_maintenance_run.py", f"{MAINTENANCE}/test_deleting.py", f"{MAINTENANCE}/test_crashes.py",
        f"{MAINTENANCE}/test_archiving_crashes.py",
    ),
    "leases": (
        "tests/unit/maintenance/test_lease.py", f"{LEDGER}/test_connections.py", f"{LEDGER}/test_runs.py",
        f"{MAINTENANCE}/test_pausing.py", f"{MAINTENANCE}/test_crashes.py", f"{MAINTENANCE}/test_removing.py",
    ),
    "isolation": (
        "tests/integration/backends/test_deletion.py", "tests/contract/backends",
        "tests/contract/shared/test_sharing.py", f"{LEDGER}/test_runs.py",
        f"{LEDGER}/test_companies.py", f"{LEDGER}/test_journal.py", f"{MAINTENANCE}/test_undo.py",
    ),
    "distrust": (
        "tests/unit/models", f"{MAINTENANCE}/test_distrust.py", f"{LEDGER}/test_distrusts.py",
        "tests/integration/erasure/test_distrusted.py", "tests/integration/erasure/test_distrust_doors.py",
        "tests/integration/erasure/test_distrusted_crowds.py", "tests/integration/erasure/test_distrusted_learning.py",
        "tests/integration/procedural/test_repeated.py",
    ),
    "undo": (
        f"{LEDGER}/test_journal.py", f"{MAINTENANCE}/test_undo.py", f"{MAINTENANCE}/test_undo_later.py",
        f"{MAINTENANCE}/test_deleting.py", f"{MAINTENANCE}/test_crashes.py",
    ),
    "search notes": (
        "tests/unit/maintenance/test_written_notes.py", "tests/contract/backends/test_search_notes.py",
        f"{MAINTENANCE}/test_search_notes.py", "tests/integration/backends/test_search_notes.py",
        f"{MAINTENANCE}/test_versions.py",
        "tests/integration/reindex/test_switch.py",
    ),
    "changes": ("tests/unit/maintenance/test_change_guards.py", f"{MAINTENANCE}/test_changes.py"),
    "asking": (
        "tests/unit/retrieval/strategies/test_answering.py", "tests/unit/memory_face/test_ask.py",
        "tests/unit/remote/test_requests.py", "tests/unit/llm/test_grounding.py",
    ),
    "declared": ("tests/unit/http/test_declared.py",),
    "languages": ("tests/unit/embedding", "tests/unit/backends", "tests/integration/reindex"),
    "evidence": (
        "tests/unit/backends/test_evidence.py", "tests/unit/backends/test_neighbours.py",
        "tests/unit/backends/test_answer.py", "tests/unit/embedding/test_spelling.py",
        "tests/unit/retrieval/test_weighted.py",
        "tests/unit/backends/test_current.py", "tests/integration/jobs/test_intake.py",
        "tests/integration/backends/test_rankings.py", "tests/unit/backends/test_when.py",
        "tests/integration/backends/test_evidence.py", "tests/unit/backends/test_indexed_text.py",
    ),
    "grounding": tuple(f"tests/unit/llm/test_{each}.py" for each in ("grounding", "grounded_paths", "coverage")),
    "gate": ("tests/integration/maintenance/test_gate.py", "tests/integration/maintenance/test_on_mem0.py"),
    "succession": (
        "tests/contract/backends/test_succession.py", "tests/integration/jobs/test_intake.py",
        "tests/unit/backends/test_current.py", "tests/unit/retrieval/test_conflicts.py",
    ),
    "answers": (
        "tests/unit/llm", "tests/unit/conversation/test_quotes.py", "tests/unit/conversation/test_turns.py",
        "tests/unit/conversation/test_prompts.py", "tests/unit/conversation/test_reconciliation.py",
        "tests/unit/retrieval/strategies",
    ),
    "contexts": ("tests/unit/workers/test_context.py", "tests/unit/workers/test_task.py"),
    "batch writer": ("tests/unit/workers/test_batch_writer.py", "tests/unit/workers/test_fair_queues.py"),
    "attempts": (f"{LEDGER}/test_attempt.py", "tests/unit/tasks/test_synthesize.py"),
    "work items": (
        f"{LEDGER}/test_finetune_runs.py", f"{LEDGER}/test_work_dispatch.py", f"{LEDGER}/test_work_items.py",
    ),
    "questions": (
        f"{LEDGER}/test_recorded_queries.py", f"{MAINTENANCE}/test_recorded_queries.py", "tests/unit/tasks/test_use.py",
        "tests/unit/retrieval/test_context.py", "tests/unit/retrieval/test_use.py",
        "tests/unit/maintenance/test_probes.py",
    ),
    "transport": ("tests/unit/transport", "tests/integration/transport"),
    "origins": (
        "tests/unit/models/test_origins.py", "tests/unit/conversation/test_origins.py",
        "tests/unit/retrieval/test_authorities.py", "tests/contract/backends/test_origins.py",
        "tests/integration/http/test_origins.py", "tests/integration/cli/test_transfer.py",
        f"{MAINTENANCE}/test_origins.py", f"{MAINTENANCE}/test_corroboration.py", f"{LEDGER}/test_raised.py",
        f"{LEDGER}/test_distrusted_facts.py", "tests/integration/org/test_contexts.py",
        "tests/integration/erasure/test_person_memories.py", "tests/integration/erasure/test_distrusted.py",
        "tests/integration/erasure/test_least_shown.py", "tests/integration/erasure/test_shown_proposals.py",
        "tests/integration/approvals/test_service.py", "tests/unit/models/test_suspicion.py",
    ),
    "evaluation": (
        "tests/unit/evaluation", "tests/unit/backends/test_when.py", "tests/unit/retrieval/test_repetitions.py",
        "tests/integration/cli/test_eval.py", "tests/unit/stack/test_running.py",
    ),
    "what if": (
        f"{MAINTENANCE}/test_whatif.py", f"{MAINTENANCE}/test_recorded_queries.py", f"{MAINTENANCE}/test_outlook.py",
    ),
    "charts": (
        "tests/unit/web/test_charts.py", "tests/unit/web/test_activity.py", "tests/unit/web/test_lineage.py",
        f"{LEDGER}/test_activity.py",
    ),
    "edits": (
        "tests/integration/web/test_edits.py", "tests/integration/web/test_whatif.py",
        f"{MAINTENANCE}/test_versions.py",
    ),
    "search lab": ("tests/integration/web/test_lab.py",),
    "router": ("tests/unit/http/test_router_dialects.py", "tests/integration/http/test_router.py"),
    "memory tests": (
        "tests/unit/memory_tests", f"{MAINTENANCE}/test_registered_tests.py",
        "tests/integration/erasure/test_person_memories.py", "tests/integration/cli/test_memory_tests.py",
    ),
    "model servers": (
        "tests/unit/llm", "tests/integration/llm/test_servers.py", "tests/integration/cli/test_models.py",
    ),
    "watching": (
        "tests/unit/test_cli_top.py", "tests/unit/test_cli_progress.py", "tests/unit/metrics/test_collector.py",
    ),
    "local models": (
        "tests/unit/stack/test_local_llm.py", "tests/unit/conversation/test_guards.py",
        "tests/unit/llm/test_structured.py", "tests/integration/stack/test_supervisor.py",
        "tests/integration/cli/test_usage.py", f"{LEDGER}/test_service_operations.py",
    ),
    "third review": (
        "tests/unit/skills/test_evidence.py", "tests/unit/adapters/test_at_once.py", f"{MAINTENANCE}/test_versions.py",
        f"{MAINTENANCE}/test_held_plan.py", "tests/integration/client/test_unsafe_brokers.py",
        "tests/integration/erasure/test_hidden.py", "tests/unit/workers/test_put_back.py",
        "tests/unit/workers/test_heartbeat.py", "tests/integration/stack/test_supervisor.py",
        "tests/integration/backends/test_history.py", "tests/unit/workers/test_deliveries.py",
        "tests/unit/test_deadline.py", "tests/unit/workers/test_children.py", "tests/unit/workers/test_shutdown.py",
        "tests/integration/backends/test_evidence.py", "tests/unit/http/test_names.py",
    ),
}  # fmt: skip
