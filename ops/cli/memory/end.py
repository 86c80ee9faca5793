"""``memtend end``: end a session, a project or a task."""

from typing import Annotated

import typer

from memcore.client import JobReceipt, MemoryClient
from ops.cli.console import AsJson, show_facts
from ops.cli.maintenance.runs import facts_of
from ops.cli.session import HomeOption, await_run, client_of, is_paused, ledger_of, settings_of

app = typer.Typer(help="End a session, a project or a task.", no_args_is_help=True)

AgentArgument = Annotated[str, typer.Argument(help="Whose.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the run has ended.")]


@app.command("session")
def session(
    agent_id: AgentArgument,
    session_id: Annotated[str, typer.Argument(help="The session's id.")],
    wait: Wait = True,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """End a session: remove its memories if the agent's level is session, else only its working memories."""
    with client_of(home) as client:
        _end(client, client.end_session(agent_id, session_id), agent_id, wait=wait, home=home, as_json=as_json)


@app.command("project")
def project(
    agent_id: AgentArgument,
    project_id: Annotated[str, typer.Argument(help="The project's id.")],
    wait: Wait = True,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """End a project: remove its memories if the agent's level is session or project."""
    with client_of(home) as client:
        _end(client, client.end_project(agent_id, project_id), agent_id, wait=wait, home=home, as_json=as_json)


@app.command("task")
def task(
    agent_id: AgentArgument,
    task_id: Annotated[str, typer.Argument(help="The task's id.")],
    wait: Wait = True,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """End a task: remove its working memories, whatever the agent's level."""
    with client_of(home) as client:
        _end(client, client.end_task(agent_id, task_id), agent_id, wait=wait, home=home, as_json=as_json)


def _end(
    client: MemoryClient, receipt: JobReceipt, agent_id: str, *, wait: bool, home: HomeOption, as_json: bool
) -> None:
    wait = wait and not is_paused(agent_id, home)
    if not wait:
        show_facts({"run_id": receipt.job_id}, as_json=as_json)
        return
    await_run(client, receipt.job_id)
    with ledger_of(settings_of(home)) as ledger:
        show_facts(facts_of(ledger.runs.get(receipt.job_id)), as_json=as_json)


def add_to(parent: typer.Typer) -> None:
    """Put the commands on the command line."""
    parent.add_typer(app, name="end")
