"""Eight companies through one process that keeps four contexts: what is stored, searched and removed stays apart."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from support.job_contexts import RecordingDispatcher
from support.store_items import item
from support.store_servers import StoreAddress

import memcore.company
from memcore.backends.factory import WorkerBackend, create_worker_backend
from memcore.clock import utc_now
from memcore.company import SharedConnections
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.jobs import Done, MaintenancePayload, StorePayload
from memcore.maintenance.service import MaintenanceService
from memcore.models.memory import MemoryQuery
from memcore.records import Where
from scheduler.tick import tick
from tasks.maintain import maintain
from tasks.store import write
from workers.celery_task import perform
from workers.context import WorkerContexts

COMPANIES = [f"many-{number}" for number in range(8)]
AGENTS = ("ada", "bob")

#: Contexts that stay open, fewer than companies; jobs at a time.
CONTEXTS, THREADS = 4, 6

#: Memories of an agent that stay, and those that have expired.
KEPT, EXPIRED = 3, 1


class Opened:
    """Counts how often the backend of each company was opened, and which are open."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.now: Counter[str] = Counter()

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        create = create_worker_backend

        def watched(settings: Settings, *args: Any, **given: Any) -> WorkerBackend:
            backend, company = create(settings, *args, **given), settings.company
            connect, disconnect = backend.connect, backend.disconnect

            async def connected() -> None:
                await connect()
                self.times[company] += 1
                self.now[company] += 1

            async def disconnected() -> None:
                await disconnect()
                self.now[company] -= 1

            monkeypatch.setattr(backend, "connect", connected)
            monkeypatch.setattr(backend, "disconnect", disconnected)
            return backend

        monkeypatch.setattr(memcore.company, "create_worker_backend", watched)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    watching = Opened()
    watching.watch(monkeypatch)
    return watching


@pytest.fixture
def contexts(
    sqlite_ledger: LedgerUrls, sqlite_history: str, shared_store: StoreAddress, tmp_path: Path
) -> Iterator[WorkerContexts]:
    settings = Settings(
        broker_url="redis://127.0.0.1:9", database_url=sqlite_ledger.ledger, journal_url=sqlite_ledger.journal,
        history_url=sqlite_history, qdrant_url=shared_store.url, qdrant_api_key=SecretStr(shared_store.api_key),
        home=tmp_path, company=COMPANIES[0],
    )  # fmt: skip
    shared = SharedConnections.open(settings, Policy(), RecordingDispatcher())
    for company in COMPANIES:
        shared.ledger.companies.add(company)
    with closing(WorkerContexts(lambda: shared, most=CONTEXTS)) as made:
        yield made


def word(company: str) -> str:
    """A word that the memories of this company alone have."""
    return f"quagga{company.rpartition('-')[2]}zebra"


def memories(company: str, agent_id: str) -> list[StorePayload]:
    """A job for each memory of an agent."""
    now = utc_now()
    said = [item(f"{word(company)} pages at {n}", company=company, agent_id=agent_id, sent_at=now) for n in range(KEPT)]
    over = item(
        f"{word(company)} is over", company=company, agent_id=agent_id, sent_at=now,
        created_at=now - timedelta(days=1), expires_in=timedelta(hours=-1),
    )  # fmt: skip
    return [StorePayload(company=company, items=(each,)) for each in (*said, over)]


def test_stores_and_runs_of_more_companies_than_contexts_leave_each_its_own(
    contexts: WorkerContexts, opened: Opened
) -> None:
    def store(payload: StorePayload) -> object:
        with contexts.of(payload.company) as context:
            return perform(write, payload.model_dump_json(), context)

    def run(payload: str) -> object:
        with contexts.of(MaintenancePayload.model_validate_json(payload).company) as context:
            return perform(maintain, payload, context)

    # One of each company in turn, so that contexts close and open again while others are in use.
    whose = [memories(company, agent) for agent in AGENTS for company in COMPANIES]
    in_turn = [each for of_all in zip(*whose, strict=True) for each in of_all]
    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(store, in_turn)) == [Done(facts={"stored": 1, "buried": 0})] * len(in_turn)

        shared = contexts.shared
        due = utc_now() - timedelta(minutes=1)
        for company in COMPANIES:
            for agent in AGENTS:
                shared.ledger.agents.set_due(company, agent, due)
        with contexts.of(None) as context:
            assert perform(tick, "{}", context) == Done(facts={"sent": len(COMPANIES) * len(AGENTS)})
        dispatcher = shared.dispatcher
        assert isinstance(dispatcher, RecordingDispatcher)
        ended = list(pool.map(run, [each.payload for each in dispatcher.items if each.payload is not None]))

    assert [each.facts["expired"] for each in ended if isinstance(each, Done)] == [EXPIRED] * len(ended)
    assert len(ended) == len(COMPANIES) * len(AGENTS)
    assert sum(opened.now.values()) <= CONTEXTS, "as many stay open as may"
    assert opened.times.total() > 2 * len(COMPANIES), "they were opened again and again"
    for company, other in zip(COMPANIES, (*COMPANIES[1:], COMPANIES[0]), strict=True):
        with contexts.of(company) as context:
            backend = context.service(MaintenanceService).backend
            for agent in AGENTS:
                assert context.run(backend.count_where(Where(agent_id=agent))) == KEPT
                own = context.run(backend.retrieve(agent, MemoryQuery(text=word(company))))
                assert {each.content for each in own} == {f"{word(company)} pages at {n}" for n in range(KEPT)}
                found = context.run(backend.retrieve(agent, MemoryQuery(text=word(other))))
                assert all(word(company) in each.content for each in found), "its own alone"
    assert sum(opened.now.values()) <= CONTEXTS
