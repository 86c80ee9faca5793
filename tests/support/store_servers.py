"""Real servers for tests, each a process of its own on a free port of loopback."""

import os
import secrets
import subprocess
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from qdrant_client import QdrantClient

#: Seconds that a server gets to stop: far more than it needs, so that only a hang fails a test.
STOP_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class StoreAddress:
    """Where a store server answers."""

    url: str
    api_key: str
    data: Path
    pid: int
    process: subprocess.Popen[str]

    def client(self) -> QdrantClient:
        """Return an ordinary client; close it. It skips the version check, a thread that may outlive the server."""
        with warnings.catch_warnings():
            # the key travels over loopback
            warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
            return QdrantClient(url=self.url, api_key=self.api_key, check_compatibility=False, timeout=600)

    def drop(self, prefix: str) -> None:
        """Delete the collections whose names begin so: each takes 60 MB, and where tests run that is often memory."""
        with httpx.Client(base_url=self.url, headers={"api-key": self.api_key}, timeout=600) as client:
            found = client.get("/collections").raise_for_status().json()["result"]["collections"]
            for name in (each["name"] for each in found if each["name"].startswith(prefix)):
                client.delete(f"/collections/{name}").raise_for_status()


def start_store(path: Path, *, api_key: str | None = None, port: int = 0) -> StoreAddress:
    """Start a store server on a data folder and return once it answers; the caller stops the process."""
    path.mkdir(parents=True, exist_ok=True)
    key = api_key or secrets.token_hex(8)
    key_file = path / "api-key"
    key_file.write_text(key)
    command = [sys.executable, "-m", "memcore.vectorstore.server"]
    command += ["--data", str(path / "data"), "--port", str(port), "--api-key-file", str(key_file)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONWARNINGS": ""})
    assert process.stdout is not None
    ready = process.stdout.readline()
    if not ready.startswith("store.ready "):
        stop(process)
        raise RuntimeError(f"the store server did not start: exit code {process.returncode}")
    fields = dict(field.split("=", 1) for field in ready.split()[1:])
    return StoreAddress(url=fields["url"], api_key=key, data=path / "data", pid=process.pid, process=process)


def stop(process: subprocess.Popen[str]) -> int:
    """End a process politely, and return its exit code."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
    if process.stdout is not None:
        process.stdout.close()
    return process.returncode


@contextmanager
def store_server(path: Path, *, api_key: str | None = None, port: int = 0) -> Generator[StoreAddress]:
    """Run a store server for as long as the context is open; the same path finds the same data again."""
    address = start_store(path, api_key=api_key, port=port)
    try:
        yield address
    finally:
        stop(address.process)
