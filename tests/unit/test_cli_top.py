"""``memtend top``: what a frame says, that it fits into 80 columns, and that names are data."""

import io
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console, Group
from sqlalchemy import Engine, create_engine, event, make_url
from support.ledger_records import StoppedClock
from support.present import present

from memcore.clock import span
from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryConnectionError
from memcore.ledger.ledger import Ledger
from memcore.ledger.monitoring.measures import MeasureName
from memcore.ledger.runs import NewRun
from memcore.ledger.work_items import WorkState
from memcore.models.base import escaped
from ops.cli.running import top
from ops.cli.running.top import Frame, Rates, Top, drawn
from workers.health import FROZEN_SECONDS, Heartbeat
from workers.stack.home import ServiceState, StackState, state_path, write_state

#: Clears the screen, begins a new line, and looks like rich's markup; wider than a terminal.
HOSTILE = "[red]x[/red]\x1b[2J\nneeds a person: nothing\x9b31m" + 90 * "w"


@pytest.fixture
def watched(ledger: Ledger, clock: StoppedClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Top:
    """An installation whose broker does not answer."""
    monkeypatch.setattr(top, "utc_now", clock)
    settings = Settings(
        broker_url="redis://127.0.0.1:1/0", database_url="sqlite:////x", qdrant_url="http://127.0.0.1:2",
        home=tmp_path, company="acme",
    )  # fmt: skip
    ledger.companies.register("acme")
    return Top(settings, ledger, tmp_path, "acme")


def shown(frame: Frame, *, width: int = 80) -> str:
    file = io.StringIO()
    Console(file=file, width=width, markup=False, highlight=False).print(Group(*drawn(frame)))
    return file.getvalue()


def start(ledger: Ledger, clock: StoppedClock, agent: str, *, ends: WorkState | None = None) -> str:
    made = present(ledger.runs.create(NewRun(company="acme", agent_id=agent, planned_at=clock())))
    held = present(ledger.runs.claim("acme", made.run_id, lease=timedelta(minutes=5)))
    if ends is not None:
        ledger.runs.finish("acme", made.run_id, str(held.token), state=ends, counts={})
    return made.run_id


def test_a_frame_says_what_goes_on_and_what_needs_a_person(watched: Top, ledger: Ledger, clock: StoppedClock) -> None:
    first = start(ledger, clock, "ada")
    clock.advance(timedelta(minutes=4))
    second = start(ledger, clock, "bob")
    start(ledger, clock, "cy", ends=WorkState.HELD)
    start(ledger, clock, "dee", ends=WorkState.DONE)
    ledger.measures.add("acme", MeasureName.MEMORIES_STORED, 1200)
    ledger.measures.note("acme", MeasureName.CANARY_SENT, 0, at=clock())
    ledger.measures.note("acme", MeasureName.CANARY_FOUND, 0.125, at=clock())
    clock.advance(timedelta(seconds=90))
    frame = watched.frame()
    assert [each.run_id for each in frame.runs] == [first, second], "the longest first"
    assert [each.seconds for each in frame.runs] == [330, 90]
    assert [(each.running, each.longest_seconds, each.lapsed_seconds) for each in frame.jobs] == [(2, 330, 30)]
    assert frame.needs_a_person == {"held_runs": 1, "approvals": 0, "dead_letters": 0, "failed_memory_tests": 0}
    assert (frame.away, frame.paused, frame.stored, frame.stored_per_second) == (("broker",), False, 1200, None)
    assert {each.waiting for each in frame.queues} == {None}
    text = shown(frame)
    assert "the broker does not answer" in text
    assert "needs a person: 1 held runs" in text
    assert "canary: well, the newest found is 2 min old, 0.12 s from store to search" in text
    assert "stored: 1,200 memories" in text
    assert "job waits" not in text, "nobody knows"


def test_a_ledger_that_is_away_is_said_and_the_next_frame_has_it_again(
    watched: Top, sqlite_ledger: LedgerUrls, tmp_path: Path
) -> None:
    file = Path(str(make_url(sqlite_ledger.ledger).database))
    kept = file.rename(tmp_path / "aside")
    file.mkdir()
    frame = watched.frame()
    assert (frame.away, frame.paused, frame.runs) == (("ledger", "broker"), None, ())
    text = shown(frame)
    assert "the ledger does not answer" in text
    for unknown in ("needs a person", "canary", "work at hand", "queues"):
        assert unknown not in text
    file.rmdir()
    kept.rename(file)
    assert watched.frame().away == ("broker",)


def test_a_ledger_that_goes_away_amid_a_frame_is_said(
    watched: Top, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_company: str) -> bool:
        raise MemoryConnectionError("the ledger cannot be read")

    monkeypatch.setattr(ledger.companies, "paused", away)
    frame = watched.frame()
    assert (frame.away, frame.paused) == (("broker", "ledger"), None)
    assert frame.needs_a_person == {"held_runs": 0, "approvals": None, "dead_letters": 0, "failed_memory_tests": None}


@pytest.mark.parametrize("width", [40, 80, 200])
def test_names_are_data_and_no_line_is_wider_than_the_terminal(
    watched: Top, ledger: Ledger, clock: StoppedClock, width: int
) -> None:
    start(ledger, clock, HOSTILE)
    text = shown(watched.frame(), width=width)
    assert escaped(text, keep="\n") == text
    assert text.count("needs a person") == 1
    assert "[red]x[/red]" in text
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize(("silent", "said"), [(1.0, "ready"), (FROZEN_SECONDS + 5, "frozen")])
def test_a_process_without_life_is_frozen_and_one_that_is_gone_is_not(
    watched: Top, tmp_path: Path, silent: float, said: str
) -> None:
    ready, alive = Heartbeat.of(tmp_path, "worker-store"), Heartbeat.alive(tmp_path, "worker-store")
    process = psutil.Process()
    alive.name_process(process.pid, process.create_time())
    ready.touch()
    now = alive.path.stat().st_mtime
    os.utime(alive.path, (now - silent, now - silent))
    assert [(each.part, each.state) for each in watched.frame().parts] == [("worker-store", said)]
    alive.path.write_text(f"{process.pid} 1.0", encoding="ascii")
    os.utime(alive.path, (now - silent, now - silent))
    os.utime(ready.path, (now - 60, now - 60))
    (part,) = watched.frame().parts
    assert part.state == "does not answer"
    assert "does not answer" in shown(watched.frame())


def test_a_part_that_does_not_answer_is_not_ready_and_memory_that_nobody_has_measured_is_not_0(
    watched: Top, clock: StoppedClock, tmp_path: Path
) -> None:
    process = psutil.Process()
    pid, born = process.pid, process.create_time()
    parts = tuple(
        ServiceState(name=name, pid=pid, born=born, ready=True, restarts=0, resident_bytes=0)
        for name in ("broker", "store-server")
    )
    state_path(tmp_path).parent.mkdir(exist_ok=True)
    state = StackState(
        supervisor_pid=pid,
        supervisor_born=born,
        started_at=clock(),
        seen_at=clock(),
        peak_resident_bytes=0,
        parts=parts,
    )
    write_state(tmp_path, state)
    assert [(each.part, each.state, each.resident_bytes) for each in watched.frame().parts] == [
        ("broker", "does not answer", None),
        ("store-server", "ready", None),
    ]


@pytest.mark.parametrize(
    "read",
    [
        lambda ledger: ledger.runs.leased("acme", limit=9),
        lambda ledger: ledger.figures.leased(["acme"]),
        lambda ledger: ledger.figures.held(["acme"]),
        lambda ledger: ledger.figures.oldest_due(),
        lambda ledger: ledger.approvals.count_waiting("acme"),
    ],
    ids=["runs", "figures", "held", "due", "approvals"],
)
def test_what_is_read_every_second_looks_at_no_work_that_has_ended(
    ledger: Ledger, sqlite_ledger: LedgerUrls, read: Callable[[Ledger], object]
) -> None:
    asked: list[tuple[str, Any]] = []

    def note(_connection: object, _cursor: object, statement: str, parameters: object, *_: object) -> None:
        asked.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        read(ledger)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    (statement, parameters) = asked[-1]
    engine = create_engine(sqlite_ledger.ledger)
    with engine.connect() as connection:
        plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    engine.dispose()
    assert any(index in plan[0] for index in ("work_items_due", "work_items_held", "approvals_open")), plan


def test_a_rate_is_of_the_last_half_minute_and_none_of_one_look() -> None:
    at = 0.0
    rates = Rates(lambda: at)
    assert rates.of({"stored": 100}) == {}
    for at in (2.0, 4.0):
        assert rates.of({"stored": 100 + 5 * at, "new": 1}) == {"stored": 5.0}
    at = 60.0
    rates.of({"stored": 120})
    at = 64.0
    assert rates.of({"stored": 112, "new": 1}) == {"stored": -2.0}


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (59, "59 s"), (90, "2 min"), (7200, "2 h"), (timedelta(days=3), "3 d")]
)
def test_a_length_of_time_is_said_in_its_largest_unit(seconds: float | timedelta, said: str) -> None:
    assert span(seconds) == said
