"""What a person sees of a reindex: a bar until its switch, and how things stand."""

import sys
from time import sleep
from typing import Any

from rich.progress import Progress

from memcore.config.settings import Settings
from memcore.ledger.ledger import Ledger
from memcore.ledger.reindex import Reindex
from memcore.ledger.serving import ServedCollection
from ops.cli.console import say
from ops.cli.session import ledger_of

#: Pause between two looks at a reindex that is waited for, in seconds.
_LOOK_SECONDS = 0.5


def awaited(settings: Settings, *, as_json: bool) -> Reindex | None:
    """Draw a bar until the company's reindex has ended, and return it; None where there was none."""
    with ledger_of(settings) as ledger, Progress(disable=as_json or not sys.stderr.isatty()) as progress:
        bar = progress.add_task("reindexing", total=1.0)
        while (found := ledger.reindexes.get(settings.company)) is not None and found.finished_at is None:
            held_up = f", {found.trouble}" if found.trouble else ""
            seen = f"{found.stage}, {found.looked_at} looked at{held_up}"
            progress.update(bar, completed=found.fraction, description=seen)
            sleep(_LOOK_SECONDS)
        progress.update(bar, completed=1.0)
    if not as_json:
        say("see `memtend reindex --status`; what served before is kept until `memtend reindex --drop-old`")
    return found


def reindex_facts(ledger: Ledger, company: str) -> dict[str, Any]:
    """Return what serves, what is kept, what is filled, and how far that is."""
    serving, found = ledger.servings.get(company), ledger.reindexes.get(company)
    facts: dict[str, Any] = {
        "serves": None if serving is None else _named(serving.current),
        "kept": None if serving is None or serving.previous is None else _named(serving.previous),
        "fills": None if serving is None or serving.target is None else _named(serving.target),
    }
    if found is not None:
        facts |= {
            "kind": found.kind,
            "stage": found.stage,
            "fraction": found.fraction,
            "looked_at": found.looked_at,
            "total": found.total,
            "written": found.written,
            "passed_over": found.passed_over,
            "marked": ledger.reindex_marks.count(company),
            "freezes": found.freezes,
            "started_at": found.started_at,
            "finished_at": found.finished_at,
            "trouble": found.trouble,
        }
    return facts


def _named(collection: ServedCollection) -> dict[str, Any]:
    return {
        "collection": collection.name,
        "embedder": collection.identity.name,
        "checkpoint_id": collection.checkpoint_id,
        "dims": collection.identity.dims,
        "dense_weight": collection.dense_weight,
    }
