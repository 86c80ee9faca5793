"""How many children a worker has: one, more while jobs wait, and one again."""

from dataclasses import dataclass, field

import pytest
from celery.worker import state

from workers.groups import GROUPS
from workers.run import options_of
from workers.scaling import GROW_SECONDS, SHRINK_SECONDS, PatientScaler


@dataclass
class Pool:
    """A pool that counts its children."""

    num_processes: int = 1

    def grow(self, count: int) -> None:
        self.num_processes += count

    def shrink(self, count: int) -> None:
        self.num_processes -= count

    def maintain_pool(self) -> None:
        pass


@dataclass
class Worker:
    """A worker, its children, its jobs and its clock."""

    monkeypatch: pytest.MonkeyPatch
    pool: Pool = field(default_factory=Pool)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.scaler = PatientScaler(self.pool, 2, 1, monotonic=lambda: self.seconds)

    def look(self, jobs: int, *, after: float = 0.0) -> int:
        """Let some time pass and look at so many jobs; return the number of children."""
        self.seconds += after
        self.monkeypatch.setattr(state, "reserved_requests", range(jobs))
        self.scaler.maybe_scale()
        return self.pool.num_processes


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(monkeypatch)


def test_short_jobs_that_come_together_share_one_child(worker: Worker) -> None:
    for _ in range(4):
        assert worker.look(2, after=15.0) == 1
        assert worker.look(0, after=GROW_SECONDS / 2) == 1


def test_a_job_that_waits_gets_a_child_and_there_are_never_too_many(worker: Worker) -> None:
    worker.look(2)
    assert worker.look(3, after=GROW_SECONDS) == 2
    assert worker.look(3, after=GROW_SECONDS) == 2


def test_a_child_that_is_not_needed_ends_when_no_job_is_under_way(worker: Worker) -> None:
    worker.look(2)
    worker.look(2, after=GROW_SECONDS)
    assert worker.look(0, after=SHRINK_SECONDS - 1) == 2
    assert worker.look(1, after=2) == 2
    assert worker.look(0) == 1
    assert worker.look(0, after=SHRINK_SECONDS) == 1


def test_one_that_is_needed_stays(worker: Worker) -> None:
    worker.look(2)
    for _ in range(3):
        assert worker.look(2, after=SHRINK_SECONDS) == 2
    assert worker.look(0, after=1) == 2


def test_only_a_worker_of_several_children_is_scaled() -> None:
    assert {name for name, group in GROUPS.items() if "autoscale" in options_of(group)} == {"night"}
