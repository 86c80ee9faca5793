"""``memtend maintain``: run an agent's maintenance now, or plan it; ``memtend end``: a session, a project or a task."""

from typing import Annotated, Literal

import typer

from memcore.ledger.runs import RunStep
from memcore.ledger.work_items import WorkState
from memcore.models.memory_test import listed_names
from ops.cli.console import cell, say, show_json, warn
from ops.cli.maintenance.runs import is_paused, show_ended
from ops.cli.session import Commands, JsonCommand

app = Commands()

Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the run has ended.")]

#: Exit code when the removal guard holds the run: only retention removed anything, and a person must decide.
EXIT_HELD = 3


@app.command("maintain")
def maintain(
    command: JsonCommand,
    agent_id: Annotated[str, typer.Argument(help="Whose memories.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what the run would remove.")] = False,
    allow_large: Annotated[
        bool, typer.Option("--allow-large", help="Let the run merge and remove a large share of the memories.")
    ] = False,
    wait: Wait = True,
) -> None:
    """Run an agent's maintenance now: retention, consolidation, the memory limit. Exit 3 when held after retention."""
    if dry_run:
        _show_plan(command, agent_id, allow_large=allow_large)
        return
    with command.service() as (service, runner):
        runner.run(service.agents.get(agent_id))
        receipt = runner.run(service.runs.maintain(agent_id, allow_large=allow_large))
        waits = wait and not is_paused(command, agent_id)
        run = show_ended(command, service.client.blocking, receipt.job_id, wait=waits)
    if run is not None and run.state is WorkState.HELD:
        warn(f"held: {run.reason}")
        see, decide = ("--dry-run", "release")
        if run.step is RunStep.ADOPTION:
            see, decide = f"`memtend runs diff {run.run_id}`", "adopt"
        both = f"`memtend runs {decide} {run.run_id}` or `memtend runs dismiss {run.run_id}`"
        warn(f"see it with {see}, then {both}")
        raise typer.Exit(EXIT_HELD)


def _show_plan(command: JsonCommand, agent_id: str, *, allow_large: bool) -> None:
    with command.service() as (service, runner):
        runner.run(service.agents.get(agent_id))
        plan = runner.run(service.runs.plan(agent_id, allow_large=allow_large))
    if command.as_json:
        reported = {name: getattr(plan, name) for name in ("removed", "pruned", "archived", "questions", "tokens")}
        reported["reason"] = plan.reason if plan.is_held else None
        show_json({**plan.model_dump(mode="json"), **reported})
        return
    lost = "; no word is lost" if plan.is_lossless else ""
    say(
        f"{plan.live} memories live; a run would remove {plan.removed} and make {plan.summaries} summaries: "
        f"{plan.after} would be there{lost}"
    )
    if plan.pruned:
        say(f"{plan.pruned} of them are lessons that memory.procedural.pruning forgets")
    if plan.archived:
        say(f"{plan.archived} of them would go to the archive, the others are in the journal alone")
    if plan.questions:
        say(f"a language model would be asked {plan.questions} questions, about texts of some {plan.tokens} tokens")
    if plan.gate:
        of = f"{plan.gate.refused} of {plan.gate.judged} groups (greatest loss {plan.gate.greatest_loss:.0%})"
        found = f"{plan.gate.found_after} of {plan.gate.found_before} answers left, {plan.gate.probes} probes"
        say(f"the gate would refuse {of}, and their memories would stay: {found}")
        if plan.gate.tests:
            say(f"of memory tests they would break {cell(listed_names(plan.gate.tests))}")
    if plan.waits:
        say(f"it would wait before it consolidates: {plan.waits}")
    if plan.is_held:
        say(f"it would be held after retention: {plan.reason}")
    command.show_rows(plan.steps, "step", "removed", "archived", "examples")
    if plan.groups:
        say("")
        columns = ("category", "namespace", "removed", "summaries", "oldest", "newest")
        command.show_rows(plan.groups, *columns)


@app.command("end")
def end(
    command: JsonCommand,
    what: Annotated[Literal["session", "project", "task"], typer.Argument(help="What has ended.")],
    agent_id: Annotated[str, typer.Argument(help="Whose.")],
    ended_id: Annotated[str, typer.Argument(help="The id of the session, project or task.")],
    wait: Wait = True,
) -> None:
    """End a session, a project or a task, and remove the memories that end with it.

    With a session end those of an agent of level session, with a project those of level session or project, and with
    any of them the working memories made in it.
    """
    with command.service() as (service, runner):
        runner.run(service.agents.get(agent_id))
        receipt = runner.run(service.runs.end(what, agent_id, ended_id))
        waits = wait and not is_paused(command, agent_id)
        show_ended(command, service.client.blocking, receipt.job_id, wait=waits)
