"""What the supervisor tells the world: which parts run, since when, and how often they fell."""

import json
import os
from pathlib import Path

import psutil

from memcore.clock import BoundedTime
from memcore.config.stack_file import opened_regular
from memcore.errors import MemoryConfigError
from memcore.frozen import Frozen


class PartState(Frozen):
    """One part, as the supervisor last saw it."""

    name: str
    pid: int | None
    born: float
    ready: bool
    restarts: int
    resident_bytes: int


class StackState(Frozen):
    """The whole stack, as its supervisor last wrote it."""

    supervisor_pid: int
    supervisor_born: float
    started_at: BoundedTime
    seen_at: BoundedTime
    peak_resident_bytes: int
    parts: tuple[PartState, ...]

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
            return StackState.model_validate(json.loads(file.read()))
    except (OSError, ValueError, MemoryConfigError):
        return None


def same_process(pid: int, born: float) -> bool:
    """Return whether the process that had this pid and was created at this time still runs."""
    try:
        process = psutil.Process(pid)
        # Half a second: the system rounds creation times.
        return abs(process.create_time() - born) < 0.5 and process.status() != psutil.STATUS_ZOMBIE  # noqa: PLR2004
    except psutil.Error:
        return False
