"""``memtend mcp``: tools over standard input and output, for a host that starts this command itself."""

import asyncio
import os
from typing import Annotated

import typer

from memcore.models.memory import require_agent_id
from memcore.telemetry import tracing
from ops.cli.session import Command, Commands
from workers.logs import set_up_logs

app = Commands()


@app.command("mcp")
def mcp(
    command: Command,
    agent: Annotated[
        str | None, typer.Option(help="The agent whose memory the tools are for; without it they are the operator's.")
    ] = None,
) -> None:
    """Serve MCP tools over standard input and output: an agent's memory, or operation. Logs go to standard error."""
    if agent is not None:
        agent = require_agent_id(agent)
    set_up_logs(command.settings)
    tracing.start(command.settings.traces, service="mcp")
    # The SDK takes a second to import, and no other command needs it.
    from ops.mcp.stdio import serve  # noqa: PLC0415  # see above

    with command.ledger() as ledger:
        asyncio.run(serve(command.settings, command.policy, ledger, command, actor=system_user(), agent_id=agent))


def system_user() -> str:
    """Return the name of the operating system's user, by its number: a variable of the host could say anything."""
    try:
        import pwd  # noqa: PLC0415  # absent on Windows
    except ImportError:
        return os.getlogin()
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # A container may run under a number without a name.
        return f"uid-{os.getuid()}"
