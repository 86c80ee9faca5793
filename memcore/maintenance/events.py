"""Log events of maintenance, and the counts of a run. ``extra`` holds ids and counts, never memory text."""

from enum import StrEnum

from memcore.ledger.journal import Journal
from memcore.ledger.runs import Run


class MaintenanceEvent(StrEnum):
    """A log event of maintenance."""

    STARTED = "consolidation.maintenance.start"
    COMPLETED = "consolidation.maintenance.complete"
    FAILED = "consolidation.maintenance.failed"
    #: A run that would remove more than the removal guard allows waits for a person.
    HELD = "consolidation.maintenance.held"
    #: The kill switch is on or cannot be read, or a model is missing: the run is retried later.
    SKIPPED = "consolidation.run.skipped"
    RETENTION_COMPLETED = "consolidation.retention.complete"
    RETENTION_FAILED = "consolidation.retention.failed"
    #: Lessons were forgotten, as the policy of lessons says.
    PRUNED = "procedural_pruning.complete"
    STRATEGY_COMPLETED = "consolidation.strategy.complete"
    ENFORCED = "consolidation.max_memories.enforced"
    #: An entry that an earlier attempt had decided was carried out.
    ENTRY_RESUMED = "consolidation.booking.resumed"
    #: The ledger could not be reached to renew the lease; the next renewal tries again.
    LEASE_UNCERTAIN = "consolidation.lease.uncertain"
    LEASE_LOST = "consolidation.lease.lost"
    #: Memories were archived, in the transaction that decided to remove them.
    ARCHIVED = "consolidation.archival.stored"
    #: A memory was brought back from the archive.
    RESTORED = "consolidation.archival.restored"
    UNDO_COMPLETED = "consolidation.undo.complete"
    #: A model gave no answer that can be used: the summary is made without it.
    MODEL_UNUSABLE = "consolidation.llm.fallback"
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


_MAINTENANCE_RUN = {
    "ended": ("ended", "removed"),
    "retention": ("retention", "removed"),
    "expired": ("expired", "removed"),
    "pruned": ("pruned", "removed"),
    "consolidated": ("consolidated", "removed"),
    "summaries": ("consolidated", "created"),
    "enforced": ("enforced", "removed"),
}

_UNDO = {"restored": ("undone", "restored"), "removed": ("undone", "removed")}

_END = {"ended": ("ended", "removed")}

_RESTORE = {"restored": ("restored", "restored")}

_REMOVE = {"removed": ("deleted", "removed")}

_NAMES = {"maintenance": _MAINTENANCE_RUN, "undo": _UNDO, "restore": _RESTORE, "remove": _REMOVE}


def run_counts(journal: Journal, run: Run) -> dict[str, int]:
    """Return the counts of a run so far, from the journal.

    Of a run: ``ended`` (with its session or project), ``retention`` (too old), ``expired``, ``pruned`` (lessons that
    are forgotten), ``consolidated``, ``summaries``, ``enforced``. Of an end: ``ended``. Of an undo: ``restored``,
    ``removed``, and ``skipped``: moves of the undone run that it left as they are. Of a restore: ``restored``. Of a
    removal: ``removed``.
    """
    moved = journal.totals(run.run_id)
    names = _NAMES.get(run.kind, _END)
    counts = {name: moved[key] for name, key in names.items()}
    if run.undo_of is not None:
        counts["skipped"] = journal.totals(run.undo_of).total() - moved.total()
    return counts
