"""Migrations: they make what the tables say, once, however many start them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, MetaData, create_engine, inspect, text
from support.ledger_records import places_due, postgres_database, sqlite_urls
from support.present import present

from memcore.config.urls import LedgerUrls
from memcore.errors import FineTuneRunActiveError, MemoryConfigError
from memcore.jobs import FineTunePayload, LessonPayload, ReindexPayload
from memcore.ledger import tables
from memcore.ledger.collections import ReindexStage
from memcore.ledger.companies import CompanyState
from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate, migrate_history
from memcore.ledger.migrations.ledger.runs import MOVED
from memcore.ledger.work_items import WorkState
from memcore.models.finetune import FineTuneStage

TREES = {"ledger": tables.metadata, "journal": tables.journal_metadata, "history": tables.history_metadata}
ROOT = Path(__file__).parents[3]
THEN = "2026-03-01 12:00:00"
NEW_AGENT = "(company, agent_id, retention_overrides, paused, registered_at)"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """URLs of databases that nothing has touched, by tree."""
    if request.param == "sqlite":
        yield {tree: f"sqlite:///{tmp_path / 'new folder' / tree}.db" for tree in TREES}
        return
    with postgres_database(request.getfixturevalue("postgres")) as url:
        yield dict.fromkeys(TREES, url)


def _migrate(urls: dict[str, str]) -> None:
    migrate(LedgerUrls(ledger=urls["ledger"], journal=urls["journal"]))
    migrate_history(urls["history"])


def _differences(connection: Connection, metadata: MetaData) -> list[object]:
    def ours(thing: Any, name: str | None, kind: str, *_rest: object) -> bool:
        if kind == "column" and thing.table.name == "runs":
            return name not in MOVED
        return kind != "table" or name in metadata.tables

    options = {"compare_type": True, "include_object": ours}
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))


def _indexes(connection: Connection) -> set[str]:
    # Alembic compares no conditions of partial indexes; the database's own words do.
    if connection.dialect.name == "sqlite":
        query = "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    else:
        query = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND indexname NOT LIKE 'alembic%'"
    return set(connection.execute(text(query)).scalars())


def test_the_migrated_schema_is_that_of_the_tables(fresh: dict[str, str]) -> None:
    _migrate(fresh)
    for tree, metadata in TREES.items():
        engine = create_engine(fresh[tree])
        with engine.connect() as connection:
            assert _differences(connection, metadata) == []
            migrated = _indexes(connection)
            connection.rollback()
            with connection.begin():
                connection.execute(text("DROP VIEW IF EXISTS switches"))
                metadata.drop_all(connection)
                metadata.create_all(connection)
            assert _indexes(connection) == migrated
        engine.dispose()


def test_migrating_again_changes_nothing_and_keeps_the_rows(fresh: dict[str, str]) -> None:
    _migrate(fresh)
    engine = create_engine(fresh["ledger"])
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO attempts VALUES ('job', 1, '2026-03-01 12:00:00')"))
    _migrate(fresh)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT job_id FROM attempts")).scalars().all() == ["job"]
        versions = [name for name in inspect(connection).get_table_names() if name.startswith("alembic_version_")]
    engine.dispose()
    expected = (
        {"alembic_version_ledger"}
        if fresh["ledger"] != fresh["journal"]
        else {f"alembic_version_{tree}" for tree in TREES}
    )
    assert set(versions) == expected


def _upgraded(fresh: dict[str, str], *statements: str, since: str) -> Ledger:
    """Migrate to a revision, execute the statements, migrate to the newest one, and return the ledger."""
    upgrade = command.upgrade
    with pytest.MonkeyPatch.context() as old:
        old.setattr(
            command,
            "upgrade",
            lambda config, to: upgrade(config, since if config.attributes["tree"] == "ledger" else to),
        )
        _migrate(fresh)
    engine = create_engine(fresh["ledger"])
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()
    _migrate(fresh)
    return Ledger.open(LedgerUrls(ledger=fresh["ledger"], journal=fresh["journal"]))


def _inserts(table: str, *rows: Mapping[str, object]) -> list[str]:
    """Return the statements that insert rows; every text is a value of the test's own."""
    return [
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(map(repr, row.values()))})"  # noqa: S608  # see above
        for row in rows
    ]


