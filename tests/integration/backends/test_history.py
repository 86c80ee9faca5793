"""The history: one row for each thing that happened, and no text of what was deleted."""

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from sqlalchemy import create_engine, text
from support.collection_setup import active_collection_of, history_rows
from support.fault_injection import Crash
from support.hashing_embedder import HashingEmbedder
from support.ledger_records import postgres_database
from support.memories import DAWN, NOW, StoppedClock, new_agent, record, records

from memcore.backends.mem0 import writer as history_module
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.backends.mem0.writer import History
from memcore.config.memory import CompanyMemoryConfig
from memcore.config.urls import LedgerUrls
from memcore.embedding.bm25 import Bm25Encoder
from memcore.ledger.database import add_new
from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate, migrate_history
from memcore.models.memory import CANARY_OWNER, MemoryEntry
from memcore.records import Where

SECRET = "the vault combination is 17 4 33"


@pytest.fixture(scope="module")
def postgres_url(postgres: str) -> Iterator[str]:
    """A database with the ledger's tables and the history, as a distributed installation has it."""
    with postgres_database(postgres) as url:
        migrate(LedgerUrls(ledger=url, journal=url))
        migrate_history(url)
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def history_url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        url: str = request.getfixturevalue("sqlite_history")
        return url
    found: str = request.getfixturevalue("postgres_url")
    engine = create_engine(found)
    with engine.begin() as connection:
        connection.execute(text("TRUNCATE history"))
    engine.dispose()
    return found


@pytest.fixture
def history(history_url: str, clock: StoppedClock) -> Iterator[History]:
    opened = History(history_url, clock=clock)
    yield opened
    opened.close()


def events(history: History, memory_id: str) -> list[tuple[str, str | None, int]]:
    return [(row["event"], row["new_memory"], row["is_deleted"]) for row in history_rows(history, memory_id)]


def test_adding_twice_is_one_row(history: History) -> None:
    one = record("a", SECRET).entry
    history.added([one])
    history.added([one, record("a").entry])
    assert events(history, one.id) == [("ADD", SECRET, 0)]


def test_rows_of_memories_that_were_removed_go_after_a_day(
    history: History, history_url: str, sqlite_ledger: LedgerUrls, clock: StoppedClock
) -> None:
    stays, goes, back = (record(new_agent()) for _ in range(3))
    history.added([each.entry for each in (stays, goes, back)])
    history.deleted([goes.entry.id, back.entry.id])
    history.added([back.entry])
    with closing(Ledger.open(sqlite_ledger.model_copy(update={"history": history_url}))) as ledger:
        for late, left in ((timedelta(0), 2), (timedelta(seconds=1), 0)):
            ledger.ends.expire_shared([CompanyMemoryConfig()], now=clock() + timedelta(days=1) + late)
            assert len(events(history, goes.entry.id)) == left
        # Of several companies the shortest term counts, and no row outlives what an erasure finds it by.
        assert ledger.ends.expire_shared([], now=clock() + timedelta(days=400)) == 0
    assert [len(events(history, each.entry.id)) for each in (stays, back)] == [1, 3]


def test_deleting_takes_the_text_and_leaves_one_row(history: History) -> None:
    one = record("a", SECRET).entry
    history.added([one])
    history.deleted([one.id])
    history.deleted([one.id])
    assert events(history, one.id) == [("ADD", None, 0), ("DELETE", None, 1)]


def test_a_restored_memory_has_its_text_again_and_its_past(history: History, clock: StoppedClock) -> None:
    one = record("a", SECRET).entry
    for _ in range(2):
        history.added([one])
        history.added([one])
        clock.now += timedelta(days=1)
        history.deleted([one.id])
        history.deleted([one.id])
        clock.now += timedelta(days=1)
    history.added([one])
    assert events(history, one.id) == [
        ("ADD", None, 0), ("DELETE", None, 1), ("ADD", None, 0), ("DELETE", None, 1), ("ADD", SECRET, 0),
    ]  # fmt: skip


