"""Rows end when the policy says so, whole, and not before; what must stay stays."""

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import Table
from support.conversations import held, record_turn
from support.ledger_records import COMPANY, StoppedClock, make_journal_entry
from support.old_rows import SECOND, call, count, database_of, entry, insert, line, run, session, trace, uid

from memcore.config.policy import Policy
from memcore.ledger import tables as of
from memcore.ledger.conversation import tables as talk
from memcore.ledger.erasure.ends import JOURNAL, LEDGER, STEP, End, old_rows
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun
from memcore.ledger.work_items import WorkState
from scheduler.expire import expire_company

POLICY = Policy()


def end_of_a_session(ledger: Ledger, clock: StoppedClock) -> None:
    run(ledger, clock, "end_session", scope_id="s")


def removal(ledger: Ledger, clock: StoppedClock) -> None:
    run(ledger, clock, "remove", scope_id="m")


def two_runs(ledger: Ledger, clock: StoppedClock) -> None:
    for _ in range(2):
        run(ledger, clock)


def keyed(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.keys.point(COMPANY, "ada", namespace="default", key="k", memory_id=uid(1), sent_at=clock())
    ledger.keys.point(COMPANY, "ada", namespace="default", key="other", memory_id=uid(2), sent_at=clock())
    entry(ledger, clock, "deleted")


def doubtful_session(ledger: Ledger, clock: StoppedClock) -> None:
    session(ledger, clock, held("c-1", "t-1"))


def counts(ledger: Ledger, clock: StoppedClock) -> None:
    for name in ("skill", "anything"):
        applied = {"skill_id": name, "applications": 1, "successes": 1, "last_applied_at": clock()}
        insert(ledger, of.skill_counts, company=COMPANY, **applied)
    at = {"published_at": clock(), "changed_at": clock()}
    text = {"approval_id": "a", "pattern_id": "p", "state": "retired", "confidence": 1.0, "body": b"{}"}
    insert(ledger, of.skills, company=COMPANY, skill_id="skill", **at, **text)


#: What is written, the days that it is kept, and how many rows each table has before and behind.
CASES: dict[str, tuple[Callable[[Ledger, StoppedClock], object], int, dict[Table, tuple[int, int]]]] = {
    "end of a session": (end_of_a_session, 7, {of.runs: (1, 0), of.work_items: (1, 0)}),
    "end of a session that had no memory": (
        lambda ledger, clock: run(ledger, clock, "end_session", scope_id="s", ended=0),
        1,
        {of.runs: (1, 0), of.work_items: (1, 0)},
    ),
    "removal of a memory": (removal, 7, {of.runs: (1, 0), of.work_items: (1, 0)}),
    "two runs": (two_runs, 30, {of.runs: (2, 1), of.work_items: (2, 1)}),
    "memory that ended": (
        lambda ledger, clock: entry(ledger, clock, "ended"),
        7,
        {of.bookings: (1, 0), of.booking_records: (1, 0), of.tombstones: (1, 0)},
    ),
    "memory with a key": (
        keyed, 30, {of.bookings: (1, 0), of.booking_records: (1, 0), of.tombstones: (1, 0), of.memory_keys: (2, 1)}
    ),
    "memory that was changed": (
        lambda ledger, clock: entry(ledger, clock, "updated"),
        400,
        {of.bookings: (1, 0), of.booking_records: (1, 0), of.tombstones: (1, 0)},
    ),
    "call of a model": (call, 400, {of.model_calls: (1, 0)}),
    "line of the audit": (line, 400, {of.audit: (1, 0)}),
    "experience": (trace, 400, {of.experiences: (2, 1)}),
    "counts of what was applied": (counts, 90, {of.skill_counts: (2, 1), of.skills: (1, 1)}),
    "session": (session, 1, {talk.sessions: (1, 0), talk.turns: (1, 0), of.work_items: (2, 0)}),
    "session that held something back": (
        doubtful_session,
        180,
        {talk.sessions: (1, 0), talk.candidates: (1, 0), talk.turns: (0, 0), of.work_items: (1, 0)},
    ),
    "hold": (
        lambda ledger, clock: ledger.journal.hold(COMPANY, "ada", ["m"], until=clock()), 1, {of.holds: (1, 0)}
    ),
}  # fmt: skip


def expire(ledger: Ledger, clock: StoppedClock, policy: Policy = POLICY) -> int:
    return expire_company(ledger, COMPANY, policy, now=clock())["rows"]


@pytest.mark.parametrize(("write", "days", "rows"), CASES.values(), ids=list(CASES))
def test_rows_are_kept_for_their_term_and_no_longer(
    ledger: Ledger,
    clock: StoppedClock,
    write: Callable[[Ledger, StoppedClock], object],
    days: int,
    rows: dict[Table, tuple[int, int]],
) -> None:
    write(ledger, clock)
    clock.advance(timedelta(days=days) - SECOND)
    expire(ledger, clock)
    assert {table: count(ledger, table) for table in rows} == {table: before for table, (before, _) in rows.items()}
    clock.advance(2 * SECOND)
    assert expire(ledger, clock) >= 1
    assert {table: count(ledger, table) for table in rows} == {table: behind for table, (_, behind) in rows.items()}
    assert expire(ledger, clock) == 0


def test_sums_of_a_day_are_kept_for_the_days_of_usage(ledger: Ledger, clock: StoppedClock) -> None:
    day = clock().date().isoformat()
    insert(ledger, of.model_spending, company=COMPANY, agent_id="ada", day=day, tokens=1, cost=0.0)
    clock.advance(timedelta(days=400))
    expire(ledger, clock)
    assert count(ledger, of.model_spending) == 1
    clock.advance(timedelta(days=1))
    assert expire(ledger, clock) == 1
    assert count(ledger, of.model_spending) == 0


def test_what_is_asked_about_the_last_run_of_an_agent_outlives_it(ledger: Ledger, clock: StoppedClock) -> None:
    old, last = run(ledger, clock), run(ledger, clock)
    dismissed = run(ledger, clock, state=WorkState.HELD)
    ledger.runs.dismiss(COMPANY, dismissed.run_id, by="p")
    undo = run(ledger, clock, "undo", undo_of=old.run_id)
    waits = run(ledger, clock, state=WorkState.HELD)
    clock.advance(timedelta(days=4_000))
    expire(ledger, clock)
    kept = {each.run_id for each in ledger.runs.list(COMPANY, limit=None)}
    assert kept == {each.run_id for each in (last, dismissed, undo, waits)}
    assert ledger.runs.last_done(COMPANY, "ada") is not None
    assert ledger.runs.is_settled(COMPANY, "ada")


def test_no_row_goes_while_its_run_can_be_undone(ledger: Ledger, clock: StoppedClock) -> None:
    days = {"consolidation": {"journal_days": 90}, "records": {"explained_days": 1, "replaced_days": 1}}
    policy = Policy.model_validate({"memory": days})
    made = [run(ledger, clock, "remove", scope_id="m"), run(ledger, clock, "end_task", scope_id="t")]
    for memory, (each, reason) in enumerate(zip(made, ("deleted", "ended"), strict=True), start=1):
        found = make_journal_entry(reason, run_id=each.run_id, outgoing=(uid(memory),), reason=reason)  # type: ignore[arg-type]
        ledger.journal.prepare(found)
        ledger.journal.settle(reason)
    clock.advance(timedelta(days=90) - 2 * SECOND)
    expire(ledger, clock, policy)
    assert all(ledger.runs.get(COMPANY, each.run_id) for each in made)
    assert all(ledger.journal.undoable(each.run_id) for each in made)
    clock.advance(timedelta(days=1))
    expire(ledger, clock, policy)
    assert count(ledger, of.bookings) == count(ledger, of.runs) == 0


def test_an_entry_stays_while_the_archive_holds_what_it_removed(ledger: Ledger, clock: StoppedClock) -> None:
    entry(ledger, clock, "consolidated")
    insert(
        ledger, of.archive, archival_id="a", company=COMPANY, agent_id="ada", original_id=uid(1), mode="dense",
        category="semantic", namespace="default", booking_id="b", run_id="run of b", created_at=clock(),
        archived_at=clock(), body=b"{}",
    )  # fmt: skip
    clock.advance(timedelta(days=4_000))
    expire(ledger, clock)
    assert count(ledger, of.bookings) == count(ledger, of.tombstones) == 1
    with database_of(ledger, of.archive).write() as connection:
        connection.execute(of.archive.delete())
    expire(ledger, clock)
    assert count(ledger, of.bookings) == count(ledger, of.tombstones) == 0


def test_an_open_entry_and_open_work_have_no_end(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.journal.prepare(make_journal_entry("open", outgoing=(uid(1),)))
    assert ledger.runs.create(NewRun(company=COMPANY, agent_id="ada", planned_at=clock()))
    record_turn(ledger, "t-1")
    clock.advance(timedelta(days=4_000))
    expire(ledger, clock)
    tables = (of.bookings, of.tombstones, of.runs, talk.turns, talk.sessions)
    assert [count(ledger, table) for table in tables] == [1] * len(tables)
    assert count(ledger, of.work_items) == 3


def test_a_memory_that_came_back_keeps_its_key(ledger: Ledger, clock: StoppedClock) -> None:
    keyed(ledger, clock)
    back = make_journal_entry("back", incoming=(uid(1),), incoming_kind="restored", reason="undone")
    ledger.journal.prepare(back)
    ledger.journal.settle("back")
    clock.advance(timedelta(days=4_000))
    expire(ledger, clock)
    assert (count(ledger, of.bookings), count(ledger, of.memory_keys)) == (0, 2)


def test_the_reason_of_a_redone_removal_is_found_when_its_first_entry_is_gone(
    ledger: Ledger, clock: StoppedClock
) -> None:
    entry(ledger, clock, "ended", "first")
    undo = make_journal_entry("undo", incoming=(uid(1),), incoming_kind="restored", reason="undone")
    redo = make_journal_entry("redo", run_id="other", outgoing=(uid(1),), reason="undone")
    for each, reverses in ((undo, "first"), (redo, "undo")):
        clock.advance(SECOND)
        ledger.journal.prepare(dataclasses.replace(each, reverses=reverses))
        ledger.journal.settle(each.booking_id)
    assert ledger.journal.gone([uid(1)]) == {uid(1): ("redo", "ended")}
    clock.advance(timedelta(days=20))
    expire(ledger, clock)
    assert count(ledger, of.bookings) == 2
    assert ledger.journal.gone([uid(1)]) == {uid(1): ("redo", "undone")}


def test_a_step_that_is_broken_off_leaves_whole_rows(
    ledger: Ledger, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memcore.ledger.erasure.ends.STEP", 2)
    for number in range(1, 6):
        entry(ledger, clock, "deleted", f"b{number}", number)
    clock.advance(timedelta(days=8))
    expire(ledger, clock)
    clock.advance(timedelta(days=30))
    ledger.ends.expire(COMPANY, POLICY.memory, now=clock(), goes_on=lambda: count(ledger, of.bookings) > 3)
    assert {count(ledger, table) for table in (of.bookings, of.booking_records, of.tombstones)} == {3}
    expire(ledger, clock)
    assert {count(ledger, table) for table in (of.bookings, of.booking_records, of.tombstones)} == {0}


def test_workers_that_expire_at_once_delete_each_row_once(
    ledger: Ledger, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memcore.ledger.erasure.ends.STEP", 3)
    for number in range(1, 31):
        entry(ledger, clock, "deleted", f"b{number}", number)
        run(ledger, clock, "end_session", scope_id=str(number))
    clock.advance(timedelta(days=31))
    ledger.journal.expire(COMPANY, before=clock())
    in_a_day = clock() + timedelta(days=1)
    with ThreadPoolExecutor(4) as workers:
        gone = [
            workers.submit(ledger.ends.expire, COMPANY, POLICY.memory, now=clock() + timedelta(days=1))
            for _ in range(4)
        ]
        assert sum(each.result() for each in gone) <= 60
    ledger.ends.expire(COMPANY, POLICY.memory, now=in_a_day)
    tables = (of.bookings, of.booking_records, of.tombstones, of.runs, of.work_items)
    assert {count(ledger, table) for table in tables} == {0}


def test_another_company_keeps_its_rows(ledger: Ledger, clock: StoppedClock) -> None:
    keyed(ledger, clock)
    end_of_a_session(ledger, clock)
    clock.advance(timedelta(days=4_000))
    expire_company(ledger, "globex", POLICY, now=clock())
    assert (count(ledger, of.bookings), count(ledger, of.runs), count(ledger, of.memory_keys)) == (1, 1, 2)


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(end, id=f"{name}-{place}")
        for name, found in {**LEDGER, **JOURNAL}.items()
        if isinstance(found, tuple) and name not in {"attempts", "holds"}  # few rows: of lost jobs, of the last days
        for place, end in enumerate(found)
    ],
)
def test_old_rows_are_found_by_an_index(ledger: Ledger, clock: StoppedClock, end: End) -> None:
    database, table = database_of(ledger, end.table), end.table.name
    query = old_rows(end, COMPANY, clock()).order_by(end.at).limit(STEP)
    with database.read() as connection:
        if database.dialect == "postgresql":
            # It would read the whole of an empty table.
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        explain = "EXPLAIN QUERY PLAN" if database.dialect == "sqlite" else "EXPLAIN"
        words = query.compile(connection, compile_kwargs={"literal_binds": True})
        found = "\n".join(str(row) for row in connection.exec_driver_sql(f"{explain} {words}"))
    assert table in found
    assert f"SCAN {table}" not in found
    assert f"Seq Scan on {table}" not in found
    assert "TEMP B-TREE" not in found, found
