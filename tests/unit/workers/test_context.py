"""The contexts of a worker process: one a company, a bounded number, and never one closed that a job uses."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from support.forked import Child
from support.job_contexts import RecordingDispatcher, ScriptedContext
from support.memories import NOW

from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.mem0.collection import StoreConnections
from memcore.company import SharedConnections
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryConfigError, MemoryConnectionError, MemoryNotFoundError
from memcore.experience import CompressionService
from memcore.jobs import EvolvePayload, FineTunePayload, ReindexPayload
from memcore.ledger.ledger import Ledger
from memcore.maintenance.service import MaintenanceService
from tasks.learn import evolve, finetune, reindex
from workers.celery_task import perform
from workers.context import CHECK_SECONDS, WorkerContexts


class Stores:
    """Makes the backends of companies, and tells which are connected."""

    def __init__(self) -> None:
        self.connected: list[str] = []
        self.opened: list[str] = []
        self.connections: set[StoreConnections] = set()
        self.error: Exception | None = None
        #: Until it is set, connecting waits.
        self.may_open = threading.Event()
        self.may_open.set()

    def create(
        self, settings: Settings, *_args: object, connections: StoreConnections, **_given: object
    ) -> InMemoryBackend:
        stores, company = self, settings.company
        self.connections.add(connections)

        class Store(InMemoryBackend):
            async def connect(self) -> None:
                assert stores.may_open.wait(20)
                if stores.error is not None:
                    raise stores.error
                stores.opened.append(company)
                stores.connected.append(company)
                await super().connect()

            async def disconnect(self) -> None:
                stores.connected.remove(company)
                await super().disconnect()

        return Store(company=company)


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> Stores:
    made = Stores()
    monkeypatch.setattr("memcore.company.create_worker_backend", made.create)
    return made


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def contexts(sqlite_ledger: LedgerUrls, tmp_path: Path, stores: Stores, now: list[float]) -> Iterator[WorkerContexts]:
    settings = Settings(
        broker_url="redis://127.0.0.1:9", database_url=sqlite_ledger.ledger, journal_url=sqlite_ledger.journal,
        qdrant_url="http://127.0.0.1:9", home=tmp_path, company="acme",
    )  # fmt: skip
    shared = SharedConnections.open(settings, Policy(), RecordingDispatcher())
    for company in ("bolt", "cog"):
        shared.ledger.companies.add(company)
    with closing(WorkerContexts(lambda: shared, most=2, monotonic=lambda: now[0])) as made:
        yield made
    assert stores.connected == []


def test_each_company_has_services_of_its_own_built_when_they_are_needed(
    contexts: WorkerContexts, stores: Stores
) -> None:
    with contexts.of("acme") as acme, contexts.of("bolt") as bolt:
        assert acme.ledger is bolt.ledger
        services = [each.service(MaintenanceService) for each in (acme, bolt, acme)]
        assert [each.company for each in services] == ["acme", "bolt", "acme"]
        assert services[0] is services[2]
        assert services[0].backend is not services[1].backend
        assert acme.service(CompressionService).backend is services[0].backend
        assert acme.batch_writer is not bolt.batch_writer
        assert stores.connections == {contexts.shared.store}, "opened once for all companies"


def test_the_least_recently_used_context_closes_and_never_one_that_a_job_uses(
    contexts: WorkerContexts, stores: Stores
) -> None:
    contexts.connect()
    with contexts.of("bolt"):
        with contexts.of("acme"), contexts.of("cog"):
            assert stores.connected == ["acme", "bolt", "cog"], "all are in use"
        assert stores.connected == ["acme", "bolt"], "cog ended first, and one was too many"
        with contexts.of("cog"):
            pass
        assert stores.connected == ["bolt", "cog"]
    with contexts.of("acme"):
        pass
    assert stores.connected == ["cog", "acme"], "bolt was asked for first"


def test_a_company_that_is_not_registered_or_removed_is_refused_and_one_that_is_added_is_served(
    contexts: WorkerContexts, now: list[float]
) -> None:
    ledger = contexts.shared.ledger
    with pytest.raises(MemoryNotFoundError, match="'dyn' is not registered"), contexts.of("dyn"):
        pass
    ledger.companies.add("dyn")
    with contexts.of("dyn"):
        pass
    ledger.companies.remove("dyn")
    now[0] += CHECK_SECONDS
    with pytest.raises(MemoryNotFoundError, match="'dyn' is removed"), contexts.of("dyn"):
        pass


def test_a_changed_policy_is_in_force_after_a_while_and_a_job_ends_with_the_one_it_began_with(
    contexts: WorkerContexts, stores: Stores, now: list[float]
) -> None:
    contexts.shared.ledger.companies.add("bolt", policy={"memory": {"level": "session"}})
    with contexts.of("bolt") as before:
        contexts.shared.ledger.companies.add("bolt", policy={"memory": {"level": "project"}})
        with contexts.of("bolt") as same:
            assert same is before
        now[0] += CHECK_SECONDS
        with contexts.of("bolt") as after:
            assert [str(each.policy.memory.level) for each in (before, after)] == ["session", "project"]
        assert stores.connected == ["bolt", "bolt"]
    assert stores.connected == ["bolt"]


def test_a_store_that_is_away_stops_no_other_company_and_is_asked_again(
    contexts: WorkerContexts, stores: Stores
) -> None:
    contexts.connect()
    stores.error = MemoryConnectionError("away")
    with pytest.raises(MemoryConnectionError), contexts.of("bolt"):
        pass
    with contexts.of("acme"):
        stores.error = None
        with contexts.of("bolt"):
            assert stores.connected == ["acme", "bolt"]


def test_a_worker_is_not_ready_while_its_own_company_cannot_be_opened(
    contexts: WorkerContexts, stores: Stores, now: list[float]
) -> None:
    contexts.connect()
    assert contexts.is_ready
    stores.error = KeyError("a row of another release")
    with pytest.raises(KeyError), contexts.of("bolt"):
        pass
    assert contexts.is_ready, "one company's fault is not the worker's"
    now[0] += 7
    assert (contexts.refused_seconds("bolt"), contexts.refused_seconds("acme")) == (7, 0)
    stores.error = None
    with contexts.of("bolt"):
        assert contexts.refused_seconds("bolt") == 0


@pytest.mark.parametrize("company", [None, "acme"])
@pytest.mark.parametrize("error", [KeyError("a row"), MemoryConfigError("a policy"), MemoryError()])
def test_a_worker_whose_context_cannot_open_is_ready_again_once_it_can(
    contexts: WorkerContexts, stores: Stores, now: list[float], company: str | None, error: Exception
) -> None:
    stores.error = error
    for _ in range(2):
        with pytest.raises(type(error)), contexts.of(company):
            pass
        now[0] += 30
    assert not contexts.is_ready
    assert contexts.refused_seconds(company) == 60, "since the first time"
    stores.error = None
    with contexts.of(company):
        assert contexts.is_ready


def test_a_worker_is_ready_and_waits_while_a_server_is_away(contexts: WorkerContexts, stores: Stores) -> None:
    stores.error = MemoryConnectionError("away")
    with pytest.raises(MemoryConnectionError):
        contexts.connect()
    assert contexts.is_ready


def test_a_parent_sees_that_its_child_cannot_open_its_context() -> None:
    def open_shared() -> SharedConnections:
        raise KeyError("a row of another release")

    contexts = WorkerContexts(open_shared)

    def work() -> bytes:
        with suppress(KeyError):
            contexts.connect()
        return b""

    assert contexts.is_ready
    assert Child(work).ended() == 0
    assert not contexts.is_ready


def test_jobs_that_come_together_open_one_context(contexts: WorkerContexts, stores: Stores) -> None:
    stores.may_open.clear()

    def work(_number: int) -> Any:
        with contexts.of("bolt") as context:
            return context

    with ThreadPoolExecutor(3) as pool:
        working = [pool.submit(work, number) for number in range(3)]
        stores.may_open.set()
        assert len({id(each.result()) for each in working}) == 1
    assert stores.opened == ["bolt"]


def test_long_jobs_report_their_progress(sqlite_ledger: LedgerUrls) -> None:
    progress: list[str] = []
    with closing(Ledger.open(sqlite_ledger)) as ledger:
        context = ScriptedContext(ledger=ledger, on_progress=lambda stage, _fraction: progress.append(stage))
        for job, payload in (
            (evolve, EvolvePayload(company="acme", cycle_id="c", planned_at=NOW)),
            (reindex, ReindexPayload(company="acme")),
            (finetune, FineTunePayload(company="acme", run_id="r")),
        ):
            perform(job, payload.model_dump_json(), context)
    assert progress == ["CycleService", "ReindexService", "FineTuneService"]
