"""No message is acknowledged that nobody kept: what cannot begin goes back, and what fails later becomes an outcome."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest.mock import MagicMock

import pytest
from celery import Celery
from celery.exceptions import Reject
from celery.exceptions import Retry as Requeued
from pydantic import ValidationError
from support.job_contexts import ScriptedContext, ScriptedContexts
from support.repository import ROOT

from memcore.config.policy import Policy
from memcore.errors import MemoryConfigError, MemoryConnectionError
from memcore.ingest import WriteResult
from memcore.jobs import Dead, Done, Outcome, Retry, Snooze, StoreItem, StorePayload
from tasks.job import RETRY_DELAY, WRITE_LIMITS, Job
from workers.celery_task import MAX_COUNTDOWN, build_tasks, run_job
from workers.write_batcher import BatchWriter

PAYLOAD = (ROOT / "tests/fixtures/payloads/store-1.json").read_text()


def job_that(run: Callable[..., Outcome], *, retry_after: timedelta = RETRY_DELAY) -> Job:
    return Job(payload=StorePayload, limits=WRITE_LIMITS, retry_after=retry_after, run=run)


def a_row_with_an_unknown_key() -> ValidationError:
    with pytest.raises(ValidationError) as raised:
        Policy.model_validate({"sides": 1})
    return raised.value


class Contexts(ScriptedContexts):
    """Fails to open until the test has it open, or as often as it says."""

    error: BaseException | None = None
    times = 1_000
    seconds = 5.0

    def refused_seconds(self, _company: str | None) -> float:
        return self.seconds

    @contextmanager
    def of(self, company: str | None) -> Iterator[ScriptedContext]:
        if self.error is not None and self.times:
            self.times -= 1
            raise self.error
        with super().of(company) as context:
            yield context


def run_task(contexts: Contexts, job: Job, monkeypatch: pytest.MonkeyPatch, *, retries: int = 3) -> dict[str, Any]:
    """Run a delivered message; return what it was put back with. Fails where it would be acknowledged."""
    app = Celery(set_as_current=False, broker="memory://")
    current: Any = contexts
    build_tasks(app, [job], current)
    task, back = app.tasks[job.name], MagicMock()
    monkeypatch.setattr(task, "signature_from_request", back)
    task.push_request(id="job-1", retries=retries, delivery_info={"routing_key": "memory.store", "redelivered": False})
    with pytest.raises(Requeued):
        task.run(PAYLOAD)
    back.return_value.apply_async.assert_called_once_with()
    return dict(back.call_args.kwargs)


@pytest.mark.parametrize(
    "error",
    [
        a_row_with_an_unknown_key(),
        MemoryConfigError("a policy"),
        MemoryConnectionError("away"),
        KeyError("sides"),
        ImportError("a driver"),
        MemoryError(),
        asyncio.CancelledError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_job_whose_context_cannot_open_goes_back_without_an_attempt(
    job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    contexts = Contexts(job_context)
    contexts.error = error
    back = run_task(contexts, job_that(lambda *_: Done()), monkeypatch)
    assert (back["retries"], back["countdown"]) == (3, 5)
    contexts.seconds = 3_600
    assert run_task(contexts, job_that(lambda *_: Done()), monkeypatch)["countdown"] == MAX_COUNTDOWN.total_seconds()


def test_a_job_waits_in_its_thread_for_what_is_away_and_keeps_its_place(
    job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[Outcome] = [Retry(reason="away", delay=timedelta(seconds=2)), Done()]
    job = job_that(lambda *_: outcomes.pop(0), retry_after=timedelta(0))
    contexts = Contexts(job_context)
    contexts.error, contexts.times = MemoryConnectionError("away"), 2
    current: Any = contexts
    app = Celery(set_as_current=False, broker="memory://")
    build_tasks(app, [job], current)
    task, back = app.tasks[job.name], MagicMock()
    monkeypatch.setattr(task, "signature_from_request", back)
    task.push_request(id="job-1", retries=3, delivery_info={"routing_key": "memory.store", "redelivered": False})
    assert task.run(PAYLOAD)["outcome"] == "done"
    assert (contexts.times, outcomes) == (0, [])
    back.assert_not_called()


@pytest.mark.parametrize(
    ("outcome", "in_hand", "retry_after"),
    [
        (Retry(reason="away", delay=timedelta(seconds=2)), timedelta(seconds=1), timedelta(0)),
        (Snooze(reason="the disk is full", delay=timedelta(seconds=6)), timedelta(seconds=60), timedelta(0)),
        (Retry(reason="away", delay=timedelta(seconds=2)), timedelta(seconds=10), timedelta(seconds=10)),
    ],
    ids=["it waited long enough", "it is to come later", "it is in no hurry"],
)
def test_a_job_that_does_not_wait_in_its_thread_goes_back(
    job_context: ScriptedContext,
    monkeypatch: pytest.MonkeyPatch,
    outcome: Outcome,
    in_hand: timedelta,
    retry_after: timedelta,
) -> None:
    monkeypatch.setattr("workers.celery_task.IN_HAND", in_hand)
    outcomes = [outcome]
    job = job_that(lambda *_: outcomes.pop(), retry_after=retry_after)
    assert run_task(Contexts(job_context), job, monkeypatch)["countdown"] in {2, 6}


def test_a_job_whose_context_is_wrong_does_not_wait_in_its_thread(
    job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = Contexts(job_context)
    contexts.error, contexts.times = MemoryConfigError("a policy"), 1
    run_task(contexts, job_that(lambda *_: Done(), retry_after=timedelta(0)), monkeypatch)


@pytest.mark.parametrize("error", [ValueError("a column"), MemoryError(), RuntimeError("a driver")])
def test_a_dead_letter_that_cannot_be_written_keeps_the_message(
    job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(job_context.ledger.dead_letters, "put", MagicMock(side_effect=error))
    back = run_task(Contexts(job_context), job_that(lambda *_: Dead(reason="r")), monkeypatch)
    assert back["retries"] == 3


def test_a_message_that_cannot_be_looked_into_goes_back(
    job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.celery_task.company_of", MagicMock(side_effect=MemoryError))
    assert run_task(Contexts(job_context), job_that(lambda *_: Done()), monkeypatch)["retries"] == 3


def test_a_message_that_cannot_be_sent_again_is_rejected(
    job_context: ScriptedContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = Contexts(job_context)
    contexts.error = KeyError("sides")
    app = Celery(set_as_current=False, broker="memory://")
    current: Any = contexts
    build_tasks(app, [job_that(lambda *_: Done())], current)
    task = app.tasks[StorePayload.task]
    monkeypatch.setattr(task, "signature_from_request", MagicMock(side_effect=TypeError("a header")))
    with pytest.raises(Reject) as rejected:
        task.run(PAYLOAD)
    assert rejected.value.requeue


def test_an_object_is_read_as_its_text_is(job_context: ScriptedContext) -> None:
    read: list[StorePayload] = []

    def run(payload: StorePayload, _context: object) -> Outcome:
        read.append(payload)
        return Done()

    app = Celery(set_as_current=False, broker="memory://")
    current: Any = ScriptedContexts(job_context)
    build_tasks(app, [job_that(run)], current)
    for payload in (json.loads(PAYLOAD), PAYLOAD):
        answer = app.tasks[StorePayload.task].apply((payload,), task_id="job-1").get()
        assert answer["outcome"] == "done"
    assert read[0] == read[1]


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit, SystemExit, KeyboardInterrupt])
def test_whatever_ends_a_job_in_a_pools_thread_costs_an_attempt(
    job_context: ScriptedContext, error: type[BaseException]
) -> None:
    outcomes: list[Outcome] = []

    def run(*_: object) -> Outcome:
        raise error

    thread = threading.Thread(target=lambda: outcomes.append(run_job(job_that(run), PAYLOAD, job_context)))
    thread.start()
    thread.join()
    assert [type(outcome) for outcome in outcomes] == [Retry]


def test_a_write_that_is_cancelled_answers_its_jobs_and_the_writers_go_on() -> None:
    errors: list[BaseException] = [asyncio.CancelledError(), SystemExit()]

    def write(items: Any) -> WriteResult:
        if errors:
            raise errors.pop()
        return WriteResult(stored=frozenset(item.id for item in items))

    items: tuple[StoreItem, ...] = StorePayload.model_validate_json(PAYLOAD).items
    writer = BatchWriter(write, writers=1)
    writer.start()
    try:
        for kind in (SystemExit, asyncio.CancelledError):
            assert isinstance(writer.submit(items).exception(timeout=60), kind)
        assert writer.submit(items).result(timeout=60).stored == {item.id for item in items}
    finally:
        writer.close()
