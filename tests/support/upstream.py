"""A server of language models that keeps what it was sent, and answers what it was ordered to, byte for byte."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Received:
    """A request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass(kw_only=True)
class Upstream:
    """Where it answers, what came, and what it answers: parts of a body, sent one by one in chunks.

    Attributes:
        breaks_off: the connection ends behind the parts, before the body does.
    """

    url: str = ""
    status: str = "200 OK"
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    parts: Sequence[bytes] = (b"{}",)
    breaks_off: bool = False
    received: list[Received] = field(default_factory=list)
    _open: dict[asyncio.StreamWriter, asyncio.Task[None]] = field(default_factory=dict)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[writer] = task
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *rows = head.strip().split("\r\n")
                headers = {name.lower(): value for name, _, value in (row.partition(": ") for row in rows)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                self.received.append(Received(line=line, headers=headers, body=body))
                begun = [f"HTTP/1.1 {self.status}", *(f"{name}: {value}" for name, value in self.headers.items())]
                writer.write("\r\n".join([*begun, "Transfer-Encoding: chunked", "", ""]).encode())
                for part in self.parts:
                    writer.write(b"%x\r\n%s\r\n" % (len(part), part))
                    await writer.drain()
                    # Lets the other side read it as a part of its own.
                    await asyncio.sleep(0)
                if self.breaks_off:
                    break
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        writer.close()

    async def _close(self) -> None:
        for writer in self._open:
            writer.close()
        await asyncio.gather(*self._open.values())


@asynccontextmanager
async def upstream() -> AsyncIterator[Upstream]:
    """Serve one in this event loop."""
    made = Upstream()
    server = await asyncio.start_server(made._serve, "127.0.0.1", 0, limit=1 << 26)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield made
    finally:
        server.close()
        await made._close()
