"""``make bench-growth``: what ninety days at five calls a second leave in ledger, journal and history.

No stack runs: each simulated day's rows are written in bulk, as the product writes them (SQLite, vectors of 256
numbers), and then a day's expiry is done by the real code under the default policy. ``--scale`` is the share of the
rows that is written (0.005); what is printed is divided by it.

The rates are what 25 minutes at five calls a second left on a running stack, times 57.6 for a day:

- 1,968 runs: ends of sessions and tasks. 857 of them remove two memories each, the others nothing. Each of 200 agents
  is maintained once a day;
- 4,089 memories stored. What no end removes, the next day's maintenance does; nothing is archived. A memory that stays
  in the store keeps its one row of history;
- 1,248 further work items: 1,000 turns of conversations, and 248 sessions;
- not seen there, assumed: 100 memories changed, 50 deleted by hand, 50 calls of a model, 10 lines of the audit.
"""

import argparse
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from rich.console import Console  # noqa: E402  # a script must find the tree first
from rich.table import Table as Printed  # noqa: E402
from sqlalchemy import Connection, Table  # noqa: E402
from support.ledger_records import StoppedClock, sqlite_urls  # noqa: E402

from memcore import ids  # noqa: E402
from memcore.config.policy import Policy  # noqa: E402
from memcore.embedding.bm25 import Bm25Encoder  # noqa: E402
from memcore.jobs import EndSessionPayload, ExtractPayload  # noqa: E402
from memcore.ledger import tables as of  # noqa: E402
from memcore.ledger.conversation import tables as talk  # noqa: E402
from memcore.ledger.database import Database, Row  # noqa: E402
from memcore.ledger.ledger import Ledger  # noqa: E402
from memcore.ledger.migrate import migrate, migrate_history  # noqa: E402
from memcore.ledger.rows import encoded  # noqa: E402
from memcore.ledger.runs import NewRun, RunStep, add_runs  # noqa: E402
from memcore.ledger.work_items import WorkKey, WorkState, new_item  # noqa: E402
from memcore.models.memory import MemoryCategory, MemoryEntry  # noqa: E402
from memcore.records import MemoryRecord, Vectors  # noqa: E402
from scheduler.expire import expire_company  # noqa: E402

COMPANY = "acme"
DAYS = 90

#: 25 minutes in a day.
DAILY = 24 * 60 / 25

EMPTY_ENDS, ENDS, STORED, TURNS, SESSIONS = 1_111, 857, 4_089, 1_000, 248
CHANGED, DELETED, CALLS, LINES = 100, 50, 50, 10
AGENTS = 200

#: A memory of the usual length.
TEXT = "The user prefers the morning train to Lisbon on Tuesdays and asks for a window seat; order {n} is confirmed."