def test_a_memory_that_turned_out_to_stay_has_its_text_back(history: History) -> None:
    one = record("a", SECRET).entry
    history.added([one])
    history.deleted([one.id])
    history.kept([one])
    assert events(history, one.id) == [("ADD", SECRET, 0)]
    history.deleted([one.id])
    assert events(history, one.id) == [("ADD", None, 0), ("DELETE", None, 1)]


def test_a_memory_without_any_row_gets_both_of_its_rows_and_can_come_back(history: History) -> None:
    one = record("a", SECRET).entry
    history.deleted([one.id])
    history.deleted([one.id])
    assert events(history, one.id) == [("ADD", None, 0), ("DELETE", None, 1)]
    history.added([one])
    history.added([one])
    assert events(history, one.id)[-1] == ("ADD", SECRET, 0)
    history.deleted([one.id])
    history.deleted([one.id])
    assert sorted(event for event, _, _ in events(history, one.id)) == ["ADD", "ADD", "DELETE", "DELETE"]


def test_a_batch_that_two_workers_write_at_once_is_there_once(
    history: History, history_url: str, clock: StoppedClock
) -> None:
    made = [one.entry for one in records("a", 300)]
    other_history = History(history_url, clock=clock)
    with ThreadPoolExecutor(2) as pool:
        for written in [pool.submit(one.added, made) for one in (history, other_history)]:
            written.result()
    other_history.close()
    assert [events(history, entry.id) for entry in made] == [[("ADD", entry.content, 0)] for entry in made]


