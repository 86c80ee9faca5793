"""What a tick costs: it grows with the agents due, never with the agents known."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event
from support.ledger_records import COMPANY, StoppedClock, copied_urls

from memcore.config.urls import LedgerUrls
from memcore.ledger.agents import Agents, AgentSpec
from memcore.ledger.database import Database
from memcore.ledger.ledger import Ledger
from memcore.models.memory import ConsolidationInterval, MemoryLevel

WEEKLY = ConsolidationInterval.WEEKLY


class Meter:
    """Counts the instructions of SQLite's machine: the work that was done, whatever the computer's mood."""

    def __init__(self, database: Database) -> None:
        self.instructions = 0
        event.listen(database.engine(), "connect", self._attach)

    def _attach(self, connection: Any, _record: object) -> None:
        connection.set_progress_handler(self._count, 1)

    def _count(self) -> int:
        self.instructions += 1
        return 0


def _instructions_of_a_tick(
    template: Path, folder: Path, *, known: int, due: int, interval: ConsolidationInterval
) -> int:
    urls = copied_urls(template, folder)
    clock = StoppedClock()
    ledger = Ledger.open(urls, clock=clock)
    names = [f"agent-{number}" for number in range(known)]
    ledger.agents.register(COMPANY, names, interval=WEEKLY)
    if interval is ConsolidationInterval.NEVER:
        clock.advance(timedelta(weeks=2))
    for name in names[:due]:
        ledger.agents.set_due(COMPANY, name, clock() - timedelta(weeks=3))
    database = Database(urls.ledger, name="ledger")
    metered = Agents(database, clock=clock)
    meter = Meter(database)
    ledger.companies.register(COMPANY)
    assert metered.due(default=interval) == ({COMPANY: interval} if due and interval is WEEKLY else {})
    taken = metered.claim_due([COMPANY], interval=interval, limit=500)
    assert len(taken) == (0 if interval is ConsolidationInterval.NEVER else due)
    return meter.instructions


@pytest.mark.parametrize("interval", [WEEKLY, ConsolidationInterval.NEVER])
@pytest.mark.parametrize("due", [0, 5])
def test_a_tick_costs_the_same_however_many_agents_are_known(
    ledger_template: Path, tmp_path: Path, due: int, interval: ConsolidationInterval
) -> None:
    few = _instructions_of_a_tick(ledger_template, tmp_path / "few", known=50, due=due, interval=interval)
    many = _instructions_of_a_tick(ledger_template, tmp_path / "many", known=5000, due=due, interval=interval)
    assert few > 0
    assert many <= 2 * few


def _instructions_of_peers(template: Path, folder: Path, *, known: int) -> int:
    urls = copied_urls(template, folder)
    clock = StoppedClock()
    ledger = Ledger.open(urls, clock=clock)
    ledger.agents.register(COMPANY, [f"agent-{number}" for number in range(known)], interval=WEEKLY)
    for name in ("ada", "bob", "cy"):
        ledger.agents.put(AgentSpec(company=COMPANY, agent_id=name, role="clerk", department="sales"))
    database = Database(urls.ledger, name="ledger")
    metered = Agents(database, clock=clock)
    meter = Meter(database)
    assert metered.like(COMPANY, "bob", by="role", level=MemoryLevel.PERSISTENT, limit=10) == ("ada", "cy")
    assert metered.like(COMPANY, "bob", by="department", level=MemoryLevel.PERSISTENT, limit=10) == ("ada", "cy")
    return meter.instructions


def test_an_agents_like_are_found_without_a_look_at_all_others(ledger_template: Path, tmp_path: Path) -> None:
    few = _instructions_of_peers(ledger_template, tmp_path / "few", known=5)
    many = _instructions_of_peers(ledger_template, tmp_path / "many", known=2000)
    assert few > 0
    assert many <= 2 * few


def _instructions_of_late(template: Path, folder: Path, *, known: int) -> int:
    urls = copied_urls(template, folder)
    clock = StoppedClock()
    ledger = Ledger.open(urls, clock=clock)
    ledger.companies.register(COMPANY)
    ledger.agents.register(COMPANY, [f"agent-{number}" for number in range(known)], interval=WEEKLY)
    ledger.agents.set_due(COMPANY, "agent-0", clock() - timedelta(hours=1))
    database = Database(urls.ledger, name="ledger")
    metered = Agents(database, clock=clock)
    meter = Meter(database)
    assert metered.late(default=WEEKLY, before=clock() - timedelta(minutes=5)) == {COMPANY: 1}
    return meter.instructions


def test_late_agents_are_counted_without_a_look_at_the_others(ledger_template: Path, tmp_path: Path) -> None:
    few = _instructions_of_late(ledger_template, tmp_path / "few", known=5)
    many = _instructions_of_late(ledger_template, tmp_path / "many", known=2000)
    assert few > 0
    assert many <= 2 * few


@pytest.mark.service
def test_postgresql_reads_no_whole_table_to_find_whether_agents_are_due(
    postgres_ledger: LedgerUrls, postgres_engine: Engine
) -> None:
    clock, asked = StoppedClock(), list[Any]()
    ledger = Ledger.open(postgres_ledger, clock=clock)
    for number in range(50):
        ledger.companies.register(f"company-{number}")
        names = [f"agent-{name}" for name in range(100)]
        ledger.agents.register(f"company-{number}", names, interval=WEEKLY)
    with postgres_engine.begin() as connection:
        connection.exec_driver_sql("ANALYZE agents, companies")
    database = Database(postgres_ledger.ledger, name="ledger")
    event.listen(database.engine(), "before_cursor_execute", lambda *given: asked.append(given[2:4]))
    Agents(database, clock=clock).due(default=WEEKLY)
    database.close()
    ledger.close()
    with postgres_engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN {asked[-1][0]}", asked[-1][1]).scalars().all()
    assert not [line for line in plan if "Seq Scan on agents" in line], plan


@pytest.mark.service
def test_postgresql_finds_an_item_by_its_key_before_it_has_counted_any(
    postgres_ledger: LedgerUrls, postgres_engine: Engine
) -> None:
    # Until it has, each index that fits looks as good: one of the company and the kind leads to all of their items.
    by_key = "SELECT * FROM work_items WHERE company = $1 AND kind = $2 AND key = $3 AND state IN ($4, $5)"
    del postgres_ledger
    with postgres_engine.connect() as connection:
        connection.exec_driver_sql("SET LOCAL plan_cache_mode = force_generic_plan")
        connection.exec_driver_sql(f"PREPARE by_key AS {by_key}")
        plan = connection.exec_driver_sql("EXPLAIN EXECUTE by_key ('a', 'b', 'c', 'available', 'leased')").scalars()
        assert "work_items_pkey" in plan.all()[0]
        connection.exec_driver_sql("DEALLOCATE by_key")
