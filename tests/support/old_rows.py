"""Rows of every kind that ends, written as the product writes them."""

import uuid
from datetime import timedelta
from typing import Any

from sqlalchemy import Table

from memcore.ledger import tables as of
from memcore.ledger.conversation.memory import Commit
from memcore.ledger.database import Database
from memcore.ledger.journal import EntryReason
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun, Run, RunKind
from memcore.ledger.work_items import WorkState
from support.conversations import claimed_turn, record_turn, session_key
from support.ledger_records import COMPANY, StoppedClock, make_journal_entry

LEASE = timedelta(seconds=45)
SECOND = timedelta(seconds=1)


def uid(number: int) -> str:
    return str(uuid.UUID(int=number))


def database_of(ledger: Ledger, table: Table) -> Database:
    ledger_database, journal = ledger._databases
    return journal if table.metadata is of.journal_metadata else ledger_database


def insert(ledger: Ledger, table: Table, **values: Any) -> None:
    with database_of(ledger, table).write() as connection:
        connection.execute(table.insert().values(values))


def count(ledger: Ledger, table: Table) -> int:
    return database_of(ledger, table).count(table)


def run(
    ledger: Ledger,
    clock: StoppedClock,
    kind: RunKind = "maintenance",
    *,
    state: WorkState = WorkState.DONE,
    ended: int = 1,
    **more: str,
) -> Run:
    clock.advance(SECOND)
    new = NewRun.model_validate({"company": COMPANY, "agent_id": "ada", "kind": kind, "planned_at": clock(), **more})
    made = ledger.runs.create(new)
    assert made is not None
    claimed = ledger.runs.claim(COMPANY, made.run_id, lease=LEASE)
    assert claimed is not None
    ledger.runs.finish(COMPANY, made.run_id, claimed.token or "", state=state, counts={"ended": ended})
    return made


def entry(ledger: Ledger, clock: StoppedClock, reason: EntryReason, booking_id: str = "b", memory: int = 1) -> None:
    del clock
    made = make_journal_entry(booking_id, run_id=f"run of {booking_id}", outgoing=(uid(memory),), reason=reason)
    ledger.journal.prepare(made)
    ledger.journal.settle(booking_id)


def call(ledger: Ledger, clock: StoppedClock) -> None:
    insert(
        ledger, of.model_calls, call_id="c", company=COMPANY, agent_id="ada", question_id="q", purpose="p", model="m",
        state="answered", attempts=1, prompt_tokens=1, completion_tokens=1, cost=0.0, called_at=clock(),
    )  # fmt: skip


def line(ledger: Ledger, clock: StoppedClock) -> None:
    insert(ledger, of.audit, company=COMPANY, audit_id="a", at=clock(), actor="p", action="x", verdict="allowed")


def trace(ledger: Ledger, clock: StoppedClock) -> None:
    for name, at in (("raw", None), ("seen", clock())):
        insert(
            ledger, of.experiences, company=COMPANY, experience_id=name, agent_id="ada", created_at=clock(), body=b"{}",
            compressed_at=at,
        )  # fmt: skip


def session(ledger: Ledger, clock: StoppedClock, *candidates: Any) -> None:
    """Record a turn, ask about it, and end its session."""
    record_turn(ledger, "t-1")
    turn = claimed_turn(ledger, "t-1")
    state = ledger.conversation.state(COMPANY, turn.owner)
    ledger.turns.settle(turn, COMPANY, turn.token or "", Commit(), candidates, {}, expected=state.version, max_rules=9)
    ledger.sessions.close_now(COMPANY, session_key(), at=clock())
    claimed = ledger.sessions.claim(COMPANY, session_key(), lease=LEASE)
    assert claimed is not None
    version = ledger.conversation.state(COMPANY, turn.owner).version
    token, empty = claimed.token or "", Commit()
    assert ledger.sessions.settle(claimed, COMPANY, token, empty, {}, {}, expected=version, max_rules=9, idle=LEASE)
