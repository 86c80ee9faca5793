"""Log events of maintenance. ``extra`` holds ids and counts, never memory text."""

from enum import StrEnum


class MaintenanceEvent(StrEnum):
    """A log event of maintenance."""

    STARTED = "consolidation.maintenance.start"
    COMPLETED = "consolidation.maintenance.complete"
    FAILED = "consolidation.maintenance.failed"
    #: A run that would remove more than the removal guard allows waits for a person.
    HELD = "consolidation.maintenance.held"
    #: There is nothing to do, or a model is missing: the run is retried later.
    SKIPPED = "consolidation.run.skipped"
    RETENTION_COMPLETED = "consolidation.retention.complete"
    RETENTION_FAILED = "consolidation.retention.failed"
    #: Lessons were forgotten, as the policy of lessons says.
    PRUNED = "procedural_pruning.complete"
    STRATEGY_COMPLETED = "consolidation.strategy.complete"
    #: Summaries would have cost the agent answers: their memories stay as they are.
    GATE_REFUSED = "consolidation.gate.refused"
    ENFORCED = "consolidation.max_memories.enforced"
    #: An entry that an earlier attempt had decided was carried out.
    ENTRY_RESUMED = "consolidation.booking.resumed"
    #: Memories were archived, in the transaction that decided to remove them.
    ARCHIVED = "consolidation.archival.stored"
    #: A memory was brought back from the archive.
    RESTORED = "consolidation.archival.restored"
    UNDO_COMPLETED = "consolidation.undo.complete"
    #: A model gave no answer that can be used: the summary is made without it.
    MODEL_UNUSABLE = "consolidation.llm.fallback"
    #: A model is away: the run waits, and asks it again.
    MODEL_AWAY = "consolidation.llm.away"
    #: A model's server refuses: nothing is stored, nothing is removed.
    MODEL_REFUSED = "consolidation.llm.error"
    MODEL_SYNTHESIZED = "consolidation.llm.synthesized"
    #: Recent trajectories could not be read: the model is asked without them.
    CONTEXT_MISSING = "consolidation.llm.context_missing"
    DENSITY_CLASSIFIED = "consolidation.density.classified"
    GROUP_CLASSIFIED = "consolidation.dual_mode.group_classified"
    ABSTRACTIVE_FALLBACK = "consolidation.dual_mode.abstractive_fallback"
    #: A memory was too long for the prompt, and the model saw its beginning.
    PROMPT_CUT = "consolidation.llm.prompt_cut"
