"""``memtend doctor``: checks every part, and says what to do about what is wrong."""

import os
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import typer

from memcore.config import home_folder
from memcore.config.settings import NothingRunsError, Settings
from memcore.errors import MemoryConfigError
from memcore.jobs import (
    DeliverPayload,
    EndSessionPayload,
    ExtractPayload,
    FineTunePayload,
    LessonPayload,
    ReindexPayload,
    SynthesisPayload,
)
from memcore.ledger.agents import LATE
from memcore.ledger.companies import CompanyPolicies, CompanyState
from memcore.ledger.dead_letters import UNREADABLE
from ops.cli.console import CheckResult, Group, HealthCheck, say, show_json, take_all
from ops.cli.memory.skills import skill_evolver
from ops.cli.running import health_checks as checks
from ops.cli.session import Commands, JsonCommand, ledger_of, policy_of
from workers.groups import GROUPS
from workers.stack.home import read_state

#: Columns of a terminal (no line is longer), and how many of them are for what was seen of a well group.
_COLUMNS = 80
_SUMMARY = _COLUMNS - 20

#: Ticks that may be missed (one may have waited behind a long run), and the age that the last one may have at least,
#: however short the interval: a stack that starts needs some of it.
_MISSED_TICKS = 3
_NO_TICK = timedelta(minutes=1)

#: How old the supervisor's last state may be while it runs.
_SILENT = timedelta(seconds=30)

#: Free space on the data folder's disk below which something will soon fail, in bytes (256 MiB).
_LEAST_FREE_BYTES = 268_435_456

#: Runs of a company that are counted; a larger number says no more.
_COUNTED = 100

#: Kinds of work that have a check of their own, and those that wait where no model is connected.
_HAS_A_CHECK = (FineTunePayload.task, ReindexPayload.task, DeliverPayload.task)
_ASK_A_MODEL = (LessonPayload.task, SynthesisPayload.task, ExtractPayload.task, EndSessionPayload.task)

#: Seconds that an import may take on a busy machine; it is no sign of a part that hangs.
_IMPORT_SECONDS = 300.0

#: Companies that are named; more are counted.
_NAMED = 5


app = Commands()


@app.command("doctor")
def doctor(command: JsonCommand) -> None:
    """Check every part; exit 1 when something is wrong, and say what to do about it."""
    try:
        findings = take_all(CHECKS, command.settings)
        findings += take_all((LIMITS,), command.settings, limit_seconds=_IMPORT_SECONDS)
    except NothingRunsError as error:
        findings = list(_of_stopped(home_folder(os.environ, command.home), error))
    if command.as_json:
        # What is well needs no advice.
        show_json([asdict(each) | ({"mend": ""} if each.ok else {}) for each in findings])
    else:
        for line in _report_lines(findings):
            say(line)
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def _report_lines(findings: list[CheckResult]) -> Iterator[str]:
    """Say each group in one line if it is well, else each of its wrong findings, and what to do."""
    for group in get_args(Group):
        found = [each for each in findings if each.group == group]
        wrong = [each for each in found if not each.ok]
        if not found:
            continue
        if not wrong:
            yield f"{group:<12} ok     {_summary(found)}"
            continue
        yield f"{group:<12} WRONG  {len(wrong)} of {len(found)} checks"
        for each in wrong:
            yield from textwrap.wrap(
                f"{each.check}: {each.seen}", _COLUMNS, initial_indent="  - ", subsequent_indent="    "
            )
            if each.mend:
                yield from textwrap.wrap(
                    f"-> {each.mend}", _COLUMNS, initial_indent="    ", subsequent_indent="       ",
                    break_on_hyphens=False,
                )  # fmt: skip
    wrong_count = sum(not each.ok for each in findings)
    yield f"\n{wrong_count} of {len(findings)} checks are wrong" if wrong_count else "\nall is well"


def _summary(found: list[CheckResult]) -> str:
    """Return what was seen if it is one thing, or short; else how many checks there are. `--json` has them all."""
    if len({each.seen for each in found}) == 1:
        summary = (f"all {len(found)}: " if len(found) > 1 else "") + found[0].seen
    else:
        summary = "; ".join(f"{each.check}: {each.seen}" for each in found)
    return summary if len(summary) <= _SUMMARY else f"all {len(found)} checks"


