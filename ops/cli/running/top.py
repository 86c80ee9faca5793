"""``memtend top``: queues, workers, the work at hand, the canary and what needs a person, drawn again and again."""

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memcore.canary import is_well
from memcore.clock import span, utc_now
from memcore.config import home_folder
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.deadline.limits import limited_parts
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.jobs import Queue
from memcore.ledger.companies import CompanyPolicies
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import Run
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime
from ops.cli.console import cell, draw, plain, screen, show_json, waiting_for_key
from ops.cli.session import Commands, CompanyCommand
from ops.metrics import families
from ops.metrics.collector import Collector
from ops.metrics.exposition import Family, Samples
from ops.metrics.latency import ServeTimes
from workers.groups import GROUPS
from workers.health import STALE_SECONDS, Heartbeat, frozen_seconds
from workers.stack.home import ServiceState, StackState, read_state, same_process

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

app = Commands()

#: Runs of a frame, those that have taken longest.
MOST_RUNS = 20

#: What a rate is taken over, in seconds: workers add what they stored to the ledger every five.
RATE_SECONDS = 30.0

#: Widest first column of a table: with the others, a frame fits into 80 columns.
_NAME_WIDTH = 28

#: States of parts that are no fault.
_WELL = {"ready", "starting", "asleep"}

#: Seconds between two frames.
INTERVAL = 2.0


class QueueFigures(Frozen):
    """A queue; ``waiting`` is None where the broker does not answer, ``per_second`` says how that grows."""

    queue: str
    waiting: int | None
    oldest_seconds: float
    per_second: float | None


class PartFigures(Frozen):
    """A part of the stack, or a group of workers elsewhere, of which so many answer."""

    part: str
    state: str
    heartbeat_seconds: float | None
    answering: int | None
    restarts: int | None
    resident_bytes: int | None


class JobFigures(Frozen):
    """What workers hold of a kind of work; a lease that has lapsed is that of a worker that hangs or died."""

    job: str
    running: int
    longest_seconds: float | None
    lapsed_seconds: float


class RunFigures(Frozen):
    """A run that a worker carries out."""

    run_id: str
    agent_id: str
    kind: str
    step: str
    started_at: BoundedTime | None
    seconds: float | None


class CanaryFigures(Frozen):
    """The newest memory that is found, and how long it took or takes from store to search."""

    state: str
    age_seconds: float
    delay_seconds: float


class Frame(Frozen):
    """One look at an installation and a company; what a part that is ``away`` would say is None or missing."""

    at: BoundedTime
    company: str
    up_since: BoundedTime | None
    away: tuple[str, ...]
    paused: bool | None
    needs_a_person: dict[str, int | None]
    canary: CanaryFigures | None
    stored: int | None
    stored_per_second: float | None
    parts: tuple[PartFigures, ...]
    queues: tuple[QueueFigures, ...]
    jobs: tuple[JobFigures, ...]
    runs: tuple[RunFigures, ...]


class Rates:
    """How counts change in a second, over the last half minute."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._looks: deque[tuple[float, Mapping[str, float]]] = deque()

    def of(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Return the rate of each count that was there before, too."""
        now, looks = self._monotonic(), self._looks
        looks.append((now, counts))
        while now - looks[0][0] > RATE_SECONDS and len(looks) > 2:  # noqa: PLR2004  # a rate is of two looks
            looks.popleft()
        then, before = looks[0]
        return {name: (counts[name] - before[name]) / (now - then) for name in counts.keys() & before if now > then}


