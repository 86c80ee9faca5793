"""``memtend runs``: what the nights did, and taking one back."""

from typing import Annotated, Any

import typer

from memcore.errors import MemoryNotFoundError
from memcore.ledger.run import Run
from ops.cli.console import AsJson, say, show_facts, show_rows
from ops.cli.ringing import ring
from ops.cli.session import HomeOption, client_of, ledger_of, settings_of
from ops.cli.waiting import await_run

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
        bookings: list[dict[str, Any]] = [
            {
                "seq": booking.seq,
                "reason": str(booking.reason),
                "state": str(booking.state),
                "removed": [record.entry.id for record in booking.outgoing],
                "added": [record.entry.id for record in booking.incoming],
            }
            for booking in ledger.journal.bookings(run_id)
        ]
    if as_json:
        show_facts({**facts, "bookings": bookings}, as_json=True)
        return
    show_facts(facts, as_json=False)
    say("")
    show_rows(
        ({**each, "removed": len(each["removed"]), "added": len(each["added"])} for each in bookings),
        columns=("seq", "reason", "state", "removed", "added"),
        as_json=False,
    )


@app.command("undo")
def undo(
    run_id: RunArgument,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the undo has ended.")] = True,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Take a run back: what it removed returns, what it made goes. An undo can be undone."""
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
    """Let a run that the brake holds go on, although it removes a large share of the memories."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        run = ledger.runs.release(run_id)
    ring(settings, [run])
    say(f"{run.run_id}: released")


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
