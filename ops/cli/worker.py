"""``memtend worker`` and ``memtend beat``: single parts, for machines that the embedded stack does not fit."""

import os
import sys
from typing import Annotated

import typer

from workers.groups import GROUPS


def worker(
    group: Annotated[str, typer.Option(help=f"Which group of queues: {', '.join(GROUPS)}.")],
) -> None:
    """Run one worker with the settings of the environment, until it is told to stop."""
    if group in GROUPS and GROUPS[group].pool == "prefork":
        # As in the embedded stack, SIGTERM then means: finish what runs, give back the rest. Celery reads it once.
        os.environ.setdefault("REMAP_SIGTERM", "SIGQUIT")
    from workers import run  # noqa: PLC0415  # see above

    sys.exit(run.main(["--group", group]))


def beat() -> None:
    """Run beat with the settings of the environment; any number may run."""
    from workers import beat as part  # noqa: PLC0415  # `memtend worker` must not import Celery before its variable

    sys.exit(part.main())


def add_to(app: typer.Typer) -> None:
    """Put the commands on the command line."""
    app.command("worker")(worker)
    app.command("beat")(beat)
