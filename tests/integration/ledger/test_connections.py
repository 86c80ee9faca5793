"""Connections are kept, and few statements go over them; what is kept is never stale, and never crosses a fork."""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import event, select, text
from support.forked import Child
from support.ledger_records import COMPANY, StoppedClock
from support.present import present
from support.running_stack import wait_until

from memcore.config.urls import LedgerUrls
from memcore.deadline.limits import limited_parts
from memcore.errors import MemoryConnectionError
from memcore.ledger.database import Database
from memcore.ledger.ledger import Ledger
from memcore.ledger.tables import companies

LEASE = timedelta(seconds=45)


@pytest.fixture
def cycle_id(ledger: Ledger, clock: StoppedClock) -> str:
    cycle = present(ledger.skill_cycles.plan(COMPANY, origin="manual", planned_at=clock(), window=LEASE))
    return cycle.cycle_id


def claimed(ledger: Ledger, cycle_id: str) -> str:
    cycle = present(ledger.skill_cycles.claim(COMPANY, cycle_id, lease=LEASE))
    return str(cycle.token)


@contextmanager
def statements(ledger: Ledger) -> Iterator[list[str]]:
    """Yield the first words of what a ledger sends, and how often it connects."""
    sent: list[str] = []
    engine = ledger.work._database.engine()

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        sent.append(statement.split(maxsplit=1)[0])

    def connected(*_: object) -> None:
        sent.append("connect")

    event.listen(engine, "before_cursor_execute", note)
    event.listen(engine, "connect", connected)
    yield sent
    event.remove(engine, "before_cursor_execute", note)
    event.remove(engine, "connect", connected)


def test_claim_renewal_and_end_of_an_item_take_few_statements(ledger: Ledger, cycle_id: str) -> None:
    is_sqlite = ledger.work._database.dialect == "sqlite"
    with statements(ledger) as sent:
        token = claimed(ledger, cycle_id)
        assert sent == (["BEGIN", "UPDATE", "SELECT"] if is_sqlite else ["WITH"])
        sent.clear()
        ledger.skill_cycles.renew(COMPANY, cycle_id, token, lease=LEASE)
        assert sent == ["UPDATE"]
        sent.clear()
        ledger.skill_cycles.finish(COMPANY, cycle_id, token, {})
        assert sent == (["BEGIN", "UPDATE", "UPDATE"] if is_sqlite else ["WITH"])
        sent.clear()
        assert ledger.skill_cycles.get(COMPANY, cycle_id) is not None
        assert sent == ["SELECT"]


def test_a_transaction_begins_and_is_undone_as_a_whole(ledger: Ledger) -> None:
    add = companies.insert().values(
        company="new", state="active", created_at=StoppedClock()(), changed_at=StoppedClock()()
    )

    def fail() -> None:
        with ledger.work._database.write() as connection:
            connection.execute(add)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert ledger.companies.get("new") is None


@pytest.mark.parametrize("urls", ["sqlite"], indirect=True)
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system does not list open files")
def test_a_fork_inherits_no_connection_to_a_file(ledger: Ledger, cycle_id: str) -> None:
    assert ledger.skill_cycles.get(COMPANY, cycle_id) is not None
    assert _open_files("ledger.db")

    def child() -> bytes:
        before = _open_files("ledger.db")
        claimed(ledger, cycle_id)
        return f"{before} {bool(_open_files('ledger.db'))}".encode()

    assert Child(child).said() == "[] True"
    assert ledger.skill_cycles.claim(COMPANY, cycle_id, lease=LEASE) is None


def _open_files(name: str) -> list[str]:
    found = [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]
    return [each for each in found if Path(each).name == name]


