"""A server on loopback that records every request; a test gives the answers."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Request:
    """A recorded request.

    Attributes:
        headers: by their names in lower case.
        body: its JSON; empty where there is none.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


#: A status and a JSON body for a request.
Answer = Callable[[Request], tuple[int, Any]]


def chat(*, seconds: float) -> Answer:
    """Answer as a language model does, after some time."""

    def answer(request: Request) -> tuple[int, Any]:
        time.sleep(seconds)
        message = {"role": "assistant", "content": "because"}
        return 200, {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": request.body.get("model"),
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }

    return answer


@dataclass
class Recorder:
    """The address of the server and its requests."""

    url: str = ""
    requests: list[Request] = field(default_factory=list)


@contextmanager
def recorder(answer: Answer) -> Iterator[Recorder]:
    """Yield a running server."""
    state = Recorder()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Else the answer's second packet waits 40 ms for the client's acknowledgement of its first.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def _answer(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Request(
                method=self.command,
                path=self.path,
                headers={name.lower(): value for name, value in self.headers.items()},
                body=json.loads(text) if text else {},
            )
            state.requests.append(request)
            status, made = answer(request)
            content = json.dumps(made).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                self.close_connection = True  # the client did not wait

        def log_message(self, format: str, *_: Any) -> None:  # noqa: A002  # the library's name for it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
