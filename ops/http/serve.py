"""Runs the HTTP API: ``memtend serve``, or ``python -m ops.http.serve`` as a part of the stack.

It ends with exit code 0 after SIGTERM or SIGINT, once requests under way have ended or ten seconds are over.
"""

import argparse
import asyncio
import contextlib
import ipaddress
import os
import socket
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import uvloop

from memcore.config.settings import Settings
from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.operational import report_error
from memcore.telemetry import tracing
from memcore.vectorstore.bounded_server import serve
from ops.http.app import create_app
from ops.http.context import ServeContext, ServeOptions
from ops.http.limits import BURST, RATE_PER_SECOND
from workers.logs import set_up_logs

#: Where it listens unless it is said otherwise.
HOST, PORT = "127.0.0.1", 8321

#: Seconds that requests under way get at shutdown before their connections are closed.
_GRACE_SECONDS = 10

#: Seconds that a connection is kept open between two requests: longer than most clients keep theirs.
_KEEP_ALIVE_SECONDS = 75


@dataclass(frozen=True, kw_only=True)
class Listen:
    """Where a ``serve`` listens, and how it runs. Raises MemoryInputError where nobody may listen so.

    Attributes:
        host: an address of this machine; ``0.0.0.0`` for all.
        port: 0 takes a free one.
    """

    host: str = HOST
    port: int = PORT
    options: ServeOptions = field(default_factory=ServeOptions)

    def __post_init__(self) -> None:
        if not 0 <= self.port < 1 << 16:
            raise MemoryInputError("port", "must be 0 to 65535")
        if self.options.rate_per_second <= 0 or self.options.burst < 1:
            raise MemoryInputError("rate", "must be above 0, and the burst at least 1")
        if not self.options.requires_key and not is_loopback(self.host):
            raise MemoryInputError(
                "no_auth", f"is for loopback alone, and not for {self.host}: everybody could come in"
            )


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address; False for a name that is not ``localhost``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def run(settings: Settings, listen: Listen) -> None:
    """Serve until a signal ends it. Raises MemoryConfigError when it cannot listen there."""
    with _bound(listen) as listener:
        context = ServeContext.open(settings, listen.options)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(context, listener))


async def _serve(context: ServeContext, listener: socket.socket) -> None:
    await serve(
        create_app(context),
        listener,
        name="serve",
        stopping=context.stopping,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )


@contextlib.contextmanager
def _bound(listen: Listen) -> Generator[socket.socket]:
    """Bind before anything is opened: a taken port is reported at once."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
    except OSError as error:
        raise MemoryConfigError(f"host: {listen.host!r} is no address ({error.strerror})") from None
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError as error:
            raise MemoryConfigError(f"cannot listen on {listen.host} port {listen.port}: {error.strerror}") from None
        yield listener


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the installation of the environment; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ops.http.serve", description="Serve memories over HTTP.")
    parser.add_argument("--host", default=HOST)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--rate", type=float, default=RATE_PER_SECOND)
    parser.add_argument("--burst", type=int, default=BURST)
    parser.add_argument("--no-auth", action="store_true")
    given = parser.parse_args(arguments)
    options = ServeOptions(requires_key=not given.no_auth, rate_per_second=given.rate, burst=given.burst)
    try:
        listen = Listen(host=given.host, port=given.port, options=options)
        settings = Settings.load(os.environ)
        set_up_logs(settings)
        tracing.start(settings.traces, service="serve")
        run(settings, listen)
    except Exception as error:  # noqa: BLE001  # a defect is raised again
        return report_error(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