def _of_stopped(home: Path, error: NothingRunsError) -> Iterator[CheckResult]:
    """Say what can be seen of a stack that does not run, and what could be looked at if it did."""
    seen, _, repair = str(error).partition(": ")
    parts = dict.fromkeys(each.group for each in CHECKS if each.group not in {"parts", "files", "limits", "advice"})
    repair = f"{repair}; {', '.join(parts)} are looked at then"
    yield CheckResult(check="stack", ok=False, seen=seen, mend=repair, group="parts")
    if home.is_dir():
        yield from (replace(each, group="files") for each in _folder(home))


def _supervisor(settings: Settings) -> Iterator[CheckResult]:
    state = read_state(home_folder(os.environ, settings.home))
    if state is None:
        return  # a distributed installation has none
    silent = datetime.now(UTC) - state.seen_at
    yield CheckResult(
        check="supervisor",
        ok=state.is_alive and silent < _SILENT,
        seen=f"last word {silent.total_seconds():.0f} s ago",
        mend="start the stack with `memtend up`",
    )
    for part in state.parts:
        yield CheckResult(
            check=f"part {part.name}",
            ok=part.ready or (part.starting and not part.restarts),
            seen=f"{'ready' if part.ready else 'starting' if part.starting else 'not ready'}, {part.restarts} restarts",
            mend=f"read logs/{part.name}.log in {settings.home}",
        )
    for name in state.asleep:
        yield CheckResult(check=f"part {name}", ok=True, seen="asleep: no model is set, and no job needs it")


def _data_folder(settings: Settings) -> Iterator[CheckResult]:
    if settings.home.is_dir():
        yield from _folder(settings.home)
    else:
        # Needed by the embedded stack and by workers; an operator's machine may have none.
        seen = f"{settings.home} is not on this machine, and those of the workers are not seen from here"
        yield CheckResult(check="data folder", ok=True, seen=seen)


def _folder(home: Path) -> Iterator[CheckResult]:
    yield CheckResult(
        check="data folder",
        ok=os.access(home, os.W_OK | os.X_OK),
        seen=f"{home} can be written" if os.access(home, os.W_OK) else f"{home} cannot be written",
        mend="give it back to the user who runs memtend",
    )
    free = shutil.disk_usage(home).free
    yield CheckResult(
        check="disk",
        ok=free >= _LEAST_FREE_BYTES,
        seen=f"{free / 2**30:.1f} GiB free",
        mend="make room outside of the data folder: see docs/how-to/operate.md#the-disk-is-full",
    )


def _policy(settings: Settings) -> Iterator[CheckResult]:
    warnings = policy_of(settings).warnings
    yield CheckResult(check="policy", ok=True, seen="valid" + "".join(f"; {warning}" for warning in warnings))


def _maintenance(settings: Settings) -> Iterator[CheckResult]:
    with ledger_of(settings) as ledger:
        paused = ledger.companies.paused(settings.company)
        default = policy_of(settings).memory.consolidation.interval
        late = Counter(ledger.agents.late(default=default, before=datetime.now(UTC) - LATE))
    yield CheckResult(
        check="kill switch", ok=not paused, seen="paused" if paused else "maintenance on", mend="`memtend resume`"
    )
    yield CheckResult(
        check="schedule",
        ok=not late,
        seen=f"{late.total()} agents late{_whose(late, settings)}" if late else "nobody late",
        mend="is beat running, and a worker for memory.control?",
    )


def _companies(settings: Settings) -> Iterator[CheckResult]:
    policies, wrong = CompanyPolicies(settings, policy_of(settings)), list[str]()
    with ledger_of(settings) as ledger:
        known = [each for each in ledger.companies.all() if each.state is not CompanyState.REMOVED]
    for company in known:
        try:
            policies.of(company)
        except MemoryConfigError as error:
            wrong.append(str(error))
    paused = sum(each.state is CompanyState.PAUSED for each in known)
    yield CheckResult(
        check="companies",
        ok=not wrong,
        seen=wrong[0] if wrong else f"{len(known)} served, {paused} paused",
        mend="correct its policy: no maintenance of it is planned until then; see `memtend companies list`",
    )


