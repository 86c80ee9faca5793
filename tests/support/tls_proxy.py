"""A TLS proxy before any server of a test, with its own certificate."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import trustme

#: Turns of the loop in which an aborted connection closes: one for TLS, one for the socket below, and as many to spare.
_CLOSING_TURNS = 4


@dataclass(frozen=True, kw_only=True)
class TlsProxy:
    """Where TLS is spoken, for the name ``localhost``, and the authority that a client must trust."""

    port: int
    ca_file: Path


@contextmanager
def tls_proxy(target_port: int, path: Path) -> Iterator[TlsProxy]:
    """Pass what comes over TLS on to a port of loopback, in a thread of its own."""
    authority = trustme.CA()
    ca_file = path / "authority.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", target_port)
        try:
            await asyncio.gather(_pass(reader, inner_writer), _pass(inner_reader, writer))
        finally:
            # Also when the proxy closes in the middle: some later test would warn of a socket left open.
            for each in (writer, inner_writer):
                each.transport.abort()

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever, name="tls-proxy", daemon=True)
    thread.start()
    try:
        yield TlsProxy(port=server.sockets[0].getsockname()[1], ca_file=ca_file)
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _end(server: asyncio.Server) -> None:
    server.close()
    mine = asyncio.current_task()
    others = [task for task in asyncio.all_tasks() if task is not mine]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    # Aborted transports close their sockets in the loop's next turns.
    for _ in range(_CLOSING_TURNS):
        await asyncio.sleep(0)
