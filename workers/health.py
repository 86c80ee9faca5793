"""``workers.health PART``: exit code 0 while a worker or beat on this machine takes jobs, else 1.

With ``--alive``: 0 while it is not frozen. A part that waits for a broker that is away is alive, and takes no jobs.
With ``--end-frozen`` it also ends the process of a part that is frozen, so that whoever started it starts it again.

For probes of containers and machines. It reads only the part's heartbeat file, so it costs a few milliseconds and no
connection.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from memcore.config import home_folder

# Only the standard library is imported here: a health check runs every few seconds and must cost nothing.

#: Seconds between two touches.
BEAT_SECONDS = 5.0

#: A part whose last touch is older than this, in seconds, does not take jobs: six beats, so that a busy machine that
#: delays a few of them raises no alarm.
STALE_SECONDS = 30.0

#: A process that has shown no life for so long, in seconds, is frozen, and is replaced: three beats. It may hold what
#: all others wait for, such as SQLite's one turn to write. A machine at a load of seven for each core delayed one by
#: 1.5 s.
FROZEN_SECONDS = 15.0

#: The same while a part starts, which on a busy machine may take its time.
STARTING_SECONDS = 120.0

#: Seconds that a part gets to show life before it is ended, two beats: the clock may have been set, or the machine may
#: have slept.
LAST_LOOK_SECONDS = 2 * BEAT_SECONDS


Key = TypeVar("Key", bound=Hashable)


class LifeWatch:
    """Tells which processes have shown no life for too long, in this process's own time.

    When a sign was given counts for nothing: the system's clock may be set.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._looked_at = monotonic()
        self._seen: dict[Hashable, tuple[object, float]] = {}

    def frozen(self, signs: Mapping[Key, tuple[object, float]]) -> list[Key]:
        """Return those whose sign, the first of each pair, has been the same for more than the second, in seconds."""
        now, looked_at, seen = self._monotonic(), self._looked_at, self._seen
        for name in seen.keys() - signs.keys():
            del seen[name]
        self._looked_at = now
        for name, (sign, seconds) in signs.items():
            # After half the limit without a look this process slept, and the others perhaps with it.
            if name not in seen or seen[name][0] != sign or now - looked_at > seconds / 2:
                seen[name] = sign, now
        return [name for name, (_, seconds) in signs.items() if now - seen[name][1] > seconds]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One part's heartbeat file; workers of one group on one data folder share it, and any of them keeps it fresh."""

    path: Path

    @classmethod
    def of(cls, home: Path, part: str) -> "Heartbeat":
        """Return the heartbeat of a part, such as ``worker-store`` or ``beat``, below a data folder."""
        return cls(home / "run" / f"{part}.ready")

    @classmethod
    def alive(cls, home: Path, part: str) -> "Heartbeat":
        """Return the signs of life of a part, which it also gives while it can take no jobs."""
        return cls(home / "run" / f"{part}.alive")

    def touch(self) -> None:
        """Record that it is so now; raises OSError when the folder cannot be written."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.touch()

    def name_process(self, pid: int, born: float) -> None:
        """Write the process that shows life here, and when it was created; raises OSError."""
        self.touch()
        self.path.write_text(f"{pid} {born}", encoding="ascii")

    def named_process(self) -> tuple[int, float] | None:
        """Return the pid of the process that shows life here, and when it was created; None where none is named."""
        try:
            pid, born = self.path.read_text(encoding="ascii").split()
            return (int(pid), float(born)) if int(pid) > 0 else None
        except (OSError, ValueError):
            return None

    def touched_at(self) -> float | None:
        """Return when the last heartbeat was, in seconds since 1970; None when there was none."""
        try:
            return self.path.stat().st_mtime
        except OSError:
            return None

    def age_seconds(self) -> float | None:
        """Return the age of the last heartbeat; None when there was none."""
        touched = self.touched_at()
        return None if touched is None else max(0.0, time.time() - touched)

    def is_fresh(self, *, seconds: float = STALE_SECONDS) -> bool:
        """Tell whether the last heartbeat is younger than ``seconds``."""
        age = self.age_seconds()
        return age is not None and age < seconds


#: Exit code for a wrong call.
EXIT_USAGE = 2

_OPTIONS = {"--alive", "--end-frozen"}


def main(argv: Sequence[str]) -> int:
    """Look at one part's heartbeat; return the exit code and say in one sentence what was seen."""
    options, names = _OPTIONS.intersection(argv), [word for word in argv if word not in _OPTIONS]
    if len(names) != 1:
        sys.stderr.write(
            "usage: python -m memcore.programs workers.health [--alive] [--end-frozen] PART, such as worker-store "
            "or beat\n"
        )
        return EXIT_USAGE
    home, (name,) = home_folder(os.environ), names
    ready, alive = Heartbeat.of(home, name), Heartbeat.alive(home, name)
    frozen = frozen_seconds(ready, alive)
    if "--end-frozen" in options and (pid := _end_frozen(alive, frozen)) is not None:
        sys.stdout.write(f"{name} showed no life for {frozen:g} seconds: process {pid} was ended\n")
        return 1
    heartbeat, limit = (alive, frozen) if "--alive" in options else (ready, STALE_SECONDS)
    age = heartbeat.age_seconds()
    if age is None:
        sys.stdout.write(f"{name} has not taken a job yet: there is no {heartbeat.path}\n")
        return 1
    sys.stdout.write(f"{name} was last well {age:.0f} seconds ago, of {limit:g} allowed\n")
    return 0 if heartbeat.is_fresh(seconds=limit) else 1


def frozen_seconds(ready: Heartbeat, alive: Heartbeat) -> float:
    """Return for how long a part may show no life before it counts as frozen."""
    named = alive.named_process()
    # As in the supervisor: one that has not been ready may take its time.
    was_ready = named is not None and (ready.touched_at() or 0) >= named[1]
    return FROZEN_SECONDS if was_ready else STARTING_SECONDS


def _end_frozen(alive: Heartbeat, seconds: float) -> int | None:
    """Kill the process that showed life here, where it shows none; return its pid, or None where nothing was ended."""
    touched = alive.touched_at()
    # A sign from a time to come is looked at twice, too: the clock was set back, and the part may be frozen since.
    if touched is None or abs(time.time() - touched) < seconds:
        return None
    time.sleep(LAST_LOOK_SECONDS)
    if alive.touched_at() != touched:
        return None
    from workers.stack.home import same_process  # noqa: PLC0415  # only where a part is frozen, see above

    named = alive.named_process()
    if named is None or not same_process(*named):
        return None
    with suppress(OSError):  # it has just ended
        os.kill(named[0], signal.SIGKILL)
    return named[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
