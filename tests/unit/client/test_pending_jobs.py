import pytest

from memcore.client.results import POLL_SECONDS, JobState, JobStatus, PendingJobs


def done(job_id: str) -> JobStatus:
    return JobStatus(job_id=job_id, state=JobState.DONE)


def test_each_job_is_awaited_once_and_struck_off() -> None:
    pending_jobs = PendingJobs(["a", "b", "a"], timeout_seconds=1)
    assert list(pending_jobs.waiting) == ["a", "b"]
    assert [status.job_id for status in pending_jobs.mark_finished([done("a")])] == ["a"]
    assert list(pending_jobs.waiting) == ["b"]
    pending_jobs.mark_finished([done("b"), done("b")])
    assert not pending_jobs.waiting


def test_time_up_names_how_many_are_out() -> None:
    now = 0.0
    pending_jobs = PendingJobs(["a", "b"], timeout_seconds=3, clock=lambda: now)
    assert pending_jobs.poll_delay() == POLL_SECONDS
    pending_jobs.mark_finished([done("b")])
    now = 3.1
    with pytest.raises(TimeoutError, match="1 of 2 jobs had not finished after 3 seconds"):
        pending_jobs.poll_delay()