@pytest.mark.parametrize("urls", ["sqlite"], indirect=True)
def test_writers_of_a_process_wait_for_their_turn_and_not_in_sqlite(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.companies.register("first")
    with ThreadPoolExecutor(1) as thread, statements(ledger) as sent:
        with ledger.work._database.write():
            monkeypatch.setattr("memcore.ledger.database.BUSY_TIMEOUT", timedelta(0))
            with pytest.raises(MemoryConnectionError, match="another thread holds it"):
                thread.submit(ledger.ticks.note, COMPANY, sent=1).result()
            assert sent == ["BEGIN"]
        thread.submit(ledger.ticks.note, COMPANY, sent=1).result()
    assert ledger.ticks.last(COMPANY) is not None


@pytest.mark.parametrize("urls", ["sqlite"], indirect=True)
def test_a_file_that_was_replaced_is_opened_anew(ledger: Ledger, tmp_path: Path) -> None:
    ledger.companies.register("kept")
    ledger.close()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "backup.db")
    ledger.companies.register("lost")
    for each in tmp_path.glob("ledger.db*"):
        each.unlink()
    (tmp_path / "backup.db").rename(tmp_path / "ledger.db")
    assert ledger.companies.get("lost") is None
    ledger.companies.register("new")
    with Database(f"sqlite:///{tmp_path / 'ledger.db'}", name="ledger").read() as connection:
        assert set(connection.scalars(select(companies.c.company))) == {"kept", "new"}


@pytest.mark.parametrize("urls", [pytest.param("postgresql", marks=pytest.mark.service)], indirect=True)
@pytest.mark.parametrize(
    "act", [lambda ledger: ledger.companies.get("a"), lambda ledger: ledger.companies.register("a")]
)
def test_a_connection_that_the_server_ended_is_replaced_unseen(
    ledger: Ledger, urls: LedgerUrls, act: Callable[[Ledger], Any]
) -> None:
    act(ledger)
    other = Database(urls.ledger, name="other")
    mine = ledger.work._database.value(select(text("pg_backend_pid()")))
    with other.statement() as connection:
        connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": mine})
    is_gone = select(text("count(*)")).select_from(text("pg_stat_activity")).where(text(f"pid = {mine}"))
    wait_until(lambda: other.value(is_gone) == 0)
    with statements(ledger) as sent:
        act(ledger)
    assert "connect" in sent
    other.close()


@pytest.mark.parametrize("urls", [pytest.param("postgresql", marks=pytest.mark.service)], indirect=True)
def test_a_claim_that_waited_for_a_late_worker_sees_what_it_left(
    ledger: Ledger, clock: StoppedClock, urls: LedgerUrls, cycle_id: str
) -> None:
    cycles, token = ledger.skill_cycles, claimed(ledger, cycle_id)
    clock.advance(LEASE)
    other = Database(urls.ledger, name="other")
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )

    def is_waiting() -> bool:
        with other.statement() as connection:
            return bool(connection.execute(waiting).scalar_one())

    with ThreadPoolExecutor(1) as thread:
        with cycles._database.write() as connection:
            cycles._leased_in(connection, COMPANY, cycle_id, token, "release", own={"report": {"left": 1}})
            next_claim = thread.submit(lambda: cycles.claim(COMPANY, cycle_id, lease=LEASE))
            wait_until(is_waiting)
        found = next_claim.result()
    assert found is not None
    assert found.report == {"left": 1}
    other.close()


def test_a_read_with_a_deadline_waits_for_a_locked_file_a_share_of_it_and_the_next_one_not_at_all(
    sqlite_ledger: LedgerUrls,
) -> None:
    path = sqlite_ledger.ledger.removeprefix("sqlite:///")
    database = Database(sqlite_ledger.ledger, name="ledger")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with limited_parts(2.0):
            began = monotonic()
            for _ in range(5):
                with pytest.raises(MemoryConnectionError) as refused:
                    database.rows(select(companies))
                assert refused.value.part == "ledger"
            # One wait of 0.8 s, and not BUSY_TIMEOUT's 15 s.
            assert monotonic() - began < 10
    assert database.rows(select(companies)) == []
    database.close()
