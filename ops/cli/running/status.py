"""``memtend status``: running parts, queue lengths, last runs."""

import os

import typer

from memcore.config.home_folder import home_folder
from ops.cli.console import AsJson, say, show_json, show_rows
from ops.cli.session import HomeOption, ledger_of, settings_of
from workers.broker import waiting
from workers.stack.home import StackState, read_state

#: Runs shown.
_RUNS = 5


def status(home: HomeOption = None, as_json: AsJson = False) -> None:
    """Show the parts of the stack, what waits on each queue, and the last runs."""
    settings = settings_of(home)
    state = read_state(home_folder(os.environ, home))
    parts = [part.model_dump(mode="json") for part in state.parts] if state and state.is_alive else []
    queues = waiting(settings)
    with ledger_of(settings) as ledger:
        paused = ledger.switches.paused(settings.company)
        agents = ledger.agents.count(settings.company)
        dead = ledger.dead_letters.count(settings.company)
        runs = [run.model_dump(mode="json") for run in ledger.runs.list(settings.company, limit=_RUNS)]
    if as_json:
        show_json({"parts": parts, "queues": queues, "paused": paused, "agents": agents, "dead": dead, "runs": runs})
        return
    say(_headline(state, agents=agents, paused=paused, dead=dead))
    columns = ("name", "pid", "ready", "restarts", "resident_mib")
    show_rows(
        ({**part, "resident_mib": part["resident_bytes"] // 2**20} for part in parts), columns=columns, as_json=False
    )
    say("")
    show_rows(
        ({"queue": queue, "waiting": count} for queue, count in queues.items()),
        columns=("queue", "waiting"),
        as_json=False,
    )
    say("")
    show_rows(runs, columns=("run_id", "agent_id", "kind", "state", "planned_at", "counts"), as_json=False)


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command("status")(status)


def _headline(state: StackState | None, *, agents: int, paused: bool, dead: int) -> str:
    where = f"up since {state.started_at:%Y-%m-%d %H:%M:%S} UTC" if state and state.is_alive else "no supervisor here"
    return f"{where}; {agents} agents; maintenance {'PAUSED' if paused else 'on'}; dead letters: {dead}\n"
