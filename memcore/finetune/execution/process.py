"""Runs a stage as a process group of this machine, reads its output, and ends all that it has started."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from memcore.finetune.documents import write_text
from memcore.finetune.execution.protocol import (
    GRACE,
    POLL,
    RunnerOutputReader,
    StageJob,
    StageOutcome,
    Streams,
    outcome_of,
    stop_of,
)
from memcore.finetune.markers import RunnerEvent
from memcore.finetune.runner import CONFIG, PARENT
from memcore.programs import program_argv

#: How long to wait for the last output of a runner that has ended: a child of it may hold the output open for ever.
_LAST_WORDS = 1.0


class ProcessExecutor:
    """Runs stages with this Python, or another.

    Args:
        scratch: a folder for the runners' configurations.
        python: the interpreter; this one by default.
        environment: of the runner, beside this process's own.
        grace: seconds from the request to stop until it is killed.
    """

    def __init__(
        self,
        scratch: Path,
        *,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
        grace: float = GRACE,
    ) -> None:
        self._scratch = scratch
        self._command = program_argv("memcore.finetune.runner", python=python)
        self._environment = dict(environment or {})
        self._grace = grace

    def run(
        self,
        job: StageJob,
        *,
        on_event: Callable[[RunnerEvent], None],
        cancelled: Callable[[], bool],
        born: Callable[[str], None],
    ) -> StageOutcome:
        """Carry out a stage (see memcore.finetune.execution.protocol.StageExecutor)."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        config = self._scratch / f"{job.config.stage}.json"
        write_text(config, job.config.model_dump_json())
        process = subprocess.Popen(  # our own module, and a path of our own making
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **self._environment, CONFIG: str(config), PARENT: str(os.getpid())},
            start_new_session=True,
        )
        try:
            born(name_of(process.pid))
            return self._followed(process, job, on_event, cancelled)
        finally:
            _end_group(process)

    def _followed(
        self,
        process: "subprocess.Popen[bytes]",
        job: StageJob,
        on_event: Callable[[RunnerEvent], None],
        cancelled: Callable[[], bool],
    ) -> StageOutcome:
        stage = str(job.config.stage)
        output_reader = RunnerOutputReader(job.config.stage, on_event)
        deadline = time.monotonic() + job.timeout_seconds
        stopped: StageOutcome | None = None
        with Streams(process) as streams:
            while process.poll() is None:
                output_reader.take(streams.read(POLL))
                if stopped is None:
                    stopped = stop_of(stage, cancelled=cancelled, deadline=deadline, seconds=job.timeout_seconds)
                    if stopped is not None:
                        _signal_group(process, signal.SIGTERM)
                        deadline = time.monotonic() + self._grace
                elif time.monotonic() > deadline:
                    _signal_group(process, signal.SIGKILL)
            output_reader.take(streams.rest(_LAST_WORDS))
        output_reader.end()
        if stopped is not None:
            return stopped
        return outcome_of(
            is_complete=output_reader.is_complete, exit_code=process.returncode, error=output_reader.reason, stage=stage
        )


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


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    # Also when the runner itself has ended: its children live in its group.
    _signal_group(process, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