def test_a_memory_that_is_deleted_while_its_row_is_under_way_leaves_no_text(
    history: History, history_url: str, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = records("a", 1)
    has_written, may_commit = threading.Event(), threading.Event()

    def write_and_wait(*given: Any, **how: Any) -> None:
        monkeypatch.undo()
        add_new(*given, **how)
        has_written.set()
        assert may_commit.wait(60)

    monkeypatch.setattr(history_module, "add_new", write_and_wait)
    other_history = History(history_url, clock=clock)
    with ThreadPoolExecutor(2) as pool:
        adding = pool.submit(history.added, [one.entry])
        assert has_written.wait(20)
        deleting = pool.submit(other_history.deleted, [one.entry.id])
        # as far as it comes: it must wait for the row
        wait([deleting], timeout=0.5)
        may_commit.set()
        adding.result()
        deleting.result()
    other_history.close()
    assert sorted(events(history, one.entry.id)) == [("ADD", None, 0), ("DELETE", None, 1)]


def test_what_stock_mem0_wrote_is_purged_too(tmp_path: Path, clock: StoppedClock) -> None:
    # mem0 itself reads and writes SQLite only.
    url = f"sqlite:///{tmp_path / 'alone.db'}"
    migrate_history(url)
    history = History(url, clock=clock)
    one = record("a", SECRET).entry
    with sqlite3.connect(tmp_path / "alone.db") as stock:
        for event, old, new in (("ADD", None, "old"), ("UPDATE", "old", SECRET)):
            stock.execute(
                "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, 0, NULL, NULL)",
                (event, one.id, old, new, event, DAWN.isoformat(), DAWN.isoformat()),
            )
    stock.close()
    history.added([one])
    history.deleted([one.id])

    rows = history_rows(history, one.id)
    assert sorted(row["event"] for row in rows) == ["ADD", "DELETE", "UPDATE"]
    assert {row["old_memory"] for row in rows} | {row["new_memory"] for row in rows} == {None}


def test_many_memories_are_written_in_few_transactions(history: History) -> None:
    made = [one.entry for one in records("a", 1_500)]
    history.added(made)
    history.deleted([entry.id for entry in made[:1_400]])
    assert events(history, made[0].id) == [("ADD", None, 0), ("DELETE", None, 1)]
    assert events(history, made[-1].id) == [("ADD", "note number 1499", 0)]


async def test_no_text_of_a_deleted_memory_is_left_in_the_file(place: Mem0Config, clock: StoppedClock) -> None:
    backend = Mem0Backend(place, company="c", embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=clock)
    await backend.connect()
    agent = new_agent()
    one, other = record(agent, SECRET), record(agent, "stays")
    await backend.store_many([one, other])
    await backend.store_many([one, other])

    assert await backend.delete_where(Where(agent_id=agent, ids=frozenset({one.entry.id}))) == 1
    await backend.disconnect()

    history = History(place.history_url)
    assert events(history, one.entry.id) == [("ADD", None, 0), ("DELETE", None, 1)]
    assert events(history, other.entry.id) == [("ADD", "stays", 0)]
    assert [row["created_at"] for row in history_rows(history, one.entry.id)] == [DAWN.isoformat()] * 2
    assert history_rows(history, one.entry.id)[1]["updated_at"] == NOW.isoformat()


async def test_an_unclaimed_candidate_keeps_its_history(
    place: Mem0Config, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = Mem0Backend(place, company="c", embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=clock)
    await backend.connect()
    agent = new_agent()
    one, two = record(agent, SECRET), record(agent, "goes")
    await backend.store_many([one, two])
    await backend.claim(Where(agent_id=agent), "zombie")
    deleted = History.deleted

    def overtaken(self: History, memory_ids: list[str]) -> None:
        # Between the look and the delete another worker takes the run over and claims one of the two for itself.
        active_collection_of(backend).writer.claim(Where(agent_id=agent, ids=frozenset({one.entry.id})), "successor")
        deleted(self, memory_ids)

    monkeypatch.setattr(History, "deleted", overtaken)
    assert await backend.delete_where(Where(agent_id=agent, token="zombie")) == 1
    assert await backend.get(agent, one.entry.id) is not None
    await backend.disconnect()

    assert events(History(place.history_url), one.entry.id) == [("ADD", SECRET, 0)]


@pytest.mark.parametrize(
    "comes",
    [
        "between the store's two writes",
        "between the store's two writes, and the worker dies after the second",
        "around the store's second write",
    ],
)
async def test_a_memory_that_is_removed_while_it_is_stored_leaves_no_text(
    place: Mem0Config, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch, comes: str
) -> None:
    backend = Mem0Backend(place, company="c", embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=clock)
    await backend.connect()
    writer, agent = active_collection_of(backend).writer, new_agent()
    one = record(agent, SECRET)
    maintenance_run = Where(agent_id=agent, ids=frozenset({one.entry.id}))
    added, deleted = History.added, History.deleted

    def die(*_: Any) -> None:
        raise Crash

    def late(self: History, entries: list[MemoryEntry], **how: Any) -> tuple[list[str], list[str]]:
        monkeypatch.setattr(History, "added", added)
        if comes.startswith("between"):
            writer.remove(maintenance_run)
        if "dies" in comes:
            monkeypatch.setattr(History, "taken_back", die)
        return added(self, entries, **how)

    def early(self: History, memory_ids: list[str]) -> None:
        deleted(self, memory_ids)
        writer.store([one])

    monkeypatch.setattr(History, "added", late)
    if comes.startswith("around"):
        writer.store([one])
        monkeypatch.setattr(History, "deleted", early)
        writer.remove(maintenance_run)
    else:
        with pytest.raises(Crash) if "dies" in comes else nullcontext():
            await backend.store_many([one])
    await backend.disconnect()

    assert events(History(place.history_url), one.entry.id) == [("ADD", None, 0), ("DELETE", None, 1)]


async def test_a_canary_that_is_gone_leaves_no_rows(
    place: Mem0Config, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = Mem0Backend(place, company="c", embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=clock)
    await backend.connect()
    one = record(CANARY_OWNER, "The canary of a minute.", created_at=DAWN)
    await backend.store_many([one])
    history = History(place.history_url)
    assert [event for event, *_ in events(history, one.entry.id)] == ["ADD"]
    older = Where(agent_id=CANARY_OWNER, created_before=NOW)
    # A worker that dies at the history leaves the canary to be found, and with it its rows, by the next one.
    with monkeypatch.context() as dying:
        dying.setattr(History, "dropped", MagicMock(side_effect=RuntimeError))
        with pytest.raises(RuntimeError):
            await backend.delete_where(older)
    assert await backend.delete_where(older) == 1
    assert events(history, one.entry.id) == []
    history.close()
    await backend.disconnect()