def test_an_upgrade_registers_every_company_that_has_rows_and_keeps_its_pause(fresh: dict[str, str]) -> None:
    statements = (
        "INSERT INTO switches VALUES ('acme', true, '2026-03-01 12:00:00'), ('idle', false, '2026-03-01 12:00:00')",
        "INSERT INTO ticks VALUES ('acme', '2026-03-01 12:00:00', 0)",
        f"INSERT INTO agents {NEW_AGENT} VALUES ('globex', 'ada', '{{}}', false, '2026-03-01 12:00:00')",  # noqa: S608  # our own
    )
    with closing(_upgraded(fresh, *statements, since="ledger_10")) as ledger:
        states = {"acme": CompanyState.PAUSED, "globex": CompanyState.ACTIVE, "idle": CompanyState.ACTIVE}
        assert {each.company: each.state for each in ledger.companies.list()} == states
        ledger.companies.resume("acme")
        ledger.companies.pause("globex")
    # A worker of the last release, which still runs, reads its kill switch there.
    engine = create_engine(fresh["ledger"])
    with engine.connect() as connection:
        paused = {row.company: bool(row.paused) for row in connection.execute(text("SELECT * FROM switches"))}
    engine.dispose()
    assert paused == {"acme": False, "globex": True, "idle": False}


def test_an_upgrade_makes_an_item_of_each_lesson(fresh: dict[str, str]) -> None:
    row = {"company": "acme", "agent_id": "ada", "created_at": "2026-03-01 12:00:00", "tries": 0}
    lessons = _inserts(
        "lessons",
        row | {"lesson_id": "new", "rung_at": "2026-03-01 12:00:00"},
        row | {"lesson_id": "asleep", "tries": 3, "rung_at": "2026-03-02 12:00:00.5"},
        row
        | {
            "lesson_id": "drawn",
            "outcome": "stored",
            "rung_at": "2026-03-01 12:00:00",
            "drawn_at": "2026-03-01 12:01:00",
        },
    )
    with closing(_upgraded(fresh, *lessons, since="ledger_12")) as ledger:
        items = {key: ledger.lessons.item("acme", key) for key in ("new", "asleep", "drawn")}
        assert {key: (each.state, each.attempt) for key, each in items.items()} == {
            "new": (WorkState.AVAILABLE, 0),
            "asleep": (WorkState.WAITING, 3),
            "drawn": (WorkState.DONE, 0),
        }
        until = datetime(2026, 3, 2, 12, 0, 0, 500_000, tzinfo=UTC)
        assert (items["asleep"].dispatch_after, items["drawn"].dispatch_after) == (until, None)
        due = ledger.work.take_due(limit=9)
        payloads = {each.key: LessonPayload.model_validate_json(each.payload or "") for each in due}
        assert payloads == {
            key: LessonPayload(company="acme", agent_id="ada", lesson_id=key) for key in ("new", "asleep")
        }
        assert {each.queue for each in due} == {LessonPayload.queue}


