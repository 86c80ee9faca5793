"""``memtend up`` runs the embedded stack on this machine; ``memtend worker`` and ``beat`` run one process."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from memcore.config import home_folder
from memcore.errors import MemoryInputError
from ops.cli.console import say
from ops.cli.session import Command, Commands
from workers.groups import GROUPS
from workers.logs import set_up_logs

if TYPE_CHECKING:
    from workers.stack.supervisor import Supervisor

#: Workers that a person asks for.
ON_DEMAND = tuple(name for name, group in GROUPS.items() if group.on_demand)

app = Commands()


@app.command("up")
def up(
    command: Command,
    also: Annotated[
        list[str] | None, typer.Option("--with", help=f"Start this worker too: {', '.join(ON_DEMAND)}.")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option("--local-llm", help="Serve this GGUF file as the language model; needs memtend[local-llm]."),
    ] = None,
) -> None:
    """Start the embedded stack (broker, store, workers, beat, Flower, HTTP) and keep it running until Ctrl-C."""
    wrong = sorted(set(also or ()) - set(ON_DEMAND))
    if wrong:
        raise MemoryInputError("with", f"{wrong[0]!r} is not one of {', '.join(ON_DEMAND)}")
    set_up_logs()
    # Databases, logs and what else this process writes hold memories, names of agents and passwords.
    before = os.umask(0o077)
    try:
        _run(home_folder(os.environ, command.home), also or (), weights)
    finally:
        os.umask(before)


def _run(path: Path, also: Sequence[str], weights: Path | None) -> None:
    # A worker or beat, started alone, needs no stack.
    from workers.stack.local_llm import checked_weights  # noqa: PLC0415  # see above
    from workers.stack.stack import start_stack  # noqa: PLC0415  # see above

    weights = None if weights is None else checked_weights(weights)
    stack = start_stack(path, os.environ, prepare=_catch_signals, also=also, weights=weights)
    url, addresses = urlsplit(stack.settings.flower_url or ""), path / "run" / "doors.json"
    try:
        _say(f"memtend is up in {path}; stop with Ctrl-C")
        # The address can be clicked on; a password in it would stay in the terminal, in its log and in the browser.
        user = f"user {url.username}, password: flower_password in {addresses}"
        _say(f"Flower: http://{url.hostname}:{url.port}/ ({user})")
        _say(f"HTTP: {stack.serve_url}/docs (make a key with `memtend keys create`)")
        _say(f"Console: {stack.serve_url}/console (sign in with a key)")
        if weights is not None:
            name, is_served = stack.settings.llm_local, stack.weights == weights
            _say(
                f"Language model: {name}, of {weights}; jobs wait until it is loaded"
                if is_served
                else f"Language model: that of MEMTEND_LLM_URL; {weights} is not served"
            )
        stack.supervisor.watch()
    finally:
        _say("stopping ...")
        stack.stop()
    _say(f"stopped; the most memory in use together was {stack.supervisor.peak_resident_bytes / 2**20:.0f} MiB")


def _say(sentence: str) -> None:
    # For example into a file on a full disk: the message is lost, and the stack goes on.
    with suppress(OSError):
        say(sentence)


def _catch_signals(supervisor: "Supervisor") -> None:
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, supervisor.ask_to_stop)


@app.command("worker")
def worker(
    group: Annotated[str, typer.Option(help=f"The worker group: {', '.join(f'`{name}`' for name in GROUPS)}.")],
) -> None:
    """Run one worker with the settings of the environment, until it is told to stop."""
    if group in GROUPS and GROUPS[group].pool == "prefork":
        # As in the embedded stack, SIGTERM then means: finish what runs, give back the rest. Celery reads it once.
        os.environ.setdefault("REMAP_SIGTERM", "SIGQUIT")
    from workers import run  # noqa: PLC0415  # see above

    sys.exit(run.main(["--group", group]))


@app.command("beat")
def beat() -> None:
    """Run beat with the settings of the environment; any number may run."""
    from workers import beat as part  # noqa: PLC0415  # `memtend worker` must not import Celery before its variable

    sys.exit(part.main())
