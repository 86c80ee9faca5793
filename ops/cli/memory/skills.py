"""``memtend skills``: skills learned from the agents' tasks, and the evolver that finds them."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from memcore.config.settings import Settings
from memcore.errors import MemoryNotFoundError
from memcore.ledger.agents import LENGTHS
from memcore.ledger.learning.skill_cycles import MAX_PAGE, Cycle
from ops.cli.console import AsJson, CheckResult, say, show_facts, show_json, show_rows, warn
from ops.cli.memory.skill_views import list_skills, show_skill
from ops.cli.session import HomeOption, await_run, client_of, ledger_of, policy_of, settings_of

#: What a row of the table has; `--json` has all of a report.
_COLUMNS = (
    "planned_at", "origin", "finished_at", "window_start", "window_end",
    "executions", "patterns", "proposals", "conflicts",
)  # fmt: skip

#: Intervals that may pass without a cycle before the doctor says something.
_MISSED = 2


def evolve(
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the cycle has ended.")] = True,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Run the skill evolver now; its proposals wait for a person: see `memtend approvals list`."""
    settings = settings_of(home)
    wait = not _is_held_up(settings) and wait
    with client_of(home) as client:
        cycle_id = client.evolve_now().job_id
        if wait:
            await_run(client, cycle_id)
    if not wait:
        show_facts({"cycle_id": cycle_id}, as_json=as_json)
        return
    with ledger_of(settings) as ledger:
        cycle = ledger.skill_cycles.get(settings.company, cycle_id)
    if cycle is None:
        raise MemoryNotFoundError("cycle_id: names no cycle; see `memtend skills cycles`")
    if as_json:
        show_json(cycle.model_dump(mode="json"))
        return
    report = cycle.report or {}
    reported = {name: value for name, value in report.items() if isinstance(value, int)}
    show_facts({**cycle.model_dump(exclude={"report"}), **reported}, as_json=False)
    _show_conflicts([cycle])


def cycles(
    limit: Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="Most rows, newest first.")] = 20,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the evolver's cycles, newest first: time, window, results, and what a person must check."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        found = ledger.skill_cycles.page(settings.company, limit=limit)
    if as_json:
        show_json([each.model_dump(mode="json") for each in found])
        return
    show_rows(map(_row, found), columns=_COLUMNS, as_json=False)
    _show_conflicts(found)


def skill_evolver(settings: Settings) -> Iterator[CheckResult]:
    """Check when the evolver's last cycle ended, for the doctor."""
    memory = policy_of(settings).memory
    with ledger_of(settings) as ledger:
        last = ledger.skill_cycles.last_finished(settings.company)
        known = ledger.skill_cycles.page(settings.company)
    length = LENGTHS.get(memory.consolidation.interval)
    is_on = memory.procedural.evolver.enabled and length is not None
    seen = f"last cycle finished {last.finished_at:%Y-%m-%d %H:%M} UTC" if last else "no cycle has finished"
    # One that never finished a cycle is new for as long as its first is.
    since = last.finished_at if last else min((each.planned_at for each in known), default=None)
    is_late = length is not None and since is not None and datetime.now(UTC) - since > _MISSED * length
    yield CheckResult(
        check="skill evolver",
        ok=not (is_on and is_late),
        seen=seen if is_on else f"off; {seen}",
        mend="is beat running, a worker for memory.skills, and maintenance not paused? see that worker's log",
    )


def _is_held_up(settings: Settings) -> bool:
    """Return whether a cycle waits for somebody to resume maintenance; say so, and say what makes it empty."""
    if not policy_of(settings).memory.procedural.evolver.enabled:
        warn("the evolver is off, so the cycle finds nothing: set memory.procedural.evolver.enabled")
    with ledger_of(settings) as ledger:
        is_paused = ledger.switches.paused(settings.company)
    if is_paused:
        warn("maintenance is paused: the cycle waits until it is resumed")
    return is_paused


def _row(cycle: Cycle) -> dict[str, Any]:
    report = cycle.report or {}
    return {
        **cycle.model_dump(exclude={"report"}),
        "executions": report.get("trajectories_analyzed"),
        "patterns": report.get("patterns_found"),
        "proposals": report.get("proposals_emitted"),
        "conflicts": report.get("conflicts"),
    }


def _show_conflicts(found: Iterable[Cycle]) -> None:
    """Name what contradicts what, once, however many cycles saw it."""
    listed = [(each["pattern_id"], each["standing_id"]) for cycle in found for each in _conflicts(cycle)]
    if not listed:
        return
    say("\na person must look at these: a pattern says otherwise than a skill that stands, or a proposal that waits")
    rows = [{"pattern": pattern, "stands": standing} for pattern, standing in dict.fromkeys(listed)]
    show_rows(rows, columns=("pattern", "stands"), as_json=False)


def _conflicts(cycle: Cycle) -> list[dict[str, str]]:
    return list((cycle.report or {}).get("conflict_list", ()))


app = typer.Typer(help="Skills of the organisation: list, show, and the evolver's cycles.", no_args_is_help=True)

app.command("list")(list_skills)
app.command("show")(show_skill)
app.command("evolve")(evolve)
app.command("cycles")(cycles)


def add_to(root: typer.Typer) -> None:
    """Put the group on the command line."""
    root.add_typer(app, name="skills")
