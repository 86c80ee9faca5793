"""``memtend reindex``: switch to another embedder while agents read and write."""

from time import sleep
from typing import Annotated, Any

import typer

from memcore.errors import MemoryInputError
from memcore.ledger.collections import Reindex, ServedCollection
from ops.cli.console import say
from ops.cli.progress import progress_bar
from ops.cli.session import Commands, JsonCommand

app = Commands()

#: Pause between two looks at a reindex that is waited for, in seconds.
_POLL_INTERVAL_SECONDS = 0.5

#: What people see of a reindex's progress, in this order.
_PROGRESS = (
    "kind", "stage", "fraction", "looked_at", "total", "written", "passed_over", "marked", "freezes", "started_at",
    "finished_at", "trouble",
)  # fmt: skip


def awaited(command: JsonCommand) -> Reindex | None:
    """Draw a bar until the company's reindex has ended, and return it; None where there was none."""
    with (
        command.service() as (service, runner),
        progress_bar("reindexing", total=1.0, is_silent=command.as_json) as bar,
    ):
        while (found := runner.run(service.reindex.status()).reindex) is not None and found.finished_at is None:
            held_up = f", {found.reason}" if found.reason else ""
            bar.show(done=found.fraction, what=f"{found.stage}, {found.looked_at} looked at{held_up}")
            sleep(_POLL_INTERVAL_SECONDS)
        bar.show(done=1.0)
    if not command.as_json:
        say("see `memtend reindex --status`; what served before is kept until `memtend reindex --drop-old`")
    return found


def show_reindex(command: JsonCommand) -> None:
    """Show which collection serves, is kept and is filled, and the progress."""
    seen = command.run(lambda service: service.reindex.status())
    pointer, found = seen.pointer, seen.reindex
    facts: dict[str, Any] = {
        "serves": None if pointer is None else _named(pointer.current),
        "kept": None if pointer is None or pointer.previous is None else _named(pointer.previous),
        "fills": None if pointer is None or pointer.target is None else _named(pointer.target),
    }
    if found is not None:
        known = {**dict(found), "fraction": found.fraction, "marked": seen.marked, "trouble": found.reason}
        facts |= {name: known[name] for name in _PROGRESS}
    command.show_facts(facts)


def _named(collection: ServedCollection) -> dict[str, Any]:
    return {
        "collection": collection.name,
        "embedder": collection.identity.name,
        "checkpoint_id": collection.checkpoint_id,
        "dims": collection.identity.dims,
        "dense_weight": collection.dense_weight,
    }


@app.command("reindex")
def reindex(
    command: JsonCommand,
    *,
    status: Annotated[bool, typer.Option("--status", help="Only show progress, and what serves.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="End it before the switch; what serves goes on.")] = False,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Bring the old collection up to date and let it serve again.")
    ] = False,
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Delete the collection that is kept for a rollback.")
    ] = False,
    dense_weight: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Share of the vectors in the weighted fusion, switched with the embedder."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also with the embedder that serves, after a release that reads more words.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the switch, with a bar.")] = True,
) -> None:
    """Fill a new collection with the configured embedder, then switch to it; reads and writes continue meanwhile."""
    actions = {"--status": status, "--cancel": cancel, "--rollback": rollback, "--drop-old": drop_old}
    asked = [name for name, is_wanted in actions.items() if is_wanted]
    if len(asked) > 1:
        raise MemoryInputError("reindex", f"{' and '.join(asked)} are two things: ask for one")
    if not status:
        with command.service() as (service, runner):
            if cancel:
                runner.run(service.reindex.cancel())
            elif drop_old:
                runner.run(service.reindex.drop_old())
            elif rollback:
                runner.run(service.reindex.go_back())
            else:
                runner.run(service.reindex.begin(dense_weight=dense_weight, again=again))
        if wait and not (cancel or drop_old):
            awaited(command)
    show_reindex(command)
