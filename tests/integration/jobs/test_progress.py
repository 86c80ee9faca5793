"""How far a long job is, seen by a client while a real worker carries it out, in the job's thread or another."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from celery.contrib.testing.worker import start_worker
from support.job_contexts import ScriptedContext, ScriptedContexts
from support.running_stack import wait_until
from support.valkey_servers import valkey_server

from memcore import JobState, MemoryClient
from memcore.client.results import JobStatus
from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.jobs import Done, Outcome, ProgressCallback, Queue
from memcore.ledger.ledger import Ledger
from workers import app as assembling
from workers.app import create_app
from workers.groups import MAINTENANCE_RUN

# Celery's own call; a worker in this process is all that meets it under our filter
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")


@pytest.fixture
def settings(tmp_path: Path, sqlite_ledger: LedgerUrls) -> Iterator[Settings]:
    with valkey_server(tmp_path / "broker") as broker:
        yield Settings(
            broker_url=broker.url, database_url=sqlite_ledger.ledger, journal_url=sqlite_ledger.journal, home=tmp_path,
            qdrant_url="http://127.0.0.1:9", company="acme",
        )  # fmt: skip


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_client_sees_how_far_a_long_job_is_and_then_its_end(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, *, is_elsewhere: bool
) -> None:
    job_context = ScriptedContext(ledger=Ledger.open(settings.ledger_urls))
    seen: list[JobStatus] = []
    opened_context: dict[str, Any] = {}

    def open_contexts(_shared: object, **options: Any) -> ScriptedContexts:
        opened_context.update(options)
        return ScriptedContexts(job_context)

    monkeypatch.setattr(assembling, "WorkerContexts", open_contexts)
    monkeypatch.setattr(assembling, "watch_pool", lambda *_, **__: None)
    monkeypatch.setattr("memcore.backends.factory.create_configured_embedder", lambda *_: None)
    app = create_app(settings, group=MAINTENANCE_RUN)
    for queue in Queue:
        if queue is not Queue.SKILLS:
            app.amqp.queues.deselect(str(queue))
    with MemoryClient.from_settings(settings) as client:

        def health_check(cycle_id: str, on_progress: ProgressCallback) -> None:
            def shows(stage: str, fraction: float | None) -> bool:
                on_progress(stage, fraction)
                status = client.status(cycle_id)
                if status.stage == stage:
                    seen.append(status)
                return status.stage == stage

            wait_until(lambda: shows("searching", None))
            wait_until(lambda: shows("replaying", 0.5))

        def evolve(cycle_id: str) -> Outcome:
            on_progress = opened_context["progress_of"]()
            if is_elsewhere:
                with ThreadPoolExecutor(1) as others:
                    others.submit(health_check, cycle_id, on_progress).result()
            else:
                health_check(cycle_id, on_progress)
            return Done(facts={"proposals_emitted": 1})

        job_context.evolving = evolve
        job_id = client.evolve_now().job_id
        worker: Any = start_worker(app, perform_ping_check=False, pool="solo", shutdown_timeout=60)
        with worker:
            (ended,) = client.wait([job_id], timeout_seconds=600)
    assert [(each.state, each.stage, each.fraction, each.is_finished) for each in seen] == [
        (JobState.RUNNING, "searching", None, False),
        (JobState.RUNNING, "replaying", 0.5, False),
    ]
    assert ended == JobStatus(job_id=job_id, state=JobState.DONE, facts={"proposals_emitted": 1})
    job_context.ledger.close()
