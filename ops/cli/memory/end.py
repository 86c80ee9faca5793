"""``memtend end``: end a session, a project or a task."""

from collections.abc import Callable
from typing import Annotated

import typer

from memcore.client import JobReceipt, MemoryClient
from ops.cli.maintenance.runs import is_paused, show_ended
from ops.cli.session import Commands, JsonCommand

app = Commands("end", "End a session, a project or a task.")

AgentArgument = Annotated[str, typer.Argument(help="Whose.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the run has ended.")]


@app.command("session")
def session(
    command: JsonCommand,
    agent_id: AgentArgument,
    session_id: Annotated[str, typer.Argument(help="The session's id.")],
    wait: Wait = True,
) -> None:
    """End a session: remove its memories if the agent's level is session, else only its working memories."""
    _end(command, agent_id, lambda client: client.end_session(agent_id, session_id), wait=wait)


@app.command("project")
def project(
    command: JsonCommand,
    agent_id: AgentArgument,
    project_id: Annotated[str, typer.Argument(help="The project's id.")],
    wait: Wait = True,
) -> None:
    """End a project: remove its memories if the agent's level is session or project."""
    _end(command, agent_id, lambda client: client.end_project(agent_id, project_id), wait=wait)


@app.command("task")
def task(
    command: JsonCommand,
    agent_id: AgentArgument,
    task_id: Annotated[str, typer.Argument(help="The task's id.")],
    wait: Wait = True,
) -> None:
    """End a task: remove its working memories, whatever the agent's level."""
    _end(command, agent_id, lambda client: client.end_task(agent_id, task_id), wait=wait)


def _end(command: JsonCommand, agent_id: str, end: Callable[[MemoryClient], JobReceipt], *, wait: bool) -> None:
    with command.client() as client:
        receipt = end(client)
        show_ended(command, client, receipt.job_id, wait=wait and not is_paused(command, agent_id))
