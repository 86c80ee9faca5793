"""A run's figures, counted from the journal, so that no crash can make them wrong."""

from memcore.ledger.journal import Journal
from memcore.ledger.run import Run

_NIGHT = {
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

_NAMES = {"maintenance": _NIGHT, "undo": _UNDO, "restore": _RESTORE, "remove": _REMOVE}


def run_counts(journal: Journal, run: Run) -> dict[str, int]:
    """Return what the run has done so far.

    Of a night: ``ended`` (with its session or project), ``retention`` (too old), ``expired``, ``pruned`` (lessons that
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
