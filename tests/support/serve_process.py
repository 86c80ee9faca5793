"""A `serve` in a process of its own, on a free port: started, killed and started again at the same address."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memcore.programs import program_argv
from support.running_stack import clean_environ

#: Seconds until a polite end: requests under way get ten.
END_SECONDS = 600


class ServeProcess:
    """A process that serves the stack of a data folder."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.options = options
        self.port = 0
        self.process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and return once it answers; the first start takes a free port, and later ones the same."""
        argv = (*program_argv("ops.http.serve", python=sys.executable), f"--port={self.port}", *self.options)
        environ = {**clean_environ(), "MEMTEND_HOME": str(self.home)}
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environ)
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        assert ready.startswith("serve.ready "), f"serve did not start: {self.process.wait()}"
        self.port = int(ready.split()[1].rpartition(":")[2])

    def kill(self) -> None:
        """End it as a power cut would."""
        if self.process is not None:
            self.process.kill()
            self._reap(self.process)

    def stop(self) -> int:
        """End it politely, and return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self._reap(self.process)

    def _reap(self, process: subprocess.Popen[str]) -> int:
        self.process = None
        code = process.wait(END_SECONDS)
        if process.stdout is not None:
            process.stdout.close()
        return code


@contextmanager
def serve_process(home: Path, *options: str) -> Iterator[ServeProcess]:
    """Serve a stack for as long as the context is open."""
    made = ServeProcess(home, *options)
    made.start()
    try:
        yield made
    finally:
        made.kill()