def _runs(settings: Settings) -> Iterator[CheckResult]:
    now = datetime.now(UTC)
    with ledger_of(settings) as ledger:
        work = ledger.work.counts(without=_HAS_A_CHECK if settings.llm_url else (*_HAS_A_CHECK, *_ASK_A_MODEL))
        dead, unreadable = (Counter(ledger.dead_letters.counts(job=job)) for job in (None, UNREADABLE))
        for company in ledger.companies.all():
            name, state = company.company, company.state
            # Somebody decided that another company's work waits; that the own company's does is a finding.
            if state is not CompanyState.ACTIVE and name != settings.company:
                work.pop(name, None)
            if state is CompanyState.REMOVED:
                del dead[name], unreadable[name]
        failed = [run for name in work if work[name].failed for run in ledger.runs.failed(name, limit=_COUNTED)]
        asleep = [run for name in work if work[name].waiting for run in ledger.runs.asleep(name, limit=_COUNTED)]
    held = Counter({name: counts.held for name, counts in work.items() if counts.held})
    stuck = Counter({name: counts.stuck for name, counts in work.items() if counts.stuck})
    yield CheckResult(
        check="stuck work",
        ok=not stuck,
        seen=f"{stuck.total()} items that no worker takes{_whose(stuck, settings)}" if stuck else "none",
        mend="is beat running, and a worker for every queue? `memtend status` shows what waits",
    )
    yield CheckResult(
        check="held runs",
        ok=not held,
        seen=f"{held.total()} wait for a person to decide{_whose(held, settings)}" if held else "none",
        mend="`memtend runs list --state held`, then `memtend runs release RUN`, `memtend runs dismiss RUN`, or change"
        " the policy; `memtend runs diff RUN` shows what one proposes, `memtend runs adopt RUN` takes it"
        + _of_another(held, settings),
    )
    whose = Counter(run.company for run in failed)
    yield CheckResult(
        check="failed runs",
        ok=not failed,
        seen=f"{len(failed)} agents whose last run failed{_whose(whose, settings)}: {failed[0].reason}"
        if failed
        else "none",
        mend="`memtend runs list` names them; once the cause is gone, `memtend maintain AGENT`"
        + _of_another(whose, settings),
    )
    overdue = [run for run in asleep if now - run.created_at > checks.MODEL_SILENCE]
    whose = Counter(run.company for run in asleep)
    yield CheckResult(
        check="waiting runs",
        ok=not overdue,
        # The newest is first.
        seen=f"{len(asleep)} wait{_whose(whose, settings)}, since {asleep[-1].created_at:%Y-%m-%d %H:%M} UTC: "
        f"{(overdue or asleep)[0].reason}"
        if asleep
        else "none",
        mend="is the language model connected and paid for? see `memtend usage`; they go on by themselves",
    )
    reported = f"{dead.total() - unreadable.total()} jobs were given up{_whose(dead, settings)}"
    yield CheckResult(
        check="dead letters",
        ok=not dead,
        seen=f"{reported}, {unreadable.total()} messages could not be read"
        if unreadable
        else reported
        if dead
        else "none",
        mend="`memtend dead list` says why; `memtend dead replay` once the cause is gone, or `memtend dead purge`"
        + _of_another(dead, settings),
    )


def _whose(counts: Mapping[str, int], settings: Settings) -> str:
    """Name the companies with most of it, unless all of it is the installation's own."""
    if not counts.keys() - {settings.company}:
        return ""
    most = sorted(counts, key=lambda company: (-counts[company], company))
    more = f" and {len(most) - _NAMED} more" if len(most) > _NAMED else ""
    return f" ({', '.join(f'{company}: {counts[company]}' for company in most[:_NAMED])}{more})"


def _of_another(counts: Mapping[str, int], settings: Settings) -> str:
    return "; MEMTEND_COMPANY=NAME names another company" if counts.keys() - {settings.company} else ""


