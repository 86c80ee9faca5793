"""``memtend serve``: the HTTP API."""

from typing import Annotated

import typer

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
