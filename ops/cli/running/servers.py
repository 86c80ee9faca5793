"""``memtend serve`` and ``memtend mcp``: the HTTP API, and tools over standard input and output."""

import asyncio
import os
from typing import Annotated

import typer

from memcore.models.memory import require_agent_id
from memcore.telemetry import tracing
from ops.cli.session import Command, Commands
from workers.logs import set_up_logs

app = Commands()


@app.command("serve")
def serve(
    command: Command,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one, and the first line names it.")] = 8321,
    rate: Annotated[float, typer.Option(help="Requests a second of one key.")] = 500.0,
    burst: Annotated[int, typer.Option(help="Requests that a key may send at once.")] = 1_000,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Ask for no key; on loopback alone, where every user may come in.")
    ] = False,
) -> None:
    """Serve memories over HTTP until Ctrl-C; any number may run. `memtend up` runs one by itself."""
    # They take half a second to import.
    from ops.http.context import ServeOptions  # noqa: PLC0415  # see above
    from ops.http.serve import Listen, run  # noqa: PLC0415  # see above

    options = ServeOptions(requires_key=not no_auth, rate_per_second=rate, burst=burst)
    listen = Listen(host=host, port=port, options=options)
    settings = command.settings
    set_up_logs(settings)
    run(settings, listen)


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
    from ops.mcp.stdio import serve as serve_tools  # noqa: PLC0415  # see above

    with command.ledger() as ledger:
        asyncio.run(serve_tools(command.settings, command.policy, ledger, command, actor=system_user(), agent_id=agent))


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
