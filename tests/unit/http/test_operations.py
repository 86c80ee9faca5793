"""Ids of operations: made without a table, and good for their own company alone."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore import ids
from memcore.client.results import JobState, JobStatus
from memcore.config.settings import Settings
from memcore.errors import MemoryNotFoundError
from ops.http.operations import Operation, Operations, combined, progress_of

JOB = ids.new_id()
OPERATION = Operation(operation_id="op", agent_id="a", job_ids=("j",))


def _settings(broker: str = "one") -> Settings:
    return Settings(
        broker_url=f"redis://:{broker}@127.0.0.1:1/0",
        database_url="sqlite:///x.db",
        qdrant_url="http://127.0.0.1:2",
        home=Path("/nowhere"),
    )


@given(agent_id=st.text(st.characters(codec="utf-8"), min_size=1, max_size=256), count=st.integers(1, 255))
def test_an_id_says_what_it_was_made_of(agent_id: str, count: int) -> None:
    jobs = tuple(ids.new_id() for _ in range(count))
    operation = Operations(_settings()).known("acme", Operations(_settings()).issue("acme", agent_id, jobs))
    assert (operation.agent_id, operation.job_ids) == (agent_id, jobs)


def test_of_another_company_or_installation_it_names_nothing() -> None:
    made = Operations(_settings()).issue("acme", "oncall", [JOB])
    for operations, company in ((Operations(_settings()), "globex"), (Operations(_settings("other")), "acme")):
        with pytest.raises(MemoryNotFoundError):
            operations.known(company, made)


@given(data=st.data())
def test_a_changed_id_names_nothing(data: st.DataObject) -> None:
    operations = Operations(_settings())
    made = operations.issue("acme", "oncall", [JOB])
    place = data.draw(st.integers(0, len(made) - 2))
    letter = data.draw(st.sampled_from("ABCDEFGHIJabcdefghij0123456789-_.").filter(lambda each: each != made[place]))
    with pytest.raises(MemoryNotFoundError):
        operations.known("acme", made[:place] + letter + made[place + 1 :])


@given(text=st.text(max_size=100))
def test_any_other_text_names_nothing(text: str) -> None:
    with pytest.raises(MemoryNotFoundError):
        Operations(_settings()).known("acme", text)


def test_of_several_jobs_the_one_furthest_behind_counts() -> None:
    done = JobStatus(job_id="a", state=JobState.DONE, facts={"stored": 2})
    waits = JobStatus(job_id="b", state=JobState.PENDING)
    dead = JobStatus(job_id="c", state=JobState.DEAD, reason="why", facts={"stored": 1})
    assert (combined("op", [done, waits]).state, combined("op", [done, waits]).is_finished) == ("pending", False)
    ended = combined("op", [done, dead])
    assert (ended.state, ended.is_finished, ended.reason, ended.facts) == ("dead", True, "why", {"stored": 3})
    assert combined("op", [dead, waits]).is_finished is False


class Waiting:
    """Knows a job that never ends; each look takes a second."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def status(self, job_id: str) -> JobStatus:
        self.seconds += 1.0
        return JobStatus(job_id=job_id, state=JobState.PENDING)

    def monotonic(self) -> float:
        return self.seconds


async def test_progress_of_a_job_that_nobody_knows_ends_after_its_longest_time() -> None:
    client = Waiting()
    progress = progress_of(
        client, OPERATION, stopping=asyncio.Event(), poll_seconds=0.0, longest_seconds=9.5, monotonic=client.monotonic
    )
    assert [each.state async for each in progress] == ["pending"]
    assert client.seconds == 10.0


async def test_progress_ends_when_the_server_stops() -> None:
    client, stopping = Waiting(), asyncio.Event()
    progress = progress_of(client, OPERATION, stopping=stopping, poll_seconds=3_600.0)
    assert (await anext(progress)).is_finished is False
    more = asyncio.ensure_future(anext(progress, None))
    await asyncio.sleep(0)
    stopping.set()
    assert await more is None


async def test_progress_is_sent_when_it_changes_and_ends_with_the_job() -> None:
    states = [JobState.PENDING, JobState.PENDING, JobState.RUNNING, JobState.RUNNING, JobState.DONE, JobState.DEAD]

    class Client:
        async def status(self, job_id: str) -> JobStatus:
            return JobStatus(job_id=job_id, state=states.pop(0))

    progress = progress_of(Client(), OPERATION, stopping=asyncio.Event(), poll_seconds=0.0)
    seen = [each.state async for each in progress]
    assert (seen, states) == (["pending", "running", "done"], [JobState.DEAD])
