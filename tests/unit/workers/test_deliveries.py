"""A job whose connection to RabbitMQ is gone, and that comes again, leaves its thread to others."""

import os
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import Ignore
from support.job_contexts import ScriptedContext, ScriptedContexts
from support.repository import ROOT

from memcore.jobs import Done, Outcome, StorePayload
from tasks.job import WRITE_LIMITS, Job
from workers import deliveries
from workers.celery_task import SerialGate, build_tasks, run_guarded

PAYLOAD = (ROOT / "tests/fixtures/payloads/store-1.json").read_text()


@pytest.fixture
def connect() -> Iterator[Callable[[str], None]]:
    """Connect this process, as its one consumer, to a broker of a kind."""

    def to(driver: str) -> None:
        deliveries.connected(SimpleNamespace(connection=SimpleNamespace(transport=SimpleNamespace(driver_type=driver))))

    yield to
    to("redis")


def _received() -> dict[str, Any]:
    headers: dict[str, Any] = {"id": "job-1"}
    deliveries.mark(headers)
    return headers


def _is_stale(headers: dict[str, Any]) -> bool:
    return deliveries.is_stale(SimpleNamespace(**headers))


def test_only_what_came_by_the_present_connection_to_rabbitmq_is_run(connect: Callable[[str], None]) -> None:
    connect("amqp")
    first = _received()
    assert not _is_stale(first)
    connect("amqp")
    assert _is_stale(first)
    assert not _is_stale(_received())
    assert not _is_stale({"id": "of no consumer"})


def test_other_brokers_keep_what_a_worker_holds_whatever_a_message_says(connect: Callable[[str], None]) -> None:
    connect("redis")
    first = _received()
    connect("redis")
    assert not _is_stale(first)
    assert not _is_stale({deliveries.HEADER: 17})


def test_a_forked_child_runs_what_it_is_given(connect: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    connect("amqp")
    first = _received()
    connect("amqp")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert not _is_stale(first)


def test_a_job_that_waited_for_a_thread_meanwhile_does_not_run(
    connect: Callable[[str], None], job_context: ScriptedContext
) -> None:
    runs: list[object] = []

    def run(payload: object, _context: object) -> Outcome:
        runs.append(payload)
        return Done()

    app, contexts = Celery(set_as_current=False), ScriptedContexts(job_context)
    build_tasks(app, [Job(payload=StorePayload, limits=WRITE_LIMITS, run=run)], contexts)  # type: ignore[arg-type]
    task = app.tasks[StorePayload.task]
    connect("amqp")
    info = {"routing_key": "memory.store", "redelivered": False}
    task.push_request(**_received(), retries=0, delivery_info=info)
    connect("amqp")
    with pytest.raises(Ignore):
        task.run(PAYLOAD)
    task.push_request(**_received(), retries=0, delivery_info={**info, "redelivered": True})
    assert task.run(PAYLOAD)["outcome"] == "done"
    assert len(runs) == 1


def test_a_job_that_waited_for_its_turn_meanwhile_is_not_counted(
    connect: Callable[[str], None], job_context: ScriptedContext
) -> None:
    job_context.ledger.attempts.begin("job-1")
    connect("amqp")
    request = SimpleNamespace(**_received())

    class Gate(SerialGate):
        def acquire(self, deaths: int) -> Any:
            connect("amqp")
            return super().acquire(deaths)

    task: Any = SimpleNamespace(request=request)
    job = Job(payload=StorePayload, limits=WRITE_LIMITS, run=lambda *_: Done())
    with pytest.raises(Ignore):
        run_guarded(task, job, Gate(), payload=PAYLOAD, job_context=job_context)
    assert job_context.ledger.attempts.count("job-1") == 1