def _scheduler(settings: Settings) -> Iterator[CheckResult]:
    now = datetime.now(UTC)
    with ledger_of(settings) as ledger:
        tick = ledger.ticks.last(settings.company)
        known = ledger.agents.list(settings.company, limit=1)
        is_doubted = ledger.ticks.doubted()
    # An installation without a tick is new for as long as its agents are.
    since = tick.ended_at if tick else min((agent.registered_at for agent in known), default=now)
    allowed = max(_NO_TICK, _MISSED_TICKS * timedelta(seconds=settings.tick_seconds))
    yield CheckResult(
        check="last tick",
        ok=now - since <= allowed,
        seen=f"{(now - since).total_seconds():.0f} s ago, {tick.sent} sent" if tick else "none yet",
        mend="is beat running, and a worker for memory.control?",
    )
    yield CheckResult(
        check="clock",
        ok=not is_doubted,
        seen=f"jumped from {tick.jumped_from or tick.ended_at:%Y-%m-%d %H:%M} to {tick.jumped_at or now:%Y-%m-%d %H:%M}"
        if tick and is_doubted
        else "no jump",
        mend="correct it and dismiss the held runs; or, where it is right, `memtend runs release --all`",
    )


def _limits(_settings: Settings) -> Iterator[CheckResult]:
    # Imported here, in a thread: jobs bring most of memcore with them.
    from tasks.job import all_jobs  # noqa: PLC0415  # see above

    takers = {queue: group for group in GROUPS.values() for queue in group.queues}
    for job in all_jobs():
        group = takers[job.queue]
        ok = job.limits.soft < job.limits.hard < group.visibility
        yield CheckResult(
            check=f"limits {job.name}",
            ok=ok,
            seen=f"soft {job.limits.soft} < hard {job.limits.hard} < visibility {group.visibility}",
            mend="a defect of memtend: please report it",
        )


#: Whether each job's limits are in order; it asks nobody, and imports most of memcore.
LIMITS = HealthCheck(name="limits", group="limits", take=_limits)

#: Every check that asks a part, in the order of their findings.
CHECKS = (
    HealthCheck(name="supervisor", group="parts", take=_supervisor),
    HealthCheck(name="data folder", group="files", take=_data_folder),
    HealthCheck(name="policy", group="files", take=_policy),
    HealthCheck(name="broker", group="broker", take=checks.broker),
    HealthCheck(name="workers", group="workers", take=checks.workers, needs=("broker",)),
    HealthCheck(name="store", group="store", take=checks.store, needs=("policy",)),
    HealthCheck(name="collections", group="store", take=checks.collections, needs=("policy", "store")),
    HealthCheck(name="ledger", group="ledger", take=checks.databases),
    HealthCheck(name="canary", group="store", take=checks.canary, needs=("ledger",)),
    HealthCheck(name="maintenance", group="maintenance", take=_maintenance, needs=("ledger", "policy")),
    HealthCheck(name="companies", group="maintenance", take=_companies, needs=("ledger", "policy")),
    HealthCheck(name="runs", group="maintenance", take=_runs, needs=("ledger",)),
    HealthCheck(name="webhooks", group="maintenance", take=checks.webhooks, needs=("ledger",)),
    HealthCheck(name="erasures", group="maintenance", take=checks.erasures, needs=("ledger",)),
    HealthCheck(name="last tick", group="maintenance", take=_scheduler, needs=("ledger",)),
    HealthCheck(name="skill evolver", group="maintenance", take=skill_evolver, needs=("ledger", "policy")),
    HealthCheck(name="fine-tune", group="maintenance", take=checks.finetune, needs=("ledger",)),
    HealthCheck(name="stage containers", group="maintenance", take=checks.stage_containers, needs=("policy",)),
    HealthCheck(name="embedder", group="models", take=checks.embedder, needs=("ledger", "policy")),
    HealthCheck(name="reindex", group="models", take=checks.reindex, needs=("ledger",)),
    HealthCheck(name="language model", group="models", take=checks.language_model, needs=("ledger", "policy")),
    HealthCheck(name="model answers", group="models", take=checks.model_answers, needs=("ledger",)),
    HealthCheck(name="model budget", group="models", take=checks.model_budget, needs=("ledger", "policy")),
    HealthCheck(name="summaries", group="advice", take=checks.what_a_model_adds, needs=("policy",)),
)
