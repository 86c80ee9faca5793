"""The health endpoint of a stage runner: ``GET /healthz`` answers while the process lives."""

import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from memcore.errors import MemoryInputError
from memcore.finetune.events import FineTuneEvent

#: The variables that say where it listens; a container sets the host to 0.0.0.0.
PORT = "MEMTEND_FINE_TUNE_HEALTH_PORT"
HOST = "MEMTEND_FINE_TUNE_HEALTH_HOST"

DEFAULT_PORT = 15_002
DEFAULT_HOST = "127.0.0.1"

_MAX_PORT = 65_535

_log = logging.getLogger(__name__)


def health_address(environment: Mapping[str, str] = os.environ) -> tuple[str, int]:
    """Return host and port; MemoryInputError when the port is none."""
    told = environment.get(PORT, str(DEFAULT_PORT))
    if not (told.isascii() and told.isdigit() and 1 <= int(told[:6]) <= _MAX_PORT):
        raise MemoryInputError(PORT, f"must be a port from 1 to {_MAX_PORT}, and is {told[:64]!r}")
    return environment.get(HOST, DEFAULT_HOST), int(told)


@contextmanager
def health_endpoint(address: tuple[str, int]) -> Iterator[None]:
    """Answer within the block; where the port is taken there is a warning and no answer."""
    try:
        server = ThreadingHTTPServer(address, _handler(time.monotonic()))
    except OSError as error:
        _log.warning(FineTuneEvent.HEALTH_BIND_FAILED, extra={"port": address[1], "error": type(error).__name__})
        yield
        return
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(begun: float) -> type[BaseHTTPRequestHandler]:
    class Health(BaseHTTPRequestHandler):
        """Says that the process lives, and for how long."""

        def do_GET(self) -> None:
            if self.path != "/healthz":
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = json.dumps({"status": "ok", "uptime_seconds": round(time.monotonic() - begun, 3)}).encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_args: object) -> None:  # noqa: A002  # the base class names it so
            """Say nothing: probes come every second."""

    return Health
