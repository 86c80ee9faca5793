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
import socket
import sys
from collections.abc import Generator, Sequence
from pathlib import Path

import uvloop

from memcore.errors import MemoryConfigError, MemoryDiskFullError
from memcore.vectorstore.app import build_app
from memcore.vectorstore.bounded_server import serve
from memcore.vectorstore.collection import owned
from memcore.vectorstore.store import Store

#: Exit code of a server that could not start.
EXIT_CANNOT_START = 2

#: Exit code of a server that found no room on its disk.
EXIT_DISK_FULL = 1

#: Seconds that requests under way get at shutdown before their connections are closed.
_GRACE_SECONDS = 20


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
    app = build_app(Store(data), api_key=api_key)
    await serve(app, listener, name="store", stopping=asyncio.Event(), timeout_graceful_shutdown=_GRACE_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
