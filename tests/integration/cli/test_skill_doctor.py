"""What the doctor sees of the evolver."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.ledger_records import finish_cycle

from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger
from ops.cli.console import CheckResult
from ops.cli.memory.skills import skill_evolver

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)

POLICY = """\
memory:
  consolidation:
    interval: {interval}
  procedural:
    evolver:
      enabled: {enabled}
"""

Look = Callable[..., CheckResult]


@pytest.fixture
def check_now(environ: dict[str, str], tmp_path: Path) -> Look:
    def check_now(interval: str = "hourly", enabled: str = "true") -> CheckResult:
        path = tmp_path / "policy.yaml"
        path.write_text(POLICY.format(interval=interval, enabled=enabled), encoding="utf-8")
        (found,) = skill_evolver(Settings.load(environ | {"MEMTEND_POLICY_PATH": str(path)}))
        return found

    return check_now


@pytest.fixture
def ledger(sqlite_ledger: LedgerUrls) -> Iterator[Ledger]:
    opened = Ledger.open(sqlite_ledger, clock=lambda: NOW)
    yield opened
    opened.close()


def planned(ledger: Ledger, age: timedelta) -> str:
    cycle = ledger.skill_cycles.plan("default", origin="scheduled", planned_at=NOW - age, window=HOUR)
    assert cycle is not None
    return cycle.cycle_id


def finished(urls: LedgerUrls, age: timedelta) -> None:
    """Put a cycle there that was planned and finished so long ago."""
    past = Ledger.open(urls, clock=lambda: NOW - age)
    finish_cycle(past, "default", planned(past, age), {})
    past.close()


def test_an_evolver_that_was_just_switched_on_is_well(check_now: Look, ledger: Ledger) -> None:
    assert (check_now().ok, check_now().seen) == (True, "no cycle has finished")
    planned(ledger, HOUR)
    assert check_now().ok


def test_a_first_cycle_that_is_never_finished_is_complained_of(check_now: Look, ledger: Ledger) -> None:
    planned(ledger, 3 * HOUR)
    assert not check_now().ok
    assert check_now(enabled="false").ok


@pytest.mark.parametrize(("age", "interval", "ok"), [
    (HOUR, "hourly", True),
    (3 * HOUR, "hourly", False),
    (3 * HOUR, "daily", True),
    (50 * HOUR, "daily", False),
    (50 * HOUR, "never", True),
])  # fmt: skip
def test_the_last_cycle_may_be_two_intervals_old(
    check_now: Look, sqlite_ledger: LedgerUrls, age: timedelta, interval: str, *, ok: bool
) -> None:
    finished(sqlite_ledger, age)
    found = check_now(interval)
    assert found.ok is ok
    assert f"last cycle finished {NOW - age:%Y-%m-%d %H:%M} UTC" in found.seen
    assert "that worker's log" in found.mend


def test_an_evolver_that_is_off_is_never_late(check_now: Look, sqlite_ledger: LedgerUrls) -> None:
    finished(sqlite_ledger, timedelta(days=40))
    found = check_now(enabled="false")
    assert found.ok
    assert found.seen.startswith("off; last cycle finished ")
