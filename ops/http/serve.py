"""Runs the HTTP API: ``memtend serve``, or ``python -m ops.http.serve`` as a part of the stack.

It ends with exit code 0 after SIGTERM or SIGINT, once requests under way have ended or ten seconds are over.
"""

import argparse
import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from types import FrameType

import uvicorn
import uvloop

from memcore.config.settings import Settings
from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.operational import report_error
from memcore.telemetry import tracing
from memcore.vectorstore.bounded_server import BoundedProtocol
from ops.http.app import create_app
from ops.http.context import ServeContext, ServeOptions
from ops.http.limits import BURST, RATE_PER_SECOND
from workers.logs import set_up_logs

#: Where it listens unless it is said otherwise.
HOST, PORT = "127.0.0.1", 8321

#: Seconds that requests under way get at shutdown before their connections are closed.
_GRACE_SECONDS = 10

#: Connections that wait to be accepted.
_BACKLOG = 512

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
    config = uvicorn.Config(
        create_app(context),
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    listener.listen(_BACKLOG)
    await _Server(config, context.stopping).serve(sockets=[listener])


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


#: Seconds between two looks at the clock, for the date in answers.
_TICK_SECONDS = 1.0


class _Server(uvicorn.Server):
    """Uvicorn, with exit code 0 after a signal and a line when it is ready."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        # The original raises the signal again at the end, which would turn a clean stop into a death by signal.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._stopping.set()

    async def main_loop(self) -> None:
        # The original looks ten times a second whether it should end.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _TICK_SECONDS)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            # Into a log on a full disk: saying it is no reason to end.
            with contextlib.suppress(OSError):
                sys.stdout.write(f"serve.ready url=http://{shown}:{port} pid={os.getpid()}\n")
                sys.stdout.flush()


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