def test_an_upgrade_makes_an_item_of_each_reindex(fresh: dict[str, str]) -> None:
    row = {"kind": "forward", "looked_at": 7, "total": 9, "written": 7, "passed_over": 0, "freezes": 0, "rung_at": THEN}
    row |= {"stage": "copying", "cursor": "7", "started_at": THEN}
    reindexes = _inserts(
        "reindexes",
        row | {"company": "acme", "reindex_id": "waiting", "trouble": "MemoryStoreError"},
        row | {"company": "globex", "reindex_id": "leased", "token": "t", "lease_until": THEN},
        row | {"company": "hooli", "reindex_id": "done", "stage": "done", "finished_at": THEN},
        row | {"company": "initech", "reindex_id": "cancelled", "stage": "cancelled", "finished_at": THEN},
    )
    with closing(_upgraded(fresh, *reindexes, since="ledger_13")) as ledger:
        found = {company: ledger.reindexes.last(company) for company in ("acme", "globex", "hooli", "initech")}
        ended = datetime(2026, 3, 1, 12, tzinfo=UTC)
        assert {each.reindex_id: (each.state, each.reason, each.finished_at) for each in found.values() if each} == {
            "waiting": (WorkState.AVAILABLE, "MemoryStoreError", None),
            "leased": (WorkState.LEASED, None, None),
            "done": (WorkState.DONE, None, ended),
            "cancelled": (WorkState.DISMISSED, None, ended),
        }
        due = {item.key: item for item in ledger.work.take_due(limit=9)}
        assert due.keys() == {"waiting", "leased"}
        assert ReindexPayload.model_validate_json(due["leased"].payload or "") == ReindexPayload(company="globex")
        for item in due.values():
            claimed = present(ledger.reindexes.claim(item.company, item.key, lease=timedelta(minutes=1)))
            assert (claimed.cursor, claimed.looked_at, claimed.stage) == ("7", 7, ReindexStage.COPYING)


def test_an_upgrade_makes_an_item_of_each_question_and_of_each_part_of_a_run(fresh: dict[str, str]) -> None:
    noon, later = "2026-03-01 12:00:00", "2026-03-01 18:00:00"
    answer = {"company": "acme", "agent_id": "ada", "purpose": "test", "run_id": "run", "asked_at": noon}
    part = {"company": "acme", "run_id": "run", "agent_id": "ada", "category": "social", "source_ids": '["a", "b"]'}
    statements = [
        *_inserts(
            "answers",
            answer | {"question_id": "now", "state": "asking", "token": "mine", "lease_until": later},
            answer | {"question_id": "good", "state": "answered", "answered_at": later},
            answer | {"question_id": "bad", "state": "unusable", "reason": "blank", "answered_at": later},
        ),
        "UPDATE answers SET text = 'yes' WHERE question_id = 'good'"
        if fresh["ledger"].startswith("postgresql")
        else "UPDATE answers SET text = CAST('yes' AS BLOB) WHERE question_id = 'good'",
        *_inserts(
            "syntheses",
            part | {"place": 0, "state": "wanted"},
            part | {"place": 1, "state": "wanted", "ring_at": later, "reason": "spent", "kept_id": "k"},
            part | {"place": 2, "state": "ready"},
            part | {"place": 3, "state": "done"},
            part | {"place": 4, "state": "refused", "reason": "401"},
        ),
    ]
    with closing(_upgraded(fresh, *statements, since="ledger_16")) as ledger:
        kept = [ledger.answers.get("acme", each) for each in ("now", "good", "bad")]
        assert [each and (each.state, each.text, each.reason, each.token) for each in kept] == [
            (WorkState.LEASED, None, None, "mine"),
            (WorkState.DONE, "yes", None, None),
            (WorkState.FAILED, None, "blank", None),
        ]
        ledger.answers.finish("acme", "now", "mine", "in time")
        parts = ledger.syntheses.of_run("acme", "run")
        assert [(each.state, each.is_ready, each.reason) for each in parts] == [
            (WorkState.AVAILABLE, False, None),
            (WorkState.WAITING, False, "spent"),
            (WorkState.DONE, True, None),
            (WorkState.DONE, False, None),
            (WorkState.FAILED, False, "401"),
        ]
        assert {(each.source_ids, each.category) for each in parts} == {(("a", "b"), "social")}
        assert (parts[0].kept_id, parts[1].kept_id) == (None, "k")
        assert parts[1].dispatch_after == datetime(2026, 3, 1, 18, tzinfo=UTC)
        assert places_due(ledger, "run") == [0, 1]


