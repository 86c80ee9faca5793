"""The store server's process: ``python -m memcore.vectorstore.server --data DIR --port N --api-key-file FILE``.

It owns the data folder alone, binds to loopback, prints ``store.ready url=... pid=...`` when it answers, and ends with
exit code 0 after SIGTERM or SIGINT: it stops accepting, finishes requests, writes everything to disk and closes. Exit
code 2 means that it could not start, with one sentence on standard error; 1 that the disk is full, and that it may be
started again.

Durability: see ``memcore.vectorstore.store``. One thread does everything but syncing: the engine keeps the
interpreter's lock in every call, so a vacuum of a large collection (about a second at 50,000 points, only after ten
quiet seconds) delays every answer, the health answer too.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from types import FrameType

import uvicorn
import uvloop

from memcore.errors import MemoryConfigError, MemoryDiskFullError
from memcore.vectorstore.app import build_app
from memcore.vectorstore.bounded_server import BoundedProtocol
from memcore.vectorstore.collection import owned
from memcore.vectorstore.store import Store

#: Exit code of a server that could not start.
EXIT_CANNOT_START = 2

#: Exit code of a server that found no room on its disk.
EXIT_DISK_FULL = 1

#: Seconds that requests under way get at shutdown before their connections are closed.
_GRACE_SECONDS = 20

#: Connections that wait to be accepted while an engine call runs.
_BACKLOG = 512


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server until a signal ends it; return the exit code."""
    options = _options(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        with owned(options.data), _bound(options.port) as listener:
            api_key = _api_key(options.api_key_file)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(_serve(options.data, listener, api_key))
    except MemoryConfigError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_CANNOT_START
    except MemoryDiskFullError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_DISK_FULL
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m memcore.vectorstore.server", description="Serve a folder of vectors over Qdrant's REST calls."
    )
    parser.add_argument("--data", type=Path, required=True, help="the data folder; this process becomes its only owner")
    parser.add_argument("--port", type=int, default=0, help="the port; 0 takes a free one and the ready line names it")
    parser.add_argument("--api-key-file", type=Path, required=True, help="a file that holds the API key")
    return parser.parse_args(arguments)


def _api_key(file: Path) -> str:
    try:
        key = file.read_text().strip()
    except OSError as error:
        raise MemoryConfigError(f"--api-key-file {file} cannot be read: {error.strerror}.") from error
    if not key:
        raise MemoryConfigError(f"--api-key-file {file} is empty.")
    return key


@contextlib.contextmanager
def _bound(port: int) -> Generator[socket.socket]:
    """Bind before anything is opened: a taken port is reported at once."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            raise MemoryConfigError(f"cannot bind to 127.0.0.1 port {port}: {error.strerror}.") from error
        yield listener


async def _serve(data: Path, listener: socket.socket, api_key: str) -> None:
    config = uvicorn.Config(
        build_app(Store(data), api_key=api_key),
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    listener.listen(_BACKLOG)
    await _Server(config).serve(sockets=[listener])


#: Seconds between two looks at the clock, for the date in answers.
_TICK_SECONDS = 1.0


class _Server(uvicorn.Server):
    """Uvicorn, with exit code 0 after a signal and a line when it is ready."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._is_ending = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        # the original raises the signal again at the end, which would turn a clean stop into a death by signal
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._is_ending.set()

    async def main_loop(self) -> None:
        # The original looks ten times a second whether it should end.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_ending.wait(), _TICK_SECONDS)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()
            # To a log on a full disk: saying it is no reason to end.
            with contextlib.suppress(OSError):
                sys.stdout.write(f"store.ready url=http://{host}:{port} pid={os.getpid()}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
