import pytest

from memcore.client.results import POLL_SECONDS, JobState, JobStatus, Vigil


def done(job_id: str) -> JobStatus:
    return JobStatus(job_id=job_id, state=JobState.DONE)


def test_each_job_is_awaited_once_and_struck_off() -> None:
    vigil = Vigil(["a", "b", "a"], timeout_seconds=1)
    assert list(vigil.waiting) == ["a", "b"]
    assert [status.job_id for status in vigil.strike([done("a")])] == ["a"]
    assert list(vigil.waiting) == ["b"]
    vigil.strike([done("b"), done("b")])
    assert not vigil.waiting


def test_time_up_names_how_many_are_out() -> None:
    now = 0.0
    vigil = Vigil(["a", "b"], timeout_seconds=3, clock=lambda: now)
    assert vigil.pause() == POLL_SECONDS
    vigil.strike([done("b")])
    now = 3.1
    with pytest.raises(TimeoutError, match="1 of 2 jobs had not finished after 3 seconds"):
        vigil.pause()