@dataclass
class Simulation:
    """Writes the rows of days, and counts them."""

    ledger: Ledger
    history: Database
    clock: StoppedClock
    scale: float

    def __post_init__(self) -> None:
        """Prepare what is the same in all memories."""
        ledger, journal = self.ledger._databases
        self.places = {"ledger": ledger, "journal": journal, "history": self.history}
        self.random = np.random.default_rng(1)
        self.policy, self.empty = Policy(), dict[str, float]()
        self.empty = self.bytes()

    def day(self) -> None:
        """Write a day's rows, and let it pass with its expiry."""
        with self.places["ledger"].write() as ledger, self.places["journal"].write() as journal:
            with self.history.write() as history:
                self._runs(ledger, "end_task", self._many(EMPTY_ENDS), ended=0)
                ends = self._runs(ledger, "end_session", self._many(ENDS))
                self._removed(journal, history, ends, 2 * len(ends), "ended")
                nightly = self._runs(ledger, "maintenance", max(1, round(AGENTS * self.scale)))
                self._removed(journal, history, nightly, self._many(STORED) - 2 * len(ends), "ended")
                deleted = self._runs(ledger, "remove", self._many(DELETED))
                self._removed(journal, history, deleted, len(deleted), "deleted")
                changed = self._runs(ledger, "update", self._many(CHANGED))
                self._removed(journal, history, changed, len(changed), "updated")
            self._conversations(ledger)
            self._insert(ledger, of.model_calls, (self._call(n) for n in range(self._many(CALLS))))
            self._insert(ledger, of.audit, (self._line() for _ in range(self._many(LINES))))
            self._insert(ledger, of.model_spending, self._days_of_agents())
        self.clock.advance(timedelta(days=1))
        expire_company(self.ledger, COMPANY, self.policy, now=self.clock())
        self.ledger.ends.expire_shared([self.policy.memory], now=self.clock())

    def rows(self) -> dict[str, int]:
        """Return how many rows each table that ends has, by its name."""
        found: dict[str, int] = {}
        for place, tables in zip(self.places, (of.metadata, of.journal_metadata, of.history_metadata), strict=True):
            for name, table in tables.tables.items():
                found[name] = round(self.places[place].count(table) / self.scale)
        return {name: count for name, count in found.items() if count}

    def bytes(self) -> dict[str, float]:
        """Return the size of each file, without its write-ahead log."""
        sizes = {}
        for name, database in self.places.items():
            with database.statement() as connection:
                pages, size = (
                    connection.exec_driver_sql(f"PRAGMA {each}").scalar_one() for each in ("page_count", "page_size")
                )
            sizes[name] = (pages * size - self.empty.get(name, 0)) / (self.scale if self.empty else 1)
        return sizes

    def _many(self, in_25_minutes: int) -> int:
        return max(1, round(in_25_minutes * DAILY * self.scale))

    def _insert(self, connection: Connection, table: Table, rows: Iterator[Row]) -> None:
        connection.execute(table.insert(), list(rows))

    def _runs(self, connection: Connection, kind: Any, many: int, *, ended: int = 2) -> list[NewRun]:
        now = self.clock()
        runs = [
            NewRun(
                company=COMPANY, agent_id=f"agent-{n % AGENTS:04}", kind=kind,
                planned_at=now + timedelta(microseconds=n),
                origin="scheduled" if kind == "maintenance" else "engine",
                scope_id=None if kind == "maintenance" else ids.new_id(),
            )
            for n in range(many)
        ]  # fmt: skip
        over = _over(now)
        add_runs(connection, runs, now=now, payload=None, **over)
        done = of.runs.update().where(of.runs.c.step != RunStep.FINISHED.value)
        connection.execute(done.values(step=RunStep.FINISHED.value, counts={"ended": ended}))
        return runs

    def _removed(self, journal: Connection, history: Connection, runs: list[NewRun], many: int, reason: str) -> None:
        now, entries, records, tombs, lines = self.clock(), list[Row](), list[Row](), list[Row](), list[Row]()
        for place, run in enumerate(runs):
            memories = [self._memory(run.agent_id) for _ in range(place, many, len(runs))]
            booking_id = ids.new_id()
            entries.append({
                "booking_id": booking_id, "run_id": run.run_id, "company": COMPANY, "agent_id": run.agent_id, "seq": 0,
                "reason": reason, "incoming_kind": "created", "state": "done", "prepared_at": now, "settled_at": now,
            })  # fmt: skip
            for number, (memory, columns) in enumerate(zip(memories, encoded(memories), strict=True)):
                key = {"booking_id": booking_id, "memory_id": memory.entry.id}
                records.append({**key, "kind": "removed", "position": number, "void": False, **columns})
                tombs.append({**key, "buried_at": now})
                for event in ("ADD", "DELETE"):
                    lines.append({
                        "id": str(uuid.uuid4()), "memory_id": memory.entry.id, "event": event,
                        "created_at": now.isoformat(), "updated_at": now.isoformat(),
                        "is_deleted": int(event == "DELETE"),
                    })  # fmt: skip
        for connection, table, rows in (
            (journal, of.bookings, entries), (journal, of.booking_records, records), (journal, of.tombstones, tombs),
            (history, of.history, lines),
        ):  # fmt: skip
            connection.execute(table.insert(), rows)

    def _memory(self, agent_id: str) -> MemoryRecord:
        content = TEXT.format(n=self.random.integers(10**6))
        entry = MemoryEntry(
            id=str(uuid.uuid4()), agent_id=agent_id, category=MemoryCategory.EPISODIC, content=content,
            created_at=self.clock(),
        )  # fmt: skip
        dense = self.random.standard_normal(256).astype(np.float32)
        return MemoryRecord(entry=entry, vectors=Vectors(dense=dense, sparse=Bm25Encoder().encode_document(content)))

    def _conversations(self, connection: Connection) -> None:
        now, items, turns, sessions = self.clock(), list[Row](), list[Row](), list[Row]()
        over = _over(now)
        for number in range(self._many(SESSIONS)):
            key, agent_id = ids.new_id(), f"agent-{number % AGENTS:04}"
            whose = {"company": COMPANY, "agent_id": agent_id, "subject": "user:u", "session_key": key}
            payload = EndSessionPayload(company=COMPANY, agent_id=agent_id, session_key=key)
            name = WorkKey(COMPANY, EndSessionPayload.task, key)
            items.append(new_item(name, payload, now=now, agent_id=agent_id) | over)
            times = dict.fromkeys(("begun_at", "last_turn_at", "recorded_at", "ended_at"), now)
            sessions.append({**whose, "session_id": key, "turns": 4, "is_private": False, **times, "outcome": {}})
            for _ in range(TURNS // SESSIONS):
                turn_id = ids.new_id()
                asked = ExtractPayload(company=COMPANY, agent_id=agent_id, turn_id=turn_id)
                name = WorkKey(COMPANY, ExtractPayload.task, turn_id)
                items.append(new_item(name, asked, now=now, agent_id=agent_id) | over)
                turns.append({**whose, "turn_id": turn_id, "at": now, "body": TEXT.encode() * 2, "outcome": {}})
        for table, rows in ((talk.sessions, sessions), (talk.turns, turns), (of.work_items, items)):
            connection.execute(table.insert(), rows)

    def _call(self, number: int) -> Row:
        return {
            "call_id": ids.new_id(), "company": COMPANY, "agent_id": f"agent-{number % AGENTS:04}",
            "question_id": ids.new_id(), "purpose": "lesson", "model": "small", "state": "answered", "attempts": 1,
            "prompt_tokens": 900, "completion_tokens": 90, "cost": 0.001, "called_at": self.clock(),
        }  # fmt: skip

    def _line(self) -> Row:
        return {
            "company": COMPANY, "audit_id": ids.new_id(), "at": self.clock(), "actor": "key:engine",
            "action": "memory.publish", "verdict": "allowed", "subject": ids.new_id(),
        }  # fmt: skip

    def _days_of_agents(self) -> Iterator[Row]:
        day = self.clock().date().isoformat()
        for number in range(max(1, round(AGENTS * self.scale))):
            yield {"company": COMPANY, "agent_id": f"agent-{number:04}", "day": day, "tokens": 9_000, "cost": 0.1}


def _over(at: datetime) -> Row:
    """Return the columns of an item that has ended."""
    times = {"dispatch_after": None, "started_at": at, "finished_at": at}
    return {"state": WorkState.DONE.value, "attempt": 1, **times}


def main() -> int:
    """Print rows and bytes; 1 when ledger and history have 1 GB on the last day, or a tenth more than on day 40."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.005, help="share of the rows that is written")
    scale, clock = parser.parse_args().scale, StoppedClock()
    curve = Printed("day", "ledger MB", "journal MB", "history MB", "rows", "s", title=f"scale {scale}")
    with tempfile.TemporaryDirectory() as folder:
        urls = sqlite_urls(Path(folder)).model_copy(update={"history": f"sqlite:///{folder}/history.db"})
        migrate(urls)
        migrate_history(str(urls.history))
        history = Database(str(urls.history), name="history")
        with closing(history), closing(Ledger.open(urls, clock=clock)) as ledger:
            simulation, sizes = Simulation(ledger, history, clock, scale), dict[int, dict[str, float]]()
            before, rows = dict[str, int](), dict[str, int]()
            for day in range(1, DAYS + 1):
                began = perf_counter()
                simulation.day()
                if day in {1, 3, 7, 8, 40} or day % 10 == 0:
                    sizes[day], rows = simulation.bytes(), simulation.rows()
                    figures = [f"{sizes[day][place] / 1e6:,.0f}" for place in simulation.places]
                    curve.add_row(str(day), *figures, f"{sum(rows.values()):,}", f"{perf_counter() - began:.1f}")
                    before = rows if day == 40 else before
    console = Console(width=120, highlight=False)
    console.print(curve)
    for name, count in sorted(rows.items(), key=lambda each: -each[1]):
        console.print(f"{name}: {count:,} rows on day {DAYS}, {before.get(name, 0):,} on day 40")
    total = sizes[DAYS]["ledger"] + sizes[DAYS]["history"]
    growth = total / (sizes[40]["ledger"] + sizes[40]["history"])
    console.print(f"ledger and history: {total / 1e6:,.0f} MB, {growth:.2f} times day 40")
    return int(total >= 1e9 or growth > 1.1)


if __name__ == "__main__":
    sys.exit(main())
