"""``memtend maintain``: run one agent's maintenance now, outside its schedule, or show what it would do."""

from pathlib import Path
from typing import Annotated

import typer

from memcore.ledger.runs import RunState
from memcore.maintenance.service import MaintenanceService
from ops.cli.console import AsJson, say, show_facts, show_json, show_rows, warn
from ops.cli.maintenance.runs import facts_of
from ops.cli.session import HomeOption, await_run, backend_of, client_of, is_paused, ledger_of, policy_of, settings_of

#: Exit code when the removal guard holds the run: nothing was removed, and a person must decide.
EXIT_HELD = 3


def maintain(
    agent_id: Annotated[str, typer.Argument(help="Whose memories.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what the run would remove.")] = False,
    allow_large: Annotated[
        bool, typer.Option("--allow-large", help="Allow runs that remove a large share of the memories.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the run has ended.")] = True,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Run an agent's maintenance now: retention, consolidation, then the memory limit. Exit 3 when the run is held."""
    if dry_run:
        _show_plan(agent_id, home, allow_large=allow_large, as_json=as_json)
        return
    with client_of(home) as client:
        receipt = client.maintain_now(agent_id, allow_large=allow_large)
        wait = wait and not is_paused(agent_id, home)
        if wait:
            await_run(client, receipt.job_id)
    if wait:
        with ledger_of(settings_of(home)) as ledger:
            run = ledger.runs.get(receipt.job_id)
        show_facts(facts_of(run), as_json=as_json)
        if run is not None and run.state is RunState.HELD:
            warn(f"held: see it with --dry-run, let it go on with `memtend runs release {run.run_id}`")
            raise typer.Exit(EXIT_HELD)
    else:
        show_facts({"run_id": receipt.job_id}, as_json=as_json)


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command("maintain")(maintain)


def _show_plan(agent_id: str, home: Path | None, *, allow_large: bool, as_json: bool) -> None:
    settings = settings_of(home)
    with ledger_of(settings) as ledger, backend_of(settings) as (backend, runner):
        has_model = settings.llm_url is not None
        service = MaintenanceService.configured(settings, policy_of(settings), backend, ledger, has_model=has_model)
        plan = runner.run(service.plan(agent_id))
    if allow_large:
        plan = plan.model_copy(update={"is_held": False})
    if as_json:
        reported = {name: getattr(plan, name) for name in ("removed", "pruned", "archived", "questions", "tokens")}
        reported["reason"] = plan.reason if plan.is_held else None
        show_json({**plan.model_dump(mode="json"), **reported})
        return
    say(f"{plan.live} memories live; a run would remove {plan.removed} and make {plan.summaries} summaries")
    if plan.pruned:
        say(f"{plan.pruned} of them are lessons that memory.procedural.pruning forgets")
    if plan.archived:
        say(f"{plan.archived} of them would go to the archive, the others are in the journal alone")
    if plan.questions:
        say(f"a language model would be asked {plan.questions} questions, about texts of some {plan.tokens} tokens")
    if plan.waits:
        say(f"it would wait before it consolidates: {plan.waits}")
    if plan.is_held:
        say(f"it would be held: {plan.reason}")
    show_rows((dict(step) for step in plan.steps), columns=("step", "removed", "archived", "examples"), as_json=False)
    if plan.groups:
        say("")
        columns = ("category", "namespace", "removed", "summaries", "oldest", "newest")
        show_rows((dict(group) for group in plan.groups), columns=columns, as_json=False)
