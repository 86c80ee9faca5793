"""The program ``workers.stack.launcher``: imports what the parts share once, then forks each part that it is told to.

A forked part shares the launcher's memory until it writes to it, and starts without importing anything. The supervisor
starts one launcher and talks to it over a socket, one request at a time. The launcher ends when the supervisor does;
its parts live on, as those of a supervisor that starts them itself. Linux only.

It forks from one thread only: a library that starts threads as it is imported would leave locks held in every part.
"""

import ctypes
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memcore import programs
from memcore.errors import MemoryConfigError
from memcore.programs import program_argv

#: Largest request, in bytes: a command line and a few variables.
LARGEST_REQUEST = 65_536

#: What the parts share, those first that most of them use. Strings, because the parts may not import each other. Not
#: here: what reads the environment as it is imported (``celery.apps.worker``), and what most stacks never use.
PRELOADED: tuple[str, ...] = (
    "workers.app",
    "workers.logs",
    "workers.scaling",
    "workers.write_batcher",
    "memcore.backends.mem0.backend",
    "memcore.embedding.static",
    "celery.concurrency.prefork",
    "celery.concurrency.thread",
    "celery.backends.redis",
    "celery.app.control",
    "celery.app.log",
    "celery.worker.components",
    "celery.worker.consumer.delayed_delivery",
    "celery.worker.strategy",
    "celery.utils.static",
    "celery.utils.debug",
    "argparse",
    "billiard.heap",
    "billiard.popen_fork",
    "billiard.sharedctypes",
    "cffi.cparser",
    "encodings.utf_8_sig",
    "memcore.operational",
    "certifi",
    "httpcore",
    "h2.connection",
    "celery.beat",
    "celery.apps.beat",
    "celery.app.events",
    "memcore.vectorstore.app",
    "memcore.vectorstore.store",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
    "ops.http.app",
    "anyio._backends._asyncio",
    "flower.command",
    "flower.urls",
    "tornado.platform.asyncio",
)

#: Packages of which every module is imported: what is looked for by name when a part starts.
PRELOADED_PACKAGES: tuple[str, ...] = ("tasks", "scheduler", "ops.http.routes", "ops.web.routes")

#: Exit code of a launcher that may not fork: something that it imported runs a thread.
EXIT_THREADS = 3


def main(argv: Sequence[str]) -> int:
    """Serve the supervisor at the other end of a socket; return the exit code, in a part that of the part.

    The arguments are the socket's descriptor and, where the parts read an embedder's table, the embedder's name.
    """
    line = socket.socket(fileno=int(argv[0]))
    preload(*argv[1:])
    if len(list(Path("/proc/self/task").iterdir())) != 1:
        sys.stderr.write("launcher: a library runs a thread, so nothing can be forked\n")
        return EXIT_THREADS
    if (part := Forks(line).serve()) is None:
        return 0
    return programs.main(part)


def preload(embedder: str | None = None) -> None:
    """Import what the parts share, and keep it out of later collections, which would write to its pages."""
    # Where it finds this one, httpx imports a command line for people: 3 MiB, and no part has one.
    sys.modules["rich"] = None  # type: ignore[assignment]  # Python's way to say that it cannot be imported
    importlib.import_module("httpx")
    del sys.modules["rich"]
    names = [*PRELOADED]
    for name in PRELOADED_PACKAGES:
        with suppress(ImportError):
            package = importlib.import_module(name)
            names += [each.name for each in pkgutil.walk_packages(package.__path__, f"{name}.")]
    for name in names:
        # Of an extra that is not installed: the part that needs it says so itself.
        with suppress(ImportError):
            importlib.import_module(name)
    if embedder is not None:
        # The supervisor imports this module, too, and embeds nothing.
        from memcore.embedding.factory import create_embedder  # noqa: PLC0415  # see above

        with suppress(MemoryConfigError):
            create_embedder(embedder)
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):
        # What was read and freed would otherwise be copied to nobody's use; glibc alone has this call.
        ctypes.CDLL(None).malloc_trim(0)
    drop_file_pages()


#: Where a line of ``/proc/self/smaps`` names the mapped file, counted behind the addresses.
_PATH_FIELD = 4

