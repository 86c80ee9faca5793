"""Enqueueing in bulk beside its limit: ours, Celery one by one, and a raw pipeline of strings of the same size."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figure import Figure
from celery import Celery
from redis import Redis
from support.valkey_servers import valkey_server

from memcore import ids
from memcore.client.envelopes import OutgoingJob
from memcore.client.publisher import CHUNK_JOBS, Publisher
from memcore.jobs import MaintenancePayload, Queue
from workers import transport

#: Jobs in one measurement.
JOBS = 10_000

#: Jobs that Celery sends one by one in one measurement: its rate does not depend on their number.
ONE_BY_ONE = 500

OURS = "enqueue in bulk, ours"
RAW = "raw limit: pipeline of strings of the same size"
_CELERY = "Celery's apply_async, one by one"


def enqueues(repeats: int) -> list[Figure]:
    """Return the rates; contenders take turns, the broker syncs every command to disk as the embedded one does."""
    seen: dict[str, list[float]] = {OURS: [], RAW: [], _CELERY: []}
    with _contenders() as (broker, contenders):
        for turn in range(repeats + 1):
            for name, (count, send) in contenders.items():
                broker.flushall()
                begun = time.perf_counter()
                send()
                seconds = time.perf_counter() - begun
                if broker.llen(str(Queue.MAINTENANCE)) != count:
                    raise AssertionError(f"{name}: {count} were sent, and not as many are there")
                if turn:
                    seen[name].append(count / seconds)
    return [
        Figure(group="enqueue 10,000 jobs of one task", name=name, unit="jobs/s", samples=samples)
        for name, samples in seen.items()
    ]


@contextmanager
def _contenders() -> Iterator[tuple[Redis, dict[str, tuple[int, Callable[[], None]]]]]:
    transport.register()
    with tempfile.TemporaryDirectory() as folder, valkey_server(Path(folder)) as address, address.client() as broker:
        app = Celery(broker=transport.reliable_url(address.url), set_as_current=False)
        publisher, outgoing_jobs = Publisher(app), [_run_job(number) for number in range(JOBS)]
        publisher.publish(MaintenancePayload.task, outgoing_jobs[:1], track=True)
        message = broker.lrange(str(Queue.MAINTENANCE), 0, 0)[0]
        texts = [b"%d%s" % (number % 10, message[1:]) for number in range(JOBS)]
        try:
            yield (
                broker,
                {
                    OURS: (JOBS, lambda: publisher.publish(MaintenancePayload.task, outgoing_jobs, track=True)),
                    RAW: (JOBS, lambda: _pipeline(broker, texts)),
                    _CELERY: (ONE_BY_ONE, lambda: _one_by_one(app, outgoing_jobs[:ONE_BY_ONE])),
                },
            )
        finally:
            app.close()


def _run_job(number: int) -> OutgoingJob:
    agent_id, run_id = f"agent-{number}", ids.new_id()
    payload = MaintenancePayload.model_validate(
        {"company": "acme", "agent_id": agent_id, "run_id": run_id, "planned_at": "2026-03-01T00:00:00Z"}
    )
    return OutgoingJob(
        job_id=run_id, queue=str(Queue.MAINTENANCE), payload=payload.model_dump_json(), summary=f"run of {agent_id}"
    )


def _pipeline(broker: Redis, texts: Sequence[bytes]) -> None:
    for start in range(0, len(texts), CHUNK_JOBS):
        with broker.pipeline(transaction=False) as pipeline:
            for text in texts[start : start + CHUNK_JOBS]:
                pipeline.lpush(str(Queue.MAINTENANCE), text)
            pipeline.execute()


def _one_by_one(app: Celery, outgoing_jobs: Sequence[OutgoingJob]) -> None:
    for outgoing_job in outgoing_jobs:
        app.send_task(
            MaintenancePayload.task, args=(outgoing_job.payload,), task_id=outgoing_job.job_id,
            queue=outgoing_job.queue, argsrepr=outgoing_job.summary, kwargsrepr="",
        )  # fmt: skip
