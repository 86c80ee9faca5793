import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from ledgers import sqlite_urls

from memcore.jobs.outcomes import Dead, Done, Outcome
from memcore.ledger.attempts import Attempts
from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate
from workers.trial import Trial


@pytest.fixture
def attempts(tmp_path: Path) -> Generator[Attempts]:
    urls = sqlite_urls(tmp_path)
    migrate(urls)
    ledger = Ledger.open(urls)
    yield ledger.attempts
    ledger.close()


class WorkerDied(BaseException):
    """Stands for the end of the process: nothing after it runs."""


def kill() -> Outcome:
    raise WorkerDied


def test_a_job_that_kills_every_worker_is_given_up_after_as_many_as_it_may(attempts: Attempts) -> None:
    # the first death was that of the new message, whose start nobody counts
    for _ in range(3):
        with pytest.raises(WorkerDied):
            Trial(deaths=4).carry_out("job", kill, attempts)
    outcome = Trial(deaths=4).carry_out("job", kill, attempts)
    assert outcome == Dead(reason="4 workers died while they ran it")


def test_who_waits_beside_a_suspect_is_not_counted_when_it_kills_the_worker(attempts: Attempts) -> None:
    trial = Trial(deaths=4)
    for job_id in ("suspect", "innocent"):
        attempts.begin(job_id)
    at_work, go_on, counts = threading.Event(), threading.Event(), list[int]()

    def suspect() -> Outcome:
        at_work.set()
        assert go_on.wait(20)
        # as the worker that dies here would leave it, with both in hand
        counts.extend(attempts.count(job_id) for job_id in ("suspect", "innocent"))
        return Done()

    def innocent() -> Outcome:
        counts.append(attempts.count("innocent"))
        return Done()

    first = threading.Thread(target=trial.carry_out, args=("suspect", suspect, attempts))
    second = threading.Thread(target=trial.carry_out, args=("innocent", innocent, attempts))
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
    trial = Trial(deaths=4)
    together = threading.Barrier(3)

    def run() -> Outcome:
        together.wait(20)
        return Done()

    threads = [threading.Thread(target=trial.carry_out, args=(f"job-{number}", run, attempts)) for number in range(2)]
    for thread in threads:
        thread.start()
    together.wait(20)
    for thread in threads:
        thread.join()
