"""An upgrade of what release 0.2.0 left behind: nothing is lost, open work is dispatched, locks are unique.

The fixture was made with that release's own calls: two companies, with rows in every state of what is a work item now.
"""

import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, inspect, select, text
from sqlalchemy.exc import DBAPIError
from support.ledger_records import StoppedClock, postgres_database, sqlite_urls
from support.older_ledgers import copy_to_postgresql
from support.present import present
from support.repository import ROOT

from memcore.config.urls import LedgerUrls
from memcore.jobs import MaintenancePayload, Payload
from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate
from memcore.ledger.runs import NewRun
from memcore.ledger.tables import OPEN_WORK, work_items
from memcore.ledger.work_items import Work, WorkItem, WorkState
from tasks.job import all_jobs

RELEASE = ROOT / "tests" / "fixtures" / "releases" / "0.2.0.tar.xz"

#: What each kind of work was in that release's words, as "open" or as the state in which it ended.
BEFORE = {
    "memory.skills.evolve": ("skill_cycles", "CASE WHEN finished_at IS NULL THEN 'open' ELSE 'done' END"),
    "memory.lessons.draw": ("lessons", "CASE WHEN outcome IS NULL THEN 'open' ELSE 'done' END"),
    "memory.maintenance.run": ("runs", "CASE WHEN state IN ('queued', 'running') THEN 'open' ELSE state END"),
    "memory.synthesis.ask": (
        "syntheses",
        "CASE state WHEN 'wanted' THEN 'open' WHEN 'refused' THEN 'failed' ELSE 'done' END",
    ),
    "question": ("answers", "CASE state WHEN 'asking' THEN 'open' WHEN 'answered' THEN 'done' ELSE 'failed' END"),
    "memory.reindex.run": (
        "reindexes",
        "CASE WHEN finished_at IS NULL THEN 'open' WHEN stage = 'cancelled' THEN 'dismissed' ELSE 'done' END",
    ),
    "memory.finetune.stage": (
        "finetune_runs",
        (
            "CASE WHEN completed_at IS NULL THEN 'open' "
            "ELSE replace(replace(stage, 'complete', 'done'), 'cancelled', 'dismissed') END"
        ),
    ),
}

#: What that release named otherwise, and what follows from other rows, is not counted.
RENAMED = {"switches"}

Counts = dict[str, Counter[tuple[str, str]]]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LedgerUrls]:
    """A copy of what that release left behind."""
    with tarfile.open(RELEASE) as archive:
        archive.extractall(tmp_path, filter="data")
    urls = sqlite_urls(tmp_path)
    if request.param == "sqlite":
        yield urls
        return
    with postgres_database(request.getfixturevalue("postgres")) as url:
        copy_to_postgresql(tmp_path, url)
        yield LedgerUrls(ledger=url, journal=url)


def _sizes(url: str) -> dict[str, int]:
    engine = create_engine(url)
    with engine.connect() as connection:
        names = [name for name in inspect(connection).get_table_names() if not name.startswith("alembic")]
        sizes = {name: connection.scalar(text(f"SELECT count(*) FROM {name}")) for name in names}  # noqa: S608  # ours
    engine.dispose()
    return sizes


def _states(url: str) -> Counts:
    """Count each kind by its items, where there are any yet, else by the words of then."""
    engine, counts = create_engine(url), dict[str, Counter[tuple[str, str]]]()
    for kind, (table, state) in BEFORE.items():
        try:
            with engine.connect() as connection:
                counts[kind] = _items(connection, kind)
        except DBAPIError:
            query = text(f"SELECT company, {state} FROM {table}")  # noqa: S608  # ours
            with engine.connect() as connection:
                counts[kind] = Counter((company, state) for company, state in connection.execute(query))
    engine.dispose()
    return counts


def _items(connection: Connection, kind: str) -> Counter[tuple[str, str]]:
    query = select(work_items.c.company, work_items.c.state).where(work_items.c.kind == kind)
    is_open = ("available", "waiting", "leased")
    found = connection.execute(query)
    return Counter((company, "open" if state in is_open else state) for company, state in found)


def test_an_upgrade_keeps_every_row_and_every_state(old: LedgerUrls) -> None:
    before = {url: _sizes(url) for url in {old.ledger, old.journal}}
    states = _states(old.ledger)
    assert all(states.values())
    migrate(old)
    assert _states(old.ledger) == states
    for url, sizes in before.items():
        after = _sizes(url)
        kept = sizes.keys() & after.keys()
        assert {name: after[name] for name in kept} == {name: sizes[name] for name in kept}
        assert sizes.keys() - after.keys() <= RENAMED


