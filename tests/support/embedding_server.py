"""A server of OpenAI's embedding API on loopback; a script tells how it fails."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from support.hashing_embedder import HashingEmbedder

#: What one scripted answer does with the request's texts: a status, headers and a body.
Answer = Callable[[list[str]], tuple[int, dict[str, str], Any]]


def vectors(texts: list[str], *, dims: int = 16, scale: float = 3.0) -> Any:
    """The body of a good answer, out of order and not of unit length, as servers may answer."""
    rows = HashingEmbedder(dims=dims).embed_documents(texts) * scale
    data = [{"object": "embedding", "index": i, "embedding": row.tolist()} for i, row in enumerate(rows)]
    return {"object": "list", "data": data[::-1], "model": "stub"}


def good(texts: list[str]) -> tuple[int, dict[str, str], Any]:
    return 200, {}, vectors(texts)


def status(code: int, **headers: str) -> Answer:
    # Servers quote what they refuse: none of it may come out of the embedder.
    return lambda texts: (code, {k.replace("_", "-"): v for k, v in headers.items()}, {"error": {"message": texts}})


def body(made: Any) -> Answer:
    return lambda _texts: (200, {}, made)


@dataclass
class EmbeddingServer:
    """The requests so far, and the answers to come; without a script it answers correctly."""

    url: str = ""
    script: list[Answer] = field(default_factory=list)
    #: Answers a request by its texts, where the script is empty.
    usual: Answer = good
    asked: list[list[str]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    #: While it is cleared, requests hang.
    goes_on: Event = field(default_factory=Event)


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    """Yield a running server."""
    state = EmbeddingServer()
    state.goes_on.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Else the answer's second packet waits 40 ms for the client's acknowledgement of its first.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self.answer(200, {}, {"data": [{"id": name} for name in state.models]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.asked.append(asked["input"])
            state.keys.append(self.headers["Authorization"])
            state.goes_on.wait(60)
            self.answer(*(state.script.pop(0) if state.script else state.usual)(asked["input"]))

        def answer(self, code: int, headers: dict[str, str], made: Any) -> None:
            content = made if isinstance(made, bytes) else json.dumps(made).encode()
            try:
                self.send_response(code)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                self.close_connection = True  # the client did not wait

        def log_message(self, format: str, *_: Any) -> None:  # noqa: A002  # the library's name for it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.goes_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
