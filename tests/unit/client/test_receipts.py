import pytest

from memcore.client.publisher import PROGRESS, SNOOZED, _status
from memcore.client.results import JobState, JobStatus


@pytest.mark.parametrize(
    ("meta", "state", "reason", "is_finished"),
    [
        ({"status": "PENDING", "result": None}, JobState.PENDING, None, False),
        ({"status": "STARTED", "result": None}, JobState.RUNNING, None, False),
        ({"status": "RETRY", "result": OSError("text")}, JobState.RETRYING, None, False),
        ({"status": SNOOZED, "result": {"reason": "paused"}}, JobState.SNOOZED, "paused", False),
        ({"status": "SUCCESS", "result": {"outcome": "done", "facts": {"stored": 2}}}, JobState.DONE, None, True),
        ({"status": "SUCCESS", "result": {"outcome": "skipped", "reason": "r"}}, JobState.SKIPPED, "r", True),
        ({"status": "SUCCESS", "result": {"outcome": "dead", "reason": "r"}}, JobState.DEAD, "r", True),
        ({"status": "FAILURE", "result": ValueError("a memory's text")}, JobState.DEAD, "ValueError", True),
        ({"status": "REVOKED", "result": None}, JobState.DEAD, "NoneType", True),
    ],
)
def test_what_the_result_store_says_becomes_a_status(
    meta: dict[str, object], state: JobState, reason: str | None, is_finished: bool
) -> None:
    status = _status("job", meta)
    assert (status.state, status.reason, status.is_finished) == (state, reason, is_finished)


def test_a_long_job_says_how_far_it_is() -> None:
    status = _status("job", {"status": PROGRESS, "result": {"stage": "training", "fraction": 0.25}})
    assert status == JobStatus(job_id="job", state=JobState.RUNNING, stage="training", fraction=0.25)
    assert _status("job", {"status": PROGRESS, "result": None}) == JobStatus(job_id="job", state=JobState.RUNNING)


def test_the_facts_of_a_job_are_handed_on() -> None:
    meta = {"status": "SUCCESS", "result": {"outcome": "done", "facts": {"stored": 2, "buried": 0}}}
    assert _status("job", meta) == JobStatus(job_id="job", state=JobState.DONE, facts={"stored": 2, "buried": 0})