def test_after_an_upgrade_open_work_is_dispatched_once_with_messages_that_are_read(old: LedgerUrls) -> None:
    migrate(old)
    clock = StoppedClock()
    clock.advance(timedelta(days=3))  # behind all waits and leases
    payloads = {job.name: job.payload for job in all_jobs()}
    with closing(Ledger.open(old, clock=clock)) as ledger:
        with ledger.work._database.read() as connection:
            due = set(
                connection.execute(
                    select(work_items.c.key).where(OPEN_WORK, work_items.c.payload.is_not(None))
                ).scalars()
            )
        sent = ledger.work.take_due(limit=1_000)
        assert {item.key for item in sent} == due
        assert len(sent) == len(due) > 0
        assert ledger.work.take_due(limit=1_000) == ()
        for item in sent:
            message = payloads[item.kind].model_validate_json(present(item.payload))
            assert isinstance(message, Payload)
            assert (message.company, str(message.queue)) == (item.company, item.queue)
        locks = Counter((item.company, item.lock) for item in sent if item.lock is not None)
        assert set(locks.values()) <= {1}
        _work_ends(ledger, sent)


def _work_ends(ledger: Ledger, sent: tuple[WorkItem, ...]) -> None:
    """Whatever was dispatched can be claimed by its kind's own repository, and its record is read."""
    repositories = {part._kind: part for part in vars(ledger).values() if isinstance(part, Work)}
    for item in sent:
        assert Work.claim(repositories[item.kind], item.company, item.key, lease=timedelta(minutes=1)) is not None
        held = repositories[item.kind].item(item.company, item.key)
        assert held.token not in {None, item.token}
        assert held.attempt == item.attempt + 1


#: What a worker of that release inserts for a message.
OLD_INSERT = text(
    "INSERT INTO runs (run_id, company, agent_id, kind, origin, state, step, planned_at, allow_large, attempt, counts,"
    " created_at, rung_at, undo_of)"
    " VALUES (:run_id, 'acme', :agent_id, 'undo', 'manual', :state, 'undo', :at, false, 0, '{}', :at, :at, 'first')"
    " ON CONFLICT DO NOTHING RETURNING run_id"
)

#: How it claims one.
OLD_CLAIM = text(
    "UPDATE runs SET state = 'running' WHERE run_id = :run_id"
    " AND (state = 'queued' OR (state = 'running' AND lease_until <= :at)) RETURNING run_id"
)


def test_a_run_that_a_worker_of_the_last_release_inserts_is_work_for_those_of_this_one(old: LedgerUrls) -> None:
    migrate(old)
    clock = StoppedClock()
    then = {"at": clock() if old.ledger.startswith("postgresql") else clock().strftime("%Y-%m-%d %H:%M:%S.%f")}
    engine = create_engine(old.ledger)

    def insert(run_id: str, agent_id: str, state: str = "queued") -> bool:
        with engine.begin() as connection:
            row = {"run_id": run_id, "agent_id": agent_id, "state": state} | then
            return connection.execute(OLD_INSERT, row).first() is not None

    with closing(Ledger.open(old, clock=clock)) as ledger:
        ledger.work.take_due(limit=1_000)
        assert insert("theirs", "nobody")
        assert not insert("theirs", "nobody")  # their message came twice
        assert not insert("second", "nobody")  # the agent has an open run
        with engine.begin() as connection:
            assert connection.execute(OLD_CLAIM, {"run_id": "theirs"} | then).first() is None
        (item,) = ledger.work.take_due(limit=1_000)
        assert MaintenancePayload.model_validate_json(item.payload or "") == MaintenancePayload(
            company="acme",
            agent_id="nobody",
            run_id="theirs",
            kind="undo",
            origin="manual",
            planned_at=clock(),
            undo_of="first",
        )
        claimed = present(ledger.runs.claim("acme", "theirs", lease=timedelta(minutes=1)))
        assert (claimed.kind, claimed.undo_of, claimed.agent_id) == ("undo", "first", "nobody")
        # An engine of that release removes a memory itself, and only notes it.
        assert insert("noted", "nobody", "done")
        noted = present(ledger.runs.get("acme", "noted"))
        assert noted.state is WorkState.DONE
        # A run of this release needs nothing of that.
        assert ledger.runs.create(NewRun(company="acme", agent_id="somebody", planned_at=clock())) is not None
        assert not insert("third", "somebody")
    engine.dispose()
