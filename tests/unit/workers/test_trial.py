import threading
from collections.abc import Generator
from datetime import timedelta

import pytest

from memcore.config.urls import LedgerUrls
from memcore.ledger.dead_letters import Attempts
from memcore.ledger.ledger import Ledger
from workers.celery_task import SerialGate


@pytest.fixture
def attempts(sqlite_ledger: LedgerUrls) -> Generator[Attempts]:
    ledger = Ledger.open(sqlite_ledger)
    yield ledger.attempts
    ledger.close()


class WorkerDied(BaseException):
    """Stands for the end of the process: nothing after it runs."""


def test_each_start_says_how_many_workers_died_before_it(attempts: Attempts) -> None:
    deaths: list[int] = []

    def kill(died: int) -> None:
        deaths.append(died)
        raise WorkerDied

    for _ in range(4):
        with pytest.raises(WorkerDied):
            SerialGate(yield_time=timedelta(0)).run("job", kill, attempts)
    # the first was that of the new message, whose start nobody counts
    assert deaths == [1, 2, 3, 4]


def test_who_waits_beside_a_suspect_is_not_counted_when_it_kills_the_worker(attempts: Attempts) -> None:
    guard = SerialGate()
    for job_id in ("suspect", "innocent"):
        attempts.begin(job_id)
    at_work, go_on, counts = threading.Event(), threading.Event(), list[int]()

    def suspect(_died: int) -> None:
        at_work.set()
        assert go_on.wait(20)
        # as the worker that dies here would leave it, with both in hand
        counts.extend(attempts.count(job_id) for job_id in ("suspect", "innocent"))

    def innocent(_died: int) -> None:
        counts.append(attempts.count("innocent"))

    first = threading.Thread(target=guard.run, args=("suspect", suspect, attempts))
    second = threading.Thread(target=guard.run, args=("innocent", innocent, attempts))
    first.start()
    assert at_work.wait(20)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    go_on.set()
    first.join()
    second.join()
    assert counts == [2, 1, 2]


def test_jobs_that_come_back_for_the_first_time_do_not_wait_for_each_other(attempts: Attempts) -> None:
    guard = SerialGate()
    together = threading.Barrier(3)

    def run(_died: int) -> None:
        together.wait(20)

    threads = [threading.Thread(target=guard.run, args=(f"job-{number}", run, attempts)) for number in range(2)]
    for thread in threads:
        thread.start()
    together.wait(20)
    for thread in threads:
        thread.join()
