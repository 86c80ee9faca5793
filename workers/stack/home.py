"""The data folder of a stack: its subfolders, addresses with passwords, and the supervisor's state file."""

import json
import os
import secrets
import socket
import stat
from contextlib import suppress
from pathlib import Path

import psutil
from pydantic import Field, SecretStr

from memcore.config.settings import Settings, opened_regular, write_private
from memcore.config.urls import sqlite_url
from memcore.errors import MemoryConfigError
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime

#: Bytes of randomness in each generated password.
_PASSWORD_BYTES = 24

#: What `memtend up` writes into a new folder: the defaults, and the level by name (SPEC M6), since a person who reads
#: one line should read how long memories live.
STARTER_POLICY = """\
# What memtend may do with memories; `memtend config show` prints every value and where it comes from.
memory:
  level: persistent
"""


#: What memtend itself puts into a data folder: data that must survive, a log for each part, files that are valid only
#: while the stack runs, and the policy that a person writes.
_OWN_NAMES = {"data", "logs", "run", "fine-tune", "policy.yaml"}


def create_folders(home: Path) -> None:
    """Create a data folder's missing folders and close all to others; MemoryConfigError when another user owns it."""
    kept = [home / name for name in ("data", "logs", "run")]
    for folder in (home, *kept, home / "data" / "broker", home / "data" / "vectors"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Root may serve another user's stack.
        if os.geteuid() not in {folder.stat().st_uid, 0}:
            raise MemoryConfigError(f"{folder}: belongs to another user; choose another --home")
    for folder in (*kept, home / "fine-tune"):
        _close_to_others(folder)
    # A folder that holds other things too, such as /tmp, is not ours alone to close.
    if {entry.name for entry in home.iterdir()} <= _OWN_NAMES:
        home.chmod(stat.S_IRWXU)
    policy = home / "policy.yaml"
    if not policy.exists():
        policy.write_text(STARTER_POLICY, encoding="utf-8")


#: Ports that no system gives to outgoing connections by itself, and well-known services leave alone.
_PORTS = range(20_000, 30_000)

#: Ports that are tried.
_TRIES = 100


class ListenAddresses(Frozen):
    """Where the parts of a stack listen, and their passwords; kept from start to start while the ports are free."""

    broker_port: int
    store_port: int
    flower_port: int
    serve_port: int
    llm_port: int
    broker_password: str = Field(repr=False)
    store_key: str = Field(repr=False)
    flower_password: str = Field(repr=False)
    llm_key: str = Field(repr=False)

    def settings(self, home: Path, *, tick_seconds: float, sweep_seconds: float) -> Settings:
        """Return the settings by which every process of the stack, and every engine beside it, finds the parts."""
        broker = f"redis://:{self.broker_password}@127.0.0.1:{self.broker_port}"
        return Settings(
            broker_url=f"{broker}/0",
            result_url=f"{broker}/1",
            database_url=sqlite_url(home / "data" / "ledger.db"),
            journal_url=sqlite_url(home / "data" / "journal.db"),
            history_url=sqlite_url(home / "data" / "history.db"),
            qdrant_url=f"http://127.0.0.1:{self.store_port}",
            qdrant_api_key=SecretStr(self.store_key),
            flower_url=f"http://memtend:{self.flower_password}@127.0.0.1:{self.flower_port}",
            policy_path=home / "policy.yaml",
            home=home,
            tick_seconds=tick_seconds,
            sweep_seconds=sweep_seconds,
        )

    def of_local_llm(self, model: str) -> dict[str, str | None]:
        """Return the settings by which every process finds the language model of this name that the stack serves."""
        return {"llm_url": f"http://127.0.0.1:{self.llm_port}/v1", "llm_api_key": self.llm_key, "llm_local": model}


def reserve_addresses(home: Path) -> ListenAddresses:
    """Return the addresses of the last start if their ports are free, else new ones; the file is owner-only."""
    kept = home / "run" / "doors.json"
    try:
        with opened_regular(kept) as file:
            addresses = ListenAddresses.model_validate_json(file.read(), extra="ignore")
        ports = [port for name, port in addresses if name.endswith("_port")]
        if all(map(_is_free, ports)):
            return addresses
    except (OSError, ValueError, MemoryConfigError):
        pass  # the first start, or a file from another version: new addresses are as good
    broker, store, flower, serve, llm = _free_ports(5)
    addresses = ListenAddresses(
        broker_port=broker,
        store_port=store,
        flower_port=flower,
        serve_port=serve,
        llm_port=llm,
        broker_password=secrets.token_hex(_PASSWORD_BYTES),
        store_key=secrets.token_hex(_PASSWORD_BYTES),
        flower_password=secrets.token_hex(_PASSWORD_BYTES),
        llm_key=secrets.token_hex(_PASSWORD_BYTES),
    )
    write_private(kept, addresses.model_dump_json())
    return addresses


def _close_to_others(folder: Path) -> None:
    """Take every right of group and others from a folder and all below it; links are not followed."""
    for root, _, files in os.walk(folder):
        for path in (Path(root), *(Path(root, name) for name in files)):
            # A stack that runs here may replace its files meanwhile.
            with suppress(FileNotFoundError):
                mode = path.stat().st_mode
                if mode & (stat.S_IRWXG | stat.S_IRWXO) and (path == folder or not path.is_symlink()):
                    path.chmod(stat.S_IMODE(mode) & stat.S_IRWXU)


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _free_ports(count: int) -> list[int]:
    """Return free ports below those that the system gives to outgoing connections.

    A part binds its port seconds after it was chosen, and until then any connection of any process could take one of
    the system's. Where none of many is free there, the system chooses.
    """
    found: list[int] = []
    tried = iter(secrets.SystemRandom().sample(_PORTS, _TRIES))
    while len(found) < count and (port := next(tried, None)) is not None:
        if _is_free(port):
            found.append(port)
    while len(found) < count:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            found.append(listener.getsockname()[1])
    return found


class ServiceState(Frozen):
    """State of one part, as the supervisor last saw it; one that is ``starting`` runs and was not ready yet."""

    name: str
    pid: int | None
    born: float
    ready: bool
    starting: bool = False
    restarts: int
    resident_bytes: int


class StackState(Frozen):
    """State of the whole stack, as its supervisor last wrote it; ``asleep`` names the parts that no job needs yet."""

    supervisor_pid: int
    supervisor_born: float
    started_at: BoundedTime
    seen_at: BoundedTime
    peak_resident_bytes: int
    parts: tuple[ServiceState, ...]
    asleep: tuple[str, ...] = ()

    @property
    def is_alive(self) -> bool:
        """Whether the supervisor that wrote this still runs; another process with its pid does not count."""
        return same_process(self.supervisor_pid, self.supervisor_born)


def state_path(home: Path) -> Path:
    """Return where the supervisor of a data folder writes its state."""
    return home / "run" / "state.json"


def write_state(home: Path, state: StackState) -> None:
    """Write the state so that readers see the old one or the new one, whole; raises OSError."""
    path = state_path(home)
    draft = path.with_suffix(f".{os.getpid()}")
    try:
        draft.write_text(state.model_dump_json(indent=1), encoding="utf-8")
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def read_state(home: Path) -> StackState | None:
    """Return the state last written, or None when there is none that can be read."""
    try:
        with opened_regular(state_path(home)) as file:
            return StackState.model_validate(json.loads(file.read()), extra="ignore")
    except (OSError, ValueError, MemoryConfigError):
        return None


def sleeping_parts(home: Path) -> frozenset[str]:
    """Return the parts of the stack that runs on a data folder that no job needs yet; none where no stack runs."""
    state = read_state(home)
    return frozenset(state.asleep) if state is not None and state.is_alive else frozenset()


def waiting_parts(home: Path) -> tuple[str, ...]:
    """Return the workers and beat of a running stack that take no jobs; none where no stack runs on this folder."""
    state = read_state(home)
    if state is None or not state.is_alive:
        return ()
    return tuple(part.name for part in state.parts if part.name.startswith(("worker-", "beat")) and not part.ready)


def same_process(pid: int, born: float) -> bool:
    """Return whether the process that had this pid and was created at this time still runs."""
    try:
        process = psutil.Process(pid)
        # Half a second: the system rounds creation times.
        return abs(process.create_time() - born) < 0.5 and process.status() != psutil.STATUS_ZOMBIE  # noqa: PLR2004
    except psutil.Error:
        return False
