"""A server on loopback that writes down what is posted to it, and answers as a test says."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

#: A webhook's path, often its only key.
PATH = "hunter2"


class Listener:
    """What was posted, and what is answered; while it is cleared, requests hang.

    ``requests`` are the headers and bodies; of ``script`` each request takes the next status, and then ``status``.
    """

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.script: list[int] = []
        self.status = 204
        self.content = b""
        self.goes_on = Event()
        self.goes_on.set()
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                listener.heard.append(json.loads(body))
                listener.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
                listener.goes_on.wait()
                self.send_response(listener.script.pop(0) if listener.script else listener.status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(listener.content)))
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(listener.content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base names it
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/{PATH}"


@contextmanager
def listening() -> Iterator[Listener]:
    """Yield a listener that runs."""
    made = Listener()
    thread = Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        made.goes_on.set()
        made.server.shutdown()
        thread.join()
        made.server.server_close()
