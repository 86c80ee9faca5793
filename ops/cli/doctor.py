"""``memtend doctor``: one look at every part and every promise, and what to do about what is wrong."""

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import typer

from memcore.config.home_folder import home_folder
from memcore.config.settings import Settings
from memcore.errors import MemoryConfigError, MemoryError  # noqa: A004  # the reference fixes the name
from memcore.ledger.run import RunState
from ops.cli.console import AsJson, say, show_rows
from ops.cli.finding import Finding
from ops.cli.finetune_look import finetune, stage_containers
from ops.cli.model_looks import language_model, model_budget
from ops.cli.reindex_look import embedder, reindex
from ops.cli.session import HomeOption, backend_of, ledger_of, policy_of, settings_of
from ops.cli.skill_cycles import skill_evolver
from workers.app import all_jobs, create_app
from workers.broker import waiting
from workers.groups import GROUPS
from workers.stack.state import read_state

#: How long workers may take to answer a ping, in seconds.
_PING_SECONDS = 2.0

#: An agent this much later than its time, beyond some ticks, means that nobody schedules or nobody works.
_LATE = timedelta(minutes=5)

#: Ticks that may be missed before it says something: one may have been waiting behind a long night.
_MISSED_TICKS = 3

#: How old the last tick may be at least, however short the interval: a stack that starts needs some of it.
_NO_TICK = timedelta(minutes=1)

#: How old the supervisor's last word may be while it lives.
_SILENT = timedelta(seconds=30)


def doctor(home: HomeOption = None, as_json: AsJson = False) -> None:
    """Check every part; exit 1 when something is wrong, each finding with what to do."""
    settings = settings_of(home)
    findings = [finding for look in _LOOKS for finding in _safely(look, settings)]
    show_rows(map(asdict, findings), columns=("check", "ok", "seen", "mend"), as_json=as_json)
    if not all(finding.ok for finding in findings):
        if not as_json:
            say("\nsomething is wrong: see the column mend")
        raise typer.Exit(1)


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command("doctor")(doctor)


def _safely(look: Callable[[Settings], Iterator[Finding]], settings: Settings) -> list[Finding]:
    try:
        return list(look(settings))
    except (MemoryError, OSError) as error:
        name = look.__name__.removeprefix("_").replace("_", " ")
        is_written = isinstance(error, MemoryConfigError)
        mend = "change policy.yaml or the settings" if is_written else "is it running? see `memtend status`"
        return [Finding(check=name, ok=False, seen=str(error), mend=mend)]


def _supervisor(settings: Settings) -> Iterator[Finding]:
    state = read_state(home_folder(os.environ, settings.home))
    if state is None:
        return  # a distributed installation has none
    silent = datetime.now(UTC) - state.seen_at
    yield Finding(
        check="supervisor",
        ok=state.is_alive and silent < _SILENT,
        seen=f"last word {silent.total_seconds():.0f} s ago",
        mend="start the stack with `memtend up`",
    )
    for part in state.parts:
        yield Finding(
            check=f"part {part.name}",
            ok=part.ready,
            seen=f"{'ready' if part.ready else 'not ready'}, {part.restarts} restarts",
            mend=f"read logs/{part.name}.log in {settings.home}",
        )


def _broker(settings: Settings) -> Iterator[Finding]:
    for queue, count in waiting(settings).items():
        yield Finding(
            check=f"queue {queue}",
            ok=count is not None,
            seen="unknown" if count is None else f"{count} waiting",
            mend="the broker does not answer",
        )


def _workers(settings: Settings) -> Iterator[Finding]:
    app = create_app(settings)
    answers = app.control.ping(timeout=_PING_SECONDS)
    present = {name.partition("@")[0] for answer in answers for name in answer}
    for name, group in GROUPS.items():
        if group.on_demand and name not in present:
            continue  # `memtend finetune status` says when a run waits for it
        yield Finding(
            check=f"worker {name}",
            ok=name in present,
            seen="answers" if name in present else "does not answer",
            mend=f"start it: `memtend worker --group {name}`, or see its log",
        )
    app.close()


def _store(settings: Settings) -> Iterator[Finding]:
    with backend_of(settings) as (backend, runner):
        healthy = runner.run(backend.health_check())
    yield Finding(check="store", ok=healthy, seen="answers" if healthy else "does not answer", mend="see its log")


def _ledger(settings: Settings) -> Iterator[Finding]:
    with ledger_of(settings) as ledger:
        paused = ledger.switches.paused(settings.company)
        interval = policy_of(settings).memory.consolidation.interval
        late = ledger.agents.late(settings.company, interval=interval, before=datetime.now(UTC) - _LATE)
        held = ledger.runs.list(settings.company, state=RunState.HELD, limit=100)
        dead = ledger.dead_letters.count(settings.company)
    yield Finding(
        check="kill switch", ok=not paused, seen="paused" if paused else "maintenance on", mend="`memtend resume`"
    )
    yield Finding(
        check="schedule",
        ok=not late,
        seen=f"{late} agents late" if late else "nobody late",
        mend="is beat running, and a worker for memory.control?",
    )
    yield Finding(
        check="held runs",
        ok=not held,
        seen=f"{len(held)} held by the brake" if held else "none",
        mend="`memtend runs list`, then `memtend runs release RUN` or change the policy",
    )
    yield Finding(
        check="dead letters",
        ok=not dead,
        seen=f"{dead} jobs were given up" if dead else "none",
        mend="`memtend dead list` says why; `memtend dead replay` once the cause is gone, or `memtend dead purge`",
    )


def _scheduler(settings: Settings) -> Iterator[Finding]:
    now = datetime.now(UTC)
    with ledger_of(settings) as ledger:
        tick = ledger.ticks.last(settings.company)
        known = ledger.agents.list(settings.company, limit=1)
    # An installation without a tick is new for as long as its agents are.
    since = tick.ended_at if tick else min((agent.registered_at for agent in known), default=now)
    allowed = max(_NO_TICK, _MISSED_TICKS * timedelta(seconds=settings.tick_seconds))
    yield Finding(
        check="last tick",
        ok=now - since <= allowed,
        seen=f"{(now - since).total_seconds():.0f} s ago, {tick.sent} sent" if tick else "none yet",
        mend="is beat running, and a worker for memory.control?",
    )


def _policy(settings: Settings) -> Iterator[Finding]:
    warnings = policy_of(settings).warnings
    yield Finding(check="policy", ok=True, seen="valid" + "".join(f"; {warning}" for warning in warnings))


def _limits(_settings: Settings) -> Iterator[Finding]:
    takers = {queue: group for group in GROUPS.values() for queue in group.queues}
    for job in all_jobs():
        group = takers[job.queue]
        ok = job.limits.soft < job.limits.hard < group.visibility
        yield Finding(
            check=f"limits {job.name}",
            ok=ok,
            seen=f"soft {job.limits.soft} < hard {job.limits.hard} < visibility {group.visibility}",
            mend="a defect: please report it",
        )


_LOOKS = (
    _supervisor,
    _broker,
    _workers,
    _store,
    embedder,
    reindex,
    finetune,
    stage_containers,
    language_model,
    model_budget,
    _ledger,
    _scheduler,
    skill_evolver,
    _policy,
    _limits,
)