#: How ``madvise`` is told that the pages of a mapping may go.
_MADV_DONTNEED = 4


def drop_file_pages() -> None:
    """Unmap the pages of libraries that this process has read and not written: a fork maps what it needs itself.

    Mappings that hold a page of our own, as relocated ones do, are left as they are.
    """
    with suppress(OSError, AttributeError):
        advise, mapping = ctypes.CDLL(None).madvise, None
        for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
            name, *values = line.split()
            if not name.endswith(":"):
                is_library = len(values) > _PATH_FIELD and "w" not in values[0] and values[_PATH_FIELD].startswith("/")
                mapping = name if is_library else None
            elif name == "Anonymous:" and values[0] == "0" and mapping is not None:
                start, end = (int(each, 16) for each in mapping.split("-"))
                advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)


@dataclass
class Forks:
    """Forks parts for the supervisor at the other end of a line, and tells how they ended."""

    line: socket.socket
    #: The part of the last request, if that started one.
    _latest: int | None = field(default=None, init=False)

    def serve(self) -> list[str] | None:
        """Answer requests until the supervisor is gone and return None; return the program's arguments in a part."""
        self._answer({"ready": os.getpid()})
        while True:
            content, handles, _, _ = socket.recv_fds(self.line, LARGEST_REQUEST, 1)
            if not content:
                break
            request = json.loads(content)
            if "start" in request:
                pid = os.fork()
                if pid == 0:
                    return self._become_part(request, handles[0])
                self._started(pid, handles[0])
            else:
                self._latest = None
                self._answer({"code": _ended(request["end_of"], reap=request["reap"])})
        if self._latest is not None:
            # The supervisor died before it had noted this part: the next one would not find it.
            with suppress(ProcessLookupError):
                os.killpg(self._latest, signal.SIGKILL)
        return None

    def _started(self, pid: int, log: int) -> None:
        os.close(log)
        self._latest = pid
        handle = os.pidfd_open(pid)
        try:
            self._answer({"pid": pid}, handle)
        finally:
            os.close(handle)

    def _answer(self, content: dict[str, Any], handle: int | None = None) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self.line, [json.dumps(content).encode()], [] if handle is None else [handle])

    def _become_part(self, request: dict[str, Any], log: int) -> list[str]:
        """Make this process what ``Popen`` would have started; return the program and its arguments."""
        self.line.close()
        os.setsid()
        os.umask(request["umask"])
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.close(null)
        os.close(log)
        os.environ.update(request["env"])
        argv: list[str] = request["start"]
        show_command_line(argv)
        return argv[len(program_argv("")) - 1 :]


def _ended(pid: int, *, reap: bool) -> int | None:
    """Return the exit code of an ended part, None while it runs; with ``reap`` its pid is free afterwards."""
    options = os.WEXITED | os.WNOHANG | (0 if reap else os.WNOWAIT)
    try:
        ended = os.waitid(os.P_PID, pid, options)
    except ChildProcessError:
        return None
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


#: Fields of ``/proc/self/stat`` that say where the command line lies, counted behind the process's name.
_ARG_START, _ARG_END, _ENV_START, _ENV_END = 45, 46, 47, 48


def show_command_line(argv: Sequence[str]) -> None:
    """Let ``ps`` show this command line instead of the launcher's, cut where there is no room for all of it.

    What started the launcher left its command line and environment at fixed addresses. Python and C read the
    environment elsewhere once every variable has been set again.
    """
    for name, value in list(os.environ.items()):
        os.environ[name] = value
    try:
        behind_name = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        start, end = int(behind_name[_ARG_START]), int(behind_name[_ARG_END])
        env_start, env_end = int(behind_name[_ENV_START]), int(behind_name[_ENV_END])
    except (OSError, ValueError, IndexError):
        return
    shown = "\0".join(argv).encode(errors="replace")
    if len(shown) >= end - start and env_start == end:
        # Beyond its end the system shows what comes before the first zero.
        shown, end = shown.replace(b"\0", b" "), env_end
    shown = shown[: end - start - 1]
    ctypes.memmove(start, shown + bytes(end - start - len(shown)), end - start)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
