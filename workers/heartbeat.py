"""The heartbeat of a part: a file that it touches while it takes jobs, so that anybody can see when it stopped.

Only the standard library is imported here: a health check runs every few seconds and must cost nothing.
"""

import time
from dataclasses import dataclass
from pathlib import Path

#: Seconds between two touches.
BEAT_SECONDS = 5.0

#: A part whose last touch is older than this, in seconds, does not take jobs: six beats, so that a busy machine that
#: delays a few of them raises no alarm.
STALE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One part's file; several workers of one group on one data folder share it, and any of them keeps it fresh."""

    path: Path

    @classmethod
    def of(cls, home: Path, part: str) -> "Heartbeat":
        """Return the heartbeat of a part, such as ``worker-store`` or ``beat``, below a data folder."""
        return cls(home / "run" / f"{part}.ready")

    def touch(self) -> None:
        """Say that the part takes jobs now; raises OSError when the folder cannot be written."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.touch()

    def age_seconds(self) -> float | None:
        """Return how long ago the part was last well; None when it never was."""
        try:
            return max(0.0, time.time() - self.path.stat().st_mtime)
        except OSError:
            return None

    def is_fresh(self) -> bool:
        """Tell whether the part takes jobs."""
        age = self.age_seconds()
        return age is not None and age < STALE_SECONDS
