"""``workers.health PART``: exit code 0 while a worker or beat on this machine takes jobs, else 1.

For probes of containers and machines. It reads only the part's heartbeat file, so it costs a few milliseconds and no
connection; a process that runs but takes no jobs is unhealthy.
"""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memcore.config import home_folder

# Only the standard library is imported here: a health check runs every few seconds and must cost nothing.

#: Seconds between two touches.
BEAT_SECONDS = 5.0

#: A part whose last touch is older than this, in seconds, does not take jobs: six beats, so that a busy machine that
#: delays a few of them raises no alarm.
STALE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One part's heartbeat file; workers of one group on one data folder share it, and any of them keeps it fresh."""

    path: Path

    @classmethod
    def of(cls, home: Path, part: str) -> "Heartbeat":
        """Return the heartbeat of a part, such as ``worker-store`` or ``beat``, below a data folder."""
        return cls(home / "run" / f"{part}.ready")

    def touch(self) -> None:
        """Record that the part takes jobs now; raises OSError when the folder cannot be written."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.touch()

    def age_seconds(self) -> float | None:
        """Return the age of the last heartbeat; None when there was none."""
        try:
            return max(0.0, time.time() - self.path.stat().st_mtime)
        except OSError:
            return None

    def is_fresh(self) -> bool:
        """Tell whether the part takes jobs."""
        age = self.age_seconds()
        return age is not None and age < STALE_SECONDS


#: Exit code for a wrong call.
EXIT_USAGE = 2


def main(argv: Sequence[str]) -> int:
    """Look at one part's heartbeat; return the exit code and say in one sentence what was seen."""
    if len(argv) != 1:
        sys.stderr.write("usage: python -m memcore.programs workers.health PART, such as worker-store or beat\n")
        return EXIT_USAGE
    heartbeat = Heartbeat.of(home_folder(os.environ), argv[0])
    age = heartbeat.age_seconds()
    if age is None:
        sys.stdout.write(f"{argv[0]} has not taken a job yet: there is no {heartbeat.path}\n")
        return 1
    sys.stdout.write(f"{argv[0]} was last well {age:.0f} seconds ago, of {STALE_SECONDS:g} allowed\n")
    return 0 if heartbeat.is_fresh() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
