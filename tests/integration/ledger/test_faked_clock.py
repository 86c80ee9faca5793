"""The machine's clock for real: 400 days ahead and back, and the days on which daylight saving begins and ends."""

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from support import clock_reader

#: The named one, or where Debian and Fedora put it.
LIBRARIES = [
    *filter(None, [os.environ.get("MEMTEND_TEST_FAKETIME")]),
    *sorted(map(str, Path("/usr").glob("lib*/**/faketime/libfaketime.so.1"))),
]

pytestmark = pytest.mark.skipif(
    not LIBRARIES, reason="needs libfaketime.so.1, installed or named by MEMTEND_TEST_FAKETIME"
)


def ticked(folder: Path, clock: str = "") -> tuple[datetime, datetime, bool]:
    """Tick in a process whose clock is another one; return its time, the agent's next slot, and whether it doubts."""
    faked = {"LD_PRELOAD": LIBRARIES[0], "FAKETIME": clock} if clock else {}
    tests = str(Path(clock_reader.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, clock_reader.__file__, folder],
        env={**os.environ, "TZ": "Europe/Berlin", "PYTHONPATH": tests, **faked},
        check=True,
        capture_output=True,
        text=True,
    )
    said = json.loads(done.stdout)
    return datetime.fromisoformat(said["now"]), datetime.fromisoformat(said["due"]), said["doubted"]


def test_a_clock_that_goes_400_days_ahead_and_comes_back_leaves_nothing_behind(tmp_path: Path) -> None:
    _, _, is_doubted = ticked(tmp_path)
    assert not is_doubted
    ahead, planned, is_doubted = ticked(tmp_path, "+400d")
    assert is_doubted
    now, due, is_doubted = ticked(tmp_path)
    assert not is_doubted
    assert planned > ahead > now + timedelta(days=399)
    assert due <= now + timedelta(hours=1)


@pytest.mark.parametrize(
    ("before", "after", "hours"),
    [("2026-10-25 01:59:00", "2026-10-25 03:01:00", 2), ("2026-03-29 01:59:00", "2026-03-29 03:01:00", 0)],
)
def test_a_day_of_daylight_saving_moves_no_slot(before: str, after: str, hours: int, tmp_path: Path) -> None:
    first, first_due, _ = ticked(tmp_path, f"@{before}")
    second, second_due, is_doubted = ticked(tmp_path, f"@{after}")
    assert abs(second - first - timedelta(hours=hours, minutes=2)) < timedelta(minutes=1)
    assert (second_due - first_due) % timedelta(hours=1) == timedelta(0)
    assert second < second_due <= second + timedelta(hours=1)
    assert not is_doubted
