"""Runs a stage as a process group of this machine, reads its output, and ends all that it has started."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from memcore.finetune.documents import write_text
from memcore.finetune.execution.protocol import CHUNK, GRACE, POLL, Chunks, RunnerOutput, StageJob, StageOutcome
from memcore.finetune.runner import CONFIG, PARENT
from memcore.programs import program_argv

#: How long to wait for the last output of a runner that has ended: a child of it may hold the output open for ever.
_LAST_WORDS = 1.0


class ProcessExecutor:
    """Runs stages with this Python, or another."""

    def __init__(self, scratch: Path, *, python: str = sys.executable, grace: float = GRACE) -> None:
        self._scratch = scratch
        self._command = program_argv("memcore.finetune.runner", python=python)
        self._grace = grace

    def run(self, job: StageJob) -> StageOutcome:
        """Carry out a stage."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        config = self._scratch / f"{job.config.stage}.json"
        write_text(config, job.config.model_dump_json())
        process = subprocess.Popen(  # our own module, and a path of our own making
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, CONFIG: str(config), PARENT: str(os.getpid())},
            start_new_session=True,
        )
        output = RunnerOutput(job)
        try:
            job.born(name_of(process.pid))
            with contextlib.closing(_Pipes(process)) as pipes:
                stopped = output.follow(
                    lambda: pipes.read(POLL) if process.poll() is None else None,
                    lambda number: _signal_group(process, number),
                    grace=self._grace,
                )
                output.take(pipes.rest())
            output.end()
        finally:
            # Also when the runner itself has ended: its children live in its group.
            _signal_group(process, signal.SIGKILL)
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        return output.outcome(process.returncode) if stopped is None else stopped


class _Pipes:
    """Reads a process's outputs without waiting longer than it is told to."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._selector = selectors.DefaultSelector()
        for stream, name in ((process.stdout, "output"), (process.stderr, "errors")):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self._selector.register(stream, selectors.EVENT_READ, name)

    def read(self, seconds: float) -> Chunks:
        """Return what there is, after at most so long."""
        if not self._selector.get_map():
            time.sleep(seconds)
            return []
        found: Chunks = []
        for key, _ in self._selector.select(seconds):
            stream: IO[bytes] = key.fileobj  # type: ignore[assignment]
            chunk = os.read(stream.fileno(), CHUNK)
            if chunk:
                found.append((key.data, chunk))
            else:
                self._selector.unregister(stream)
        return found

    def rest(self) -> Chunks:
        """Return what is left, until the outputs end or nothing comes for a second."""
        found: Chunks = []
        while self._selector.get_map():
            chunks = self.read(_LAST_WORDS)
            if not chunks and self._selector.get_map():
                break
            found += chunks
        return found

    def close(self) -> None:
        """Close the selector; the streams are the process's."""
        self._selector.close()


def name_of(pid: int) -> str:
    """Return a name of a process group that is never reused: its number and its start."""
    return f"process:{pid}:{_started(pid)}"


def end_by_name(name: str) -> bool:
    """Kill the process group of that name, if it is still the same; return whether there was one."""
    kind, _, rest = name.partition(":")
    pid, _, started = rest.partition(":")
    if kind != "process" or not pid.isdigit() or _started(int(pid)) != started or not started:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.killpg(int(pid), signal.SIGKILL)
    return True


def _started(pid: int) -> str:
    """Return when a process started, in the kernel's ticks since it booted; empty when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    # The name in parentheses may hold anything; the start is the twentieth field after it.
    return stat.rpartition(")")[2].split()[19]


def _signal_group(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