def test_an_upgrade_makes_an_item_of_each_fine_tune_run(fresh: dict[str, str]) -> None:
    row = {"plan": "{}", "finished": '{"generating_data": {"a": "1"}}', "stage": "mining_negatives", "attempt": 3}
    row |= {"tries": 2, "rung_at": THEN, "started_at": THEN, "updated_at": THEN}
    ended = {"completed_at": THEN, "company": "acme"}
    runs = _inserts(
        "finetune_runs",
        row | {"company": "acme", "run_id": "waiting"},
        row | {"company": "globex", "run_id": "leased", "token": "t", "lease_until": THEN, "holder": "process:1:2"},
        row | ended | {"run_id": "complete", "stage": "complete"},
        row | ended | {"run_id": "failed", "stage": "failed", "error": "no space"},
        row | ended | {"run_id": "cancelled", "stage": "cancelled", "error": "a person cancelled the run"},
    )
    with closing(_upgraded(fresh, *runs, since="ledger_16")) as ledger:
        rows = ledger.finetune_runs
        found = {each.run_id: each for each in rows.page("acme")[0]}
        assert {key: (each.stage, each.reason, each.finished_at is None) for key, each in found.items()} == {
            "waiting": (FineTuneStage.MINING_NEGATIVES, None, True),
            "complete": (FineTuneStage.COMPLETE, None, False),
            "failed": (FineTuneStage.FAILED, "no space", False),
            "cancelled": (FineTuneStage.CANCELLED, "a person cancelled the run", False),
        }
        due = {item.key: item for item in ledger.work.take_due(limit=9)}
        assert due.keys() == {"waiting", "leased"}
        message = FineTunePayload.model_validate_json(due["leased"].payload or "")
        assert message == FineTunePayload(company="globex", run_id="leased")
        with pytest.raises(FineTuneRunActiveError):
            rows.resume("acme", "failed")
        claimed = present(rows.claim("globex", "leased", lease=timedelta(minutes=1)))
        assert (claimed.claims, claimed.attempt, claimed.holder) == (4, 3, "process:1:2")


def test_processes_that_migrate_at_once_all_succeed(fresh: dict[str, str]) -> None:
    program = """
import os, sys, traceback
from memcore.config.urls import LedgerUrls
from memcore.ledger.migrate import migrate
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        try:
            migrate(LedgerUrls(ledger=sys.argv[1], journal=sys.argv[2]))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    children.append(child)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""
    command = [sys.executable, "-c", program, fresh["ledger"], fresh["journal"]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr


def test_tables_of_a_newer_release_are_left_alone(fresh: dict[str, str]) -> None:
    _migrate(fresh)
    engine = create_engine(fresh["ledger"])
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version_ledger SET version_num = 'ledger_999'"))
    engine.dispose()
    with pytest.raises(MemoryConfigError, match="newer"):
        _migrate(fresh)


def test_sqlite_files_use_the_write_ahead_log_and_writers_take_their_lock_at_once(tmp_path: Path) -> None:
    from memcore.ledger.database import Database  # noqa: PLC0415  # only this test looks below the ledger

    urls = sqlite_urls(tmp_path)
    migrate(urls)
    database = Database(urls.journal, name="journal")
    with database.read() as reading, database.write() as writing:
        assert writing.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert writing.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
        assert writing.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1
        assert writing.exec_driver_sql("PRAGMA busy_timeout").scalar_one() >= 10_000
        assert reading.exec_driver_sql("SELECT count(*) FROM bookings").scalar_one() == 0
        other = create_engine(urls.journal, connect_args={"timeout": 0})
        with other.connect() as connection:
            connection.connection.driver_connection.isolation_level = None  # type: ignore[union-attr]  # a live one has it
            with pytest.raises(Exception, match="locked"):
                connection.exec_driver_sql("BEGIN IMMEDIATE")
        other.dispose()
