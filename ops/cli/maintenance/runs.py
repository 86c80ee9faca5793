"""``memtend runs``: list maintenance runs, undo one, release a held one."""

from pathlib import Path
from typing import Annotated, Any

import typer

from memcore.errors import MemoryNotFoundError
from memcore.ledger.lineage import Exchange
from memcore.ledger.runs import Run
from memcore.maintenance.undo import plan_undo
from ops.cli.console import AsJson, say, show_facts, show_json, show_rows
from ops.cli.session import HomeOption, await_run, backend_of, client_of, dispatch, ledger_of, settings_of

app = typer.Typer(help="Runs: list, show, undo, release.", no_args_is_help=True)

RunArgument = Annotated[str, typer.Argument(help="The run's id.")]


@app.command("list")
def list_runs(
    agent: Annotated[str | None, typer.Option(help="Only this agent's.")] = None,
    limit: Annotated[int, typer.Option(help="Most rows, newest first.")] = 20,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show runs, newest first."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        found = ledger.runs.list(settings.company, agent_id=agent, limit=limit)
    show_rows(
        (run.model_dump(mode="json") if as_json else dict(run) for run in found),
        columns=("run_id", "agent_id", "kind", "origin", "state", "planned_at", "finished_at", "counts"),
        as_json=as_json,
    )


@app.command("show")
def show(run_id: RunArgument, home: HomeOption = None, as_json: AsJson = False) -> None:
    """Show one run: its state, its counts, and the ids that it moved."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        run = ledger.runs.get(run_id)
        facts = facts_of(run)
        facts["undoable"] = ledger.journal.undoable(run_id)
        facts["archived"] = ledger.archive.archived_by(run_id)
        moved = ledger.lineage.of_run(run_id)
    journal_entries: list[dict[str, Any]] = [
        {
            "seq": journal_entry.seq,
            "reason": str(journal_entry.reason),
            "state": "prepared" if journal_entry.is_open else "done",
            "removed": journal_entry.outgoing,
            "added": journal_entry.incoming,
        }
        for journal_entry in moved
    ]
    made = {
        summary_id: journal_entry.outgoing
        for journal_entry in moved
        if _is_merge(journal_entry)
        for summary_id in journal_entry.incoming
    }
    if as_json:
        show_facts({**facts, "bookings": journal_entries, "summaries": made}, as_json=True)
        return
    show_facts(facts, as_json=False)
    say("")
    show_rows(
        ({**each, "removed": len(each["removed"]), "added": len(each["added"])} for each in journal_entries),
        columns=("seq", "reason", "state", "removed", "added"),
        as_json=False,
    )
    for summary_id, originals in made.items():
        say("")
        say(f"summary {summary_id} of {len(originals)} memories; `memtend why` tells what became of each")
        for memory_id in originals:
            say(f"  {memory_id}")


@app.command("undo")
def undo(
    run_id: RunArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what the undo would do.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the undo has ended.")] = True,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Undo a run: restore what it removed, and remove what it created. An undo can be undone."""
    if dry_run:
        _show_undo_plan(run_id, home, as_json=as_json)
        return
    with ledger_of(settings_of(home)) as ledger:
        agent_id = _found(ledger.runs.get(run_id)).agent_id
    with client_of(home) as client:
        receipt = client.undo(agent_id, run_id)
        if wait:
            await_run(client, receipt.job_id)
    with ledger_of(settings_of(home)) as ledger:
        run = ledger.runs.get(receipt.job_id)
    show_facts(facts_of(run) if wait else {"run_id": receipt.job_id}, as_json=as_json)


@app.command("release")
def release(run_id: RunArgument, home: HomeOption = None) -> None:
    """Approve a run that was held because it would remove more than half of an agent's memories."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        run = ledger.runs.approve_held(run_id)
    dispatch(settings, [run])
    say(f"{run.run_id}: released")


def _show_undo_plan(run_id: str, home: Path | None, *, as_json: bool) -> None:
    settings = settings_of(home)
    with ledger_of(settings) as ledger, backend_of(settings) as (backend, runner):
        plan = runner.run(plan_undo(run_id, backend=backend, ledger=ledger, company=settings.company))
    if as_json:
        show_json(plan.model_dump(mode="json"))
        return
    counts = f"{len(plan.restored)} memories would return, {len(plan.removed)} would go"
    say(f"{counts}, {len(plan.skipped)} would be left as they are")
    rows = [{"memory_id": each, "undo": "returns", "reason": None} for each in plan.restored]
    rows += [{"memory_id": each, "undo": "goes", "reason": None} for each in plan.removed]
    rows += [{"memory_id": each.memory_id, "undo": "skipped", "reason": str(each.reason)} for each in plan.skipped]
    if rows:
        show_rows(rows, columns=("memory_id", "undo", "reason"), as_json=False)


def _is_merge(journal_entry: Exchange) -> bool:
    return journal_entry.reason == "consolidated"


def facts_of(run: Run | None) -> dict[str, Any]:
    """Return a run's fields for printing. Raises MemoryNotFoundError when there is none."""
    return dict(_found(run))


def _found(run: Run | None) -> Run:
    if run is None:
        msg = "run_id: names no run; see `memtend runs list`"
        raise MemoryNotFoundError(msg)
    return run


def add_to(parent: typer.Typer) -> None:
    """Put the commands on the command line."""
    parent.add_typer(app, name="runs")
