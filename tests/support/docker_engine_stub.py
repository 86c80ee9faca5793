"""A stub of the Docker engine on a Unix socket; containers are processes.

It answers the calls that stages need and keeps each request for a test to read. A container's process
gets the paths of this machine in the place of the container's, so that a real stage finds its files.
"""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from tempfile import mkdtemp
from typing import Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

from memcore.finetune.runner import CONFIG
from memcore.programs import program_argv

#: The real runner, as an image's entry point would start it.
RUNNER = [*program_argv("memcore.finetune.runner")]


@dataclass
class StubContainer:
    """A container: its request and its process."""

    body: dict[str, Any]
    command: list[str]
    id: str = field(default_factory=lambda: uuid.uuid4().hex * 2)
    process: "subprocess.Popen[bytes] | None" = None
    code: int | None = None
    ended: threading.Event = field(default_factory=threading.Event)
    attached: BufferedIOBase | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, folder: Path) -> None:
        config = folder / f"{self.id}.json"
        config.write_text(self.on_this_machine(), "utf-8")
        self.process = subprocess.Popen(
            self.command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, CONFIG: str(config)},
            start_new_session=True,
        )
        threading.Thread(target=self._recorded, args=(self.process,), daemon=True).start()

    def on_this_machine(self) -> str:
        """The configuration that is mounted, with the paths behind the mounts."""
        mounts = {mount["Target"]: mount["Source"] for mount in self.body["HostConfig"]["Mounts"]}
        config = json.loads(Path(mounts["/etc/fine-tune/config.json"]).read_text("utf-8"))
        for name, value in config.items():
            for target, source in mounts.items():
                if isinstance(value, str) and (value == target or value.startswith(f"{target}/")):
                    config[name] = source + value.removeprefix(target)
        return json.dumps(config)

    def kill(self, number: signal.Signals) -> None:
        """Signal the first process; when it ends, all others of the container do."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def _recorded(self, process: "subprocess.Popen[bytes]") -> None:
        pumps = [
            threading.Thread(target=self._pump, args=(stream, number), daemon=True)
            for number, stream in ((1, process.stdout), (2, process.stderr))
        ]
        for pump in pumps:
            pump.start()
        code = process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pump in pumps:
            pump.join()
        self.code = 128 - code if code < 0 else code
        self.ended.set()

    def _pump(self, stream: BinaryIO, number: int) -> None:
        while chunk := os.read(stream.fileno(), 32_768):
            with self.lock, suppress(OSError):
                if self.attached is not None:
                    self.attached.write(struct.pack(">BxxxL", number, len(chunk)) + chunk)
                    self.attached.flush()
        stream.close()


class StubEngine(ThreadingMixIn, UnixStreamServer):
    """The engine.

    Args:
        folder: for its socket and the containers' configurations.
        images: the program of each image.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, folder: Path, images: Mapping[str, list[str]]) -> None:
        self.folder = folder
        self.images = images
        self.containers: dict[str, StubContainer] = {}
        #: Every container there ever was, by what was asked for it.
        self.asked: list[dict[str, Any]] = []
        #: Method and path of every call.
        self.calls: list[str] = []
        #: Status and message for calls that match, until it is emptied.
        self.refusals: dict[str, tuple[int, str]] = {}
        #: What the engine says of every container that has ended.
        self.is_out_of_memory = False
        super().__init__(str(folder / "engine.sock"), _Handler)

    @property
    def host(self) -> str:
        return f"unix://{self.folder / 'engine.sock'}"

    def remove(self, container: StubContainer) -> None:
        self.containers.pop(container.id, None)
        if container.process is not None:
            container.kill(signal.SIGKILL)
            container.ended.wait(30)

    def server_close(self) -> None:
        for container in list(self.containers.values()):
            self.remove(container)
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StubEngine  # pyright: ignore[reportIncompatibleVariableOverride]  # it is made by one

    def do_GET(self) -> None:
        self._route("GET")

    def do_POST(self) -> None:
        self._route("POST")

    def do_DELETE(self) -> None:
        self._route("DELETE")

    def address_string(self) -> str:
        return "client"

    def log_message(self, format: str, *_args: object) -> None:  # noqa: A002  # the base class names it so
        """Say nothing."""

    def _route(self, method: str) -> None:
        parts = urlsplit(self.path)
        call = f"{method} {re.sub(r'^/v[0-9.]+', '', parts.path)}"
        self.server.calls.append(call)
        self._query = parse_qs(parts.query)
        # Also of a call that is refused: what stays unread would be taken for the next one.
        self._body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        for pattern, (status, message) in self.server.refusals.items():
            if re.fullmatch(pattern, call):
                self._answer(status, {"message": message})
                return
        found = re.fullmatch(r"(\w+ /containers/)([0-9a-f]{12,})(/?\w*)", call)
        name, container = call, None
        if found is not None:
            name = f"{found[1]}ID{found[3]}"
            container = self.server.containers.get(found[2])
            if container is None:
                self._answer(404, {"message": f"No such container: {found[2]}"})
                return
        self._act(name, container)

    def _act(self, name: str, container: StubContainer | None) -> None:
        simple: dict[str, Callable[[], None]] = {
            "GET /version": lambda: self._answer(200, {"ApiVersion": "1.47", "MinAPIVersion": "1.24"}),
            "GET /containers/json": self._list,
            "POST /containers/create": self._create,
        }
        of_one: dict[str, Callable[[StubContainer], None]] = {
            "GET /containers/ID/json": self._inspect,
            "POST /containers/ID/attach": self._attach,
            "POST /containers/ID/start": self._start,
            "POST /containers/ID/kill": self._kill,
            "POST /containers/ID/wait": self._wait,
            "DELETE /containers/ID": self._delete,
        }
        if container is not None and name in of_one:
            of_one[name](container)
        elif name in simple:
            simple[name]()
        else:
            self._answer(501, {"message": f"{name} is not known here"})

    def _answer(self, status: int, content: object = None) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if body:
            self.wfile.write(body)

    def _list(self) -> None:
        wanted = json.loads(self._query.get("filters", ["{}"])[0]).get("label", [])
        self._answer(200, [{"Id": each.id} for each in self.server.containers.values() if _has(each, wanted)])

    def _create(self) -> None:
        body = json.loads(self._body)
        command = self.server.images.get(body["Image"])
        if command is None:
            self._answer(404, {"message": f"No such image: {body['Image']}"})
            return
        gone = [mount["Source"] for mount in body["HostConfig"]["Mounts"] if not Path(mount["Source"]).exists()]
        if gone:
            self._answer(400, {"message": f"bind source path does not exist: {gone[0]}"})
            return
        container = StubContainer(body, command)
        self.server.containers[container.id] = container
        self.server.asked.append(body)
        self._answer(201, {"Id": container.id, "Warnings": []})

    def _inspect(self, container: StubContainer) -> None:
        running = container.process is not None and not container.ended.is_set()
        labels = container.body.get("Labels", {})
        self._answer(
            200,
            {
                "Id": container.id,
                "Config": {"Tty": False, "Labels": labels},
                "State": {
                    "Status": "running" if running else "exited",
                    "OOMKilled": self.server.is_out_of_memory,
                    "ExitCode": container.code or 0,
                },
            },
        )

    def _attach(self, container: StubContainer) -> None:
        self.wfile.write(b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\n")
        self.wfile.write(b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
        self.wfile.flush()
        with container.lock:
            container.attached = self.wfile
        while not container.ended.wait(0.1) and container.id in self.server.containers:
            pass
        with container.lock:
            container.attached = None
        self.close_connection = True

    def _start(self, container: StubContainer) -> None:
        container.start(self.server.folder)
        self._answer(204)

    def _kill(self, container: StubContainer) -> None:
        if container.process is None or container.ended.is_set():
            self._answer(409, {"message": f"container {container.id} is not running"})
            return
        container.kill(signal.Signals[self._query["signal"][0]])
        self._answer(204)

    def _wait(self, container: StubContainer) -> None:
        container.ended.wait()
        self._answer(200, {"StatusCode": container.code})

    def _delete(self, container: StubContainer) -> None:
        self.server.remove(container)
        self._answer(204)


def _has(container: StubContainer, wanted: list[str]) -> bool:
    labels = container.body.get("Labels", {})
    return all(f"{name}={labels.get(name)}" == each for each in wanted for name in [each.partition("=")[0]])


@contextmanager
def stub_engine(images: Mapping[str, list[str]]) -> Iterator[StubEngine]:
    """An engine that lives within the block, with nothing left behind."""
    # A socket's path may have about a hundred characters; a test's own folder is often longer.
    folder = Path(mkdtemp(prefix="engine-"))
    engine = StubEngine(folder, images)
    thread = threading.Thread(target=engine.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield engine
    finally:
        engine.shutdown()
        engine.server_close()
        thread.join()
        shutil.rmtree(folder)
