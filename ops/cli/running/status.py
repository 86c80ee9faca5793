"""``memtend status``: what runs and waits; ``pause``, ``resume``: all maintenance; ``config``: the policy."""

import os
from pathlib import Path
from typing import Annotated

import typer

from memcore.config import home_folder
from memcore.config.explain import explain
from memcore.config.loader import effective_policy
from ops.cli.console import say, show_json
from ops.cli.session import Command, Commands, CompanyCommand, JsonCommand
from workers.broker import waiting
from workers.stack.home import StackState, read_state

app = Commands()
config = Commands("config", "Configuration: show.")
app.add_typer(config)

#: Runs shown.
_RUNS = 5


@app.command("status")
def status(command: CompanyCommand) -> None:
    """Show the parts of the stack, what waits on each queue, and the last runs of a company."""
    found = read_state(home_folder(os.environ, command.home))
    state = found if found and found.is_alive else None
    parts = [part.model_dump(mode="json") for part in state.parts] if state else []
    asleep = list(state.asleep) if state else []
    queues = waiting(command.settings)
    with command.service() as (service, runner):
        paused = runner.run(service.runs.is_paused())
        agents = runner.run(service.agents.count())
        dead = runner.run(service.dead_letters.count())
        held = runner.run(service.runs.count_held())
        runs = [run.model_dump(mode="json") for run in runner.run(service.runs.list(limit=_RUNS))]
    if command.as_json:
        counts = {"agents": agents, "dead": dead, "held": held}
        show_json({"parts": parts, "asleep": asleep, "queues": queues, "paused": paused, **counts, "runs": runs})
        return
    say(_headline(state, agents=agents, paused=paused, dead=dead))
    if held:
        say(f"held runs: {held}; `memtend runs list --state held`, then `memtend runs release`, `adopt` or `dismiss`\n")
    shown = (
        {
            **part,
            "ready": "starting" if part["starting"] else part["ready"],
            "resident_mib": part["resident_bytes"] // 2**20,
        }
        for part in parts
    )
    command.show_rows(shown, "name", "pid", "ready", "restarts", "resident_mib")
    if asleep:
        say(f"asleep until a job needs it: {', '.join(asleep)}")
    say("")
    command.show_rows(({"queue": queue, "waiting": count} for queue, count in queues.items()), "queue", "waiting")
    say("")
    command.show_rows(runs, "run_id", "agent_id", "kind", "state", "planned_at", "counts")


def _headline(state: StackState | None, *, agents: int, paused: bool, dead: int) -> str:
    where = f"up since {state.started_at:%Y-%m-%d %H:%M:%S} UTC" if state else "no supervisor here"
    return f"{where}; {agents} agents; maintenance {'PAUSED' if paused else 'on'}; dead letters: {dead}\n"


@app.command("pause")
def pause(command: Command) -> None:
    """Stop all maintenance now: nothing more is removed until `memtend resume`. Storing and searching go on."""
    command.run(lambda service: service.runs.pause_all())
    say("maintenance is paused for all agents; `memtend resume` lets it go on")


@app.command("resume")
def resume(command: Command) -> None:
    """Resume all maintenance."""
    command.run(lambda service: service.runs.resume_all())
    say("maintenance goes on")


@config.command("show")
def show(
    command: JsonCommand,
    policy: Annotated[
        Path | None, typer.Option(help="A policy file; else that of MEMTEND_POLICY_PATH, else the data folder's.")
    ] = None,
) -> None:
    """Show every value of the memory policy and where it comes from; needs no running stack."""
    named = os.environ.get("MEMTEND_POLICY_PATH")
    own = home_folder(os.environ, command.home) / "policy.yaml"
    loaded = effective_policy(policy or (Path(named) if named else own if own.exists() else None))
    rows = ({"key": each.key, "value": each.value, "origin": str(each.origin)} for each in explain(loaded))
    command.show_rows(rows, "key", "value", "origin")
    if not command.as_json:
        for warning in loaded.warnings:
            say(f"warning: {warning}")
