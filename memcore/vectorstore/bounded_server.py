"""HTTP connections with limits: seconds for headers and for a body, bytes of headers, and connections at once.

Uvicorn waits without end for the rest of a request; a few thousand half-sent ones would hold every file that a process
may open. The store server and ``memtend serve`` both are served so.
"""

import asyncio
import contextlib
import os
import resource
import signal
import socket
import sys
from asyncio import TimerHandle, Transport
from collections.abc import Generator
from http import HTTPStatus
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Seconds from the first byte of a request, or from the connection, to the end of its headers.
HEADER_SECONDS = 10.0

#: Seconds from the end of the headers to the end of the body: 1 MiB at 35 KB/s.
BODY_SECONDS = 30.0

#: Most bytes of a request's address and headers (64 KiB) that are not yet complete.
MAX_HEADER_BYTES = 65_536

#: Most connections at once, where the process may open twice as many files; half of these otherwise.
MAX_CONNECTIONS = 4_096


def most_connections() -> int:
    """Return how many connections this process may have at once."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, files // 2)


class BoundedProtocol(HttpToolsProtocol):
    """Answers 408 to a request that does not end, 431 to headers that do not, 503 to a connection too many."""

    _deadline: TimerHandle | None = None
    _header_bytes = 0
    _reads_headers = True

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Take a connection, or refuse it."""
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
        else:
            self._expect(HEADER_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._reads_headers:
            self._header_bytes += len(data)
            if self._header_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Note that a request begins."""
        super().on_message_begin()
        self._reads_headers = True
        self._expect(HEADER_SECONDS)

    def on_headers_complete(self) -> None:
        """Start what answers the request."""
        self._reads_headers, self._header_bytes = False, 0
        self._expect(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that a request is whole."""
        self._expect_nothing()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._expect_nothing()
        super().connection_lost(exc)

    def _expect(self, seconds: float) -> None:
        self._expect_nothing()
        self._deadline = self.loop.call_later(seconds, self._refuse, HTTPStatus.REQUEST_TIMEOUT)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, status: HTTPStatus) -> None:
        """Close the connection, and say why unless an answer is under way."""
        self._expect_nothing()
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = status.phrase.encode()
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: text/plain\r\nconnection: close\r\n"
            self.transport.write(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
        self.transport.close()


#: Connections that wait to be accepted, as while a call of the engine runs.
_BACKLOG = 512

#: Seconds between two looks at the clock, for the date in answers.
_TICK_SECONDS = 1.0


async def serve(app: Any, listener: socket.socket, *, name: str, stopping: asyncio.Event, **how: Any) -> None:
    """Serve an app until a signal comes, and print ``NAME.ready url=... pid=...`` when it answers.

    ``stopping`` is set then; ``how`` has what else uvicorn.Config takes.
    """
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        backlog=_BACKLOG,
        **how,
    )
    listener.listen(_BACKLOG)
    await _Server(config, name, stopping).serve(sockets=[listener])


class _Server(uvicorn.Server):
    """Uvicorn, with exit code 0 after a signal and a line when it is ready."""

    def __init__(self, config: uvicorn.Config, name: str, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._name = name
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
                sys.stdout.write(f"{self._name}.ready url=http://{shown}:{port} pid={os.getpid()}\n")
                sys.stdout.flush()
