"""``memtend vectors``: what to do about a collection that the embedded store refuses because it is damaged."""

import os
from pathlib import Path
from typing import Annotated

import typer

from memcore.config.home_folder import home_folder
from ops.cli.console import say
from ops.cli.session import HomeOption

#: The collection, as `memtend doctor` names it.
Collection = Annotated[str, typer.Argument(help="The collection, as `memtend doctor` names it.")]


def restore(
    collection: Collection,
    backup: Annotated[Path, typer.Option("--from", help="The data folder of a backup: it has data/vectors.")],
    home: HomeOption = None,
) -> None:
    """Take one collection from a backup; what was stored since is missing in it. Stop the stack first."""
    from memcore.vectorstore import recovery  # noqa: PLC0415  # it loads the engine

    points = recovery.restore(_vectors(home_folder(os.environ, home)), collection, backup=_vectors(backup))
    say(f"{collection} holds {points} memories of the backup; start the stack again")


def accept(collection: Collection, home: HomeOption = None) -> None:
    """Serve what is left of a refused collection; what was removed last may be back. Stop the stack first."""
    from memcore.vectorstore import recovery  # noqa: PLC0415  # it loads the engine

    points, least = recovery.accept(_vectors(home_folder(os.environ, home)), collection)
    of = "an unknown number" if least is None else f"at least {least}"
    say(f"{collection} is served with {points} of {of} memories; start the stack again")


def add_to(app: typer.Typer) -> None:
    """Put the commands on the command line."""
    group = typer.Typer(no_args_is_help=True, help="Bring back a collection of the embedded store that is damaged.")
    group.command("restore")(restore)
    group.command("accept")(accept)
    app.add_typer(group, name="vectors")


def _vectors(home: Path) -> Path:
    return home / "data" / "vectors"