class Top:
    """Takes frames of one installation and one company."""

    def __init__(self, settings: Settings, ledger: Ledger, home: Path, company: str) -> None:
        self._ledger, self._home, self._company = ledger, home, company
        # No figure of a frame depends on a policy, and a broken file must not keep anybody from looking.
        policies = CompanyPolicies(settings, Policy())
        self._collector = Collector(settings, policies, ledger, ServeTimes(), clock=utc_now)
        self._rates = Rates()

    def frame(self) -> Frame:
        """Read everything once."""
        samples, company, now = self._collector.gather_present(self._company), self._company, utc_now()
        away = [part for part in ("ledger", "broker") if not samples.value(families.PART_UP, part=part)]
        runs, paused, approvals, failed = tuple[Run, ...](), None, None, None
        if "ledger" not in away:
            try:
                with limited_parts():
                    paused = self._ledger.companies.paused(company)
                    runs = self._ledger.runs.leased(company, limit=MOST_RUNS)
                    approvals = self._ledger.approvals.count_waiting(company)
                    failed = len(self._ledger.memory_tests.failed_of(company))
            except MemoryError:
                away.append("ledger")
        stored = _figure(samples, families.STORED, company=company)
        waiting = {each["queue"]: count for each, count in samples.labelled(families.QUEUE_JOBS)}
        rates = self._rates.of(waiting if stored is None else {**waiting, "stored": stored})
        found = read_state(self._home)
        state = found if found is not None and found.is_alive else None
        held, dead = (_figure(samples, each, company=company) for each in (families.HELD, families.DEAD))
        needs = {"held_runs": held, "approvals": approvals, "dead_letters": dead, "failed_memory_tests": failed}
        return Frame(
            at=now,
            company=company,
            up_since=None if state is None else state.started_at,
            away=tuple(away),
            paused=paused,
            needs_a_person={name: None if count is None else int(count) for name, count in needs.items()},
            canary=_canary(samples, company),
            stored=None if stored is None else int(stored),
            stored_per_second=rates.get("stored"),
            parts=tuple(_parts(self._home, samples, state)),
            queues=tuple(
                QueueFigures(
                    queue=queue,
                    waiting=int(waiting[queue]) if queue in waiting else None,
                    oldest_seconds=samples.value(families.QUEUE_OLDEST, queue=queue),
                    per_second=rates.get(queue),
                )
                for queue in map(str, Queue)
            ),
            jobs=tuple(_jobs(samples)),
            runs=tuple(
                RunFigures(
                    run_id=run.run_id,
                    agent_id=run.agent_id,
                    kind=run.kind,
                    step=run.step,
                    started_at=run.started_at,
                    seconds=None if run.started_at is None else max(0.0, (now - run.started_at).total_seconds()),
                )
                for run in runs
            ),
        )


@app.command("top")
def top(
    command: CompanyCommand,
    interval: Annotated[float, typer.Option(min=0.5, max=3_600, help="Seconds between two looks.")] = INTERVAL,
    once: Annotated[bool, typer.Option("--once", help="Print one look and end.")] = False,
) -> None:
    """Watch queues, workers, runs, the canary and what needs a person; q or Ctrl-C ends it.

    With --json, and where the output is no terminal, it prints one look and ends.
    """
    with command.ledger() as ledger:
        looks = Top(command.settings, ledger, home_folder(os.environ, command.home), command.company)
        if command.as_json:
            show_json(looks.frame())
        elif once or not sys.stdout.isatty():
            draw(*drawn(looks.frame()))
        else:
            with suppress(KeyboardInterrupt), waiting_for_key("q") as is_ended, screen() as show:
                show(plain("reading ..."))
                while True:
                    show(plain("q ends it", "dim"), *drawn(looks.frame()))
                    if is_ended(interval):
                        return


def _figure(samples: Samples, family: Family, **labels: str) -> float | None:
    return samples.value(family, **labels) if samples.is_set(family, **labels) else None


def _canary(samples: Samples, company: str) -> CanaryFigures | None:
    age, delay = (_figure(samples, each, company=company) for each in (families.CANARY_AGE, families.FINDABLE))
    if age is None or delay is None:
        return None
    state = "well" if is_well(age_seconds=age, delay_seconds=delay) else "late"
    return CanaryFigures(state=state, age_seconds=age, delay_seconds=delay)


def _jobs(samples: Samples) -> Iterator[JobFigures]:
    for about, count in samples.labelled(families.RUNNING):
        yield JobFigures(
            job=about["job"],
            running=int(count),
            longest_seconds=_figure(samples, families.RUNNING_FOR, **about),
            lapsed_seconds=samples.value(families.LAPSED, **about),
        )


def _parts(home: Path, samples: Samples, state: StackState | None) -> Iterator[PartFigures]:
    """Yield the parts of the stack that runs here, and workers and beat that are known by answers or heartbeats."""
    of = {} if state is None else {part.name: part for part in state.parts}
    asleep = () if state is None else state.asleep
    groups = {f"worker-{name}": _figure(samples, families.WORKERS, group=name) for name in GROUPS}
    beats = {about["part"]: age for about, age in samples.labelled(families.HEARTBEAT)}
    silent = {about["part"] for about, is_up in samples.labelled(families.PART_UP) if not is_up}
    known = [*of, *asleep, *beats, *(name for name, count in groups.items() if count is not None)]
    for name in dict.fromkeys(known):
        part, answering, age = of.get(name), groups.get(name), beats.get(name)
        state_of = "asleep" if name in asleep else _state_of(home, name, part, answering, age)
        yield PartFigures(
            part=name,
            state="does not answer" if state_of == "ready" and name in silent else state_of,
            heartbeat_seconds=age,
            answering=None if answering is None else int(answering),
            restarts=None if part is None else part.restarts,
            # The supervisor measures now and then: 0 is that of a part that began since.
            resident_bytes=None if part is None else part.resident_bytes or None,
        )


