"""``memtend migrate``: upgrade the databases before the workers start; ``memtend vectors``: repair a collection."""

import os
from pathlib import Path
from typing import Annotated

import typer

from memcore.config import home_folder
from ops.cli.console import say
from ops.cli.session import Command, Commands

app = Commands()
vectors = Commands("vectors", "Bring back a collection of the embedded store that is damaged.")
app.add_typer(vectors)


@app.command("migrate")
def migrate(command: Command) -> None:
    """Create or upgrade the tables of ledger, journal and history; `memtend up` does it by itself."""
    from memcore.ledger.migrate import migrate_installation  # noqa: PLC0415  # it loads alembic

    migrate_installation(command.settings)
    say("ledger, journal and history are in this release's form")


Collection = Annotated[str, typer.Argument(help="The collection, as `memtend doctor` names it.")]


@vectors.command("restore")
def restore(
    command: Command,
    collection: Collection,
    backup: Annotated[Path, typer.Option("--from", help="The data folder of a backup: it has data/vectors.")],
) -> None:
    """Restore one collection from a backup; what was stored since is missing. Stop the stack first."""
    from memcore.vectorstore import recovery  # noqa: PLC0415  # it loads the engine

    points = recovery.restore(_vectors(home_folder(os.environ, command.home)), collection, backup=_vectors(backup))
    say(f"{collection} holds {points} memories of the backup; start the stack again")


@vectors.command("accept")
def accept(command: Command, collection: Collection) -> None:
    """Accept what is left of a refused collection; memories removed last may be back. Stop the stack first."""
    from memcore.vectorstore import recovery  # noqa: PLC0415  # it loads the engine

    points, least = recovery.accept(_vectors(home_folder(os.environ, command.home)), collection)
    of = "an unknown number" if least is None else f"at least {least}"
    say(f"{collection} is served with {points} of {of} memories; start the stack again")


def _vectors(home: Path) -> Path:
    return home / "data" / "vectors"
