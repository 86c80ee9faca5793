"""``memtend skills``: skills learned from the agents' tasks, and the evolver that finds them."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from memcore.approvals import visible
from memcore.config.settings import Settings
from memcore.ledger.agents import LENGTHS
from memcore.ledger.learning.skill_cycles import MAX_PAGE, Cycle
from memcore.ledger.learning.skills import MAX_PAGE as MOST_SKILLS
from memcore.ledger.learning.skills import SkillState
from memcore.procedural.records import DisclosureTier, disclosed
from memcore.service.skills import SkillInfo
from ops.cli.console import CheckResult, say, show_json, warn
from ops.cli.session import Commands, JsonCommand, await_run, ledger_of, policy_of

app = Commands("skills", "Skills of the organisation: list, show, and the evolver's cycles.")

#: Intervals that may pass without a cycle before the doctor says something.
_MISSED = 2


@app.command("list")
def list_skills(
    command: JsonCommand,
    state: Annotated[SkillState | None, typer.Option(help="Only those of this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_SKILLS, help="Most rows, newest first.")] = 20,
) -> None:
    """Show the organisation's skills, newest first: state, who approved each, and how often it helped."""
    found = command.run(lambda service: service.skills.list(state=state, limit=limit))
    rows = (_skill_row(command, each) for each in found)
    columns = ("state", "discovery", "confidence", "applications", "successes", "last_applied_at", "approved_by", "id")
    command.show_rows(rows, *columns)


@app.command("show")
def show_skill(
    command: JsonCommand,
    skill_id: Annotated[str, typer.Argument(help="The skill's id, or any id under which it was published.")],
) -> None:
    """Show one skill whole: its text in three tiers, its origin, and what replaced it."""
    detail = command.run(lambda service: service.skills.get(skill_id))
    facts = {**_skill_row(command, detail.skill), "memory_id": detail.memory_id, "supersedes": detail.supersedes}
    lesson = detail.lesson
    if command.as_json:
        show_json({**facts, "lesson": lesson.model_dump(mode="json")})
        return
    command.show_facts(facts)
    for tier in DisclosureTier:
        text = disclosed(lesson, tier)
        if text:
            say(f"\n[{tier}]\n{visible(text)}")


def _skill_row(command: JsonCommand, skill: SkillInfo) -> dict[str, Any]:
    # JSON has no terminal to obey.
    discovery = skill.discovery if command.as_json else visible(skill.discovery)
    return {**dict(skill), "state": str(skill.state), "discovery": discovery}


@app.command("evolve")
def evolve(
    command: JsonCommand,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the cycle has ended.")] = True,
) -> None:
    """Run the skill evolver now; its proposals wait for a person: see `memtend approvals list`."""
    wait = not _is_held_up(command) and wait
    with command.service() as (service, runner):
        cycle_id = runner.run(service.skills.evolve()).job_id
        if not wait:
            command.show_facts({"cycle_id": cycle_id})
            return
        await_run(service.client.blocking, cycle_id)
        cycle = runner.run(service.skills.cycle(cycle_id))
    if command.as_json:
        show_json(cycle.model_dump(mode="json"))
        return
    reported = {name: value for name, value in (cycle.report or {}).items() if isinstance(value, int)}
    command.show_facts({**cycle.model_dump(exclude={"report"}), **reported})
    _show_conflicts(command, [cycle])


@app.command("cycles")
def cycles(
    command: JsonCommand,
    limit: Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="Most rows, newest first.")] = 20,
) -> None:
    """Show the evolver's cycles, newest first: time, window, results, and what a person must check."""
    found = command.run(lambda service: service.skills.cycles(limit=limit))
    if command.as_json:
        show_json([each.model_dump(mode="json") for each in found])
        return
    columns = (
        "planned_at", "origin", "finished_at", "window_start", "window_end",
        "executions", "patterns", "proposals", "conflicts",
    )  # fmt: skip
    command.show_rows(map(_cycle_row, found), *columns)
    _show_conflicts(command, found)


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


def _is_held_up(command: JsonCommand) -> bool:
    """Return whether a cycle waits for somebody to resume maintenance; say so, and say what makes it empty."""
    if not command.policy.memory.procedural.evolver.enabled:
        warn("the evolver is off, so the cycle finds nothing: set memory.procedural.evolver.enabled")
    is_paused = command.run(lambda service: service.runs.is_paused())
    if is_paused:
        warn("maintenance is paused: the cycle waits until it is resumed")
    return is_paused


def _cycle_row(cycle: Cycle) -> dict[str, Any]:
    report = cycle.report or {}
    return {
        **cycle.model_dump(exclude={"report"}),
        "executions": report.get("trajectories_analyzed"),
        "patterns": report.get("patterns_found"),
        "proposals": report.get("proposals_emitted"),
        "conflicts": report.get("conflicts"),
    }


def _show_conflicts(command: JsonCommand, found: Sequence[Cycle]) -> None:
    """Name what contradicts what, once, however many cycles saw it."""
    conflicts = (each for cycle in found for each in (cycle.report or {}).get("conflict_list", ()))
    listed = [(each["pattern_id"], each["standing_id"]) for each in conflicts]
    if not listed:
        return
    say("\na person must look at these: a pattern says otherwise than a skill that stands, or a proposal that waits")
    rows = [{"pattern": pattern, "stands": standing} for pattern, standing in dict.fromkeys(listed)]
    command.show_rows(rows, "pattern", "stands")