def _state_of(home: Path, name: str, part: ServiceState | None, answering: float | None, age: float | None) -> str:
    if part is not None and (part.starting or part.pid is None):
        return "starting" if part.starting else "down"
    if _is_frozen(home, name):
        return "frozen"
    if part is not None:
        return "ready" if part.ready else "not ready"
    return "ready" if answering or (age is not None and age < STALE_SECONDS) else "does not answer"


def _is_frozen(home: Path, name: str) -> bool:
    ready, alive = Heartbeat.of(home, name), Heartbeat.alive(home, name)
    age, named = alive.age_seconds(), alive.named_process()
    return age is not None and age > frozen_seconds(ready, alive) and named is not None and same_process(*named)


def drawn(frame: Frame) -> "Iterator[Text | Table]":
    """Yield what a terminal shows of a frame, most urgent first: a low one cuts the end."""
    yield from _lines(frame)
    for table in _tables(frame):
        if table.row_count:
            yield plain("")
            yield table


def _lines(frame: Frame) -> "Iterator[Text]":
    up = "no supervisor here" if frame.up_since is None else f"up {span(frame.at - frame.up_since)}"
    paused = {True: "maintenance PAUSED", False: "maintenance on", None: "maintenance unknown"}[frame.paused]
    yield plain(cell(f"memtend {frame.company}  {frame.at:%Y-%m-%d %H:%M:%S} UTC  {up}  {paused}"), "bold")
    for part in frame.away:
        yield plain(f"the {part} does not answer; `memtend doctor` says why", "bold red")
    if "ledger" not in frame.away:
        waits = [f"{count} {name.replace('_', ' ')}" for name, count in frame.needs_a_person.items() if count]
        yield plain(f"needs a person: {', '.join(waits) or 'nothing'}", "yellow" if waits else "")
        canary, seen = frame.canary, "none sent yet"
        if canary is not None:
            took = f"{canary.delay_seconds:.2f} s from store to search"
            seen = f"{canary.state}, the newest found is {span(canary.age_seconds)} old, {took}"
        yield plain(f"canary: {seen}", "red" if canary is not None and canary.state != "well" else "")
    if frame.stored is not None:
        yield plain(f"stored: {frame.stored:,} memories, {_rate(frame.stored_per_second)} a second")
    if "broker" not in frame.away and not any(each.waiting for each in frame.queues):
        yield plain("queues: no job waits")
    if "ledger" not in frame.away and not frame.jobs:
        yield plain("work at hand: none")


def _tables(frame: Frame) -> "Iterator[Table]":
    parts = _table("part", "state", "heartbeat", "answering", "restarts", "MiB")
    for part in frame.parts:
        mib = None if part.resident_bytes is None else part.resident_bytes // 2**20
        ago = None if part.heartbeat_seconds is None else f"{span(part.heartbeat_seconds)} ago"
        style = "" if part.state in _WELL else "red"
        _add(parts, part.part, part.state, ago, part.answering, part.restarts, mib, style=style)
    yield parts
    queues = _table("queue", "waiting", "oldest", "change/s")
    for queue in frame.queues:
        if queue.waiting or queue.oldest_seconds:
            _add(queues, queue.queue, queue.waiting, span(queue.oldest_seconds), _rate(queue.per_second))
    yield queues
    jobs = _table("job", "running", "longest", "lease lapsed")
    for job in frame.jobs:
        lapsed, style = job.lapsed_seconds or None, "red" if job.lapsed_seconds else ""
        _add(jobs, job.job, job.running, _length(job.longest_seconds), _length(lapsed), style=style)
    yield jobs
    runs = _table("agent", "run", "step", "since", "for")
    for run in frame.runs:
        since = None if run.started_at is None else f"{run.started_at:%H:%M:%S}"
        _add(runs, run.agent_id, run.kind, run.step, since, _length(run.seconds))
    yield runs


def _table(*columns: str) -> "Table":
    from rich.table import Table  # noqa: PLC0415  # `memtend top --json` draws nothing

    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        table.add_column(column, no_wrap=True, overflow="ellipsis", max_width=None if place else _NAME_WIDTH)
    return table


def _add(table: "Table", *values: object, style: str = "") -> None:
    table.add_row(*(plain(cell(value), style) for value in values))


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _length(seconds: float | None) -> str | None:
    return None if seconds is None else span(seconds)
