"""``memtend agents``: register agents, change their settings, pause them, show their lessons."""

from typing import Annotated, Any

import typer

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.agents import Agent, AgentSpec
from memcore.ledger.learning.lessons import MAX_PAGE, Lesson
from memcore.ledger.learning.skills import Applications
from memcore.models.memory import ConsolidationInterval, MemoryCategory, MemoryLevel
from ops.cli.console import AsJson, say, show_facts, show_rows
from ops.cli.session import HomeOption, dispatch, ledger_of, settings_of

#: What people see of a lesson that nobody has drawn.
_WAITING = "waiting"


def lessons(
    agent_id: Annotated[
        str | None, typer.Argument(help="Whose; without one, how many lessons of all agents ended how.")
    ] = None,
    limit: Annotated[int, typer.Option(help=f"At most so many, 1 to {MAX_PAGE}.")] = 20,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the lessons of an agent's tasks, newest first: stored, too weak, or still waiting."""
    if not 1 <= limit <= MAX_PAGE:
        raise MemoryInputError("limit", f"must be 1 to {MAX_PAGE}")
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        if agent_id is None:
            counts = ledger.lessons.outcomes(settings.company)
            rows = ({"outcome": outcome or _WAITING, "lessons": count} for outcome, count in counts.items())
            show_rows(rows, columns=("outcome", "lessons"), as_json=as_json)
            return
        found = ledger.lessons.page(settings.company, agent_id, limit=limit)
        if not found and ledger.agents.get(settings.company, agent_id) is None:
            raise MemoryNotFoundError(f"agent: {agent_id!r} is not known; `memtend agents list` says who is")
        applied = ledger.skills.applications(settings.company, [each.memory_id for each in found if each.memory_id])
    columns = ("created_at", "task_id", "outcome", "confidence", "applications", "successes", "memory_id")
    show_rows((_row(each, applied.get(each.memory_id or "")) for each in found), columns=columns, as_json=as_json)


def _row(lesson: Lesson, counts: Applications | None) -> dict[str, object]:
    # The text of a lesson is the memory's: `memtend search` shows it.
    return {
        **lesson.model_dump(exclude={"text"}),
        "outcome": lesson.outcome or _WAITING,
        "applications": counts.applications if counts else 0,
        "successes": counts.successes if counts else 0,
        "last_applied_at": counts.last_applied_at if counts else None,
    }


app = typer.Typer(help="Agents: list, lessons, add, set, pause, resume.", no_args_is_help=True)

AgentArgument = Annotated[str, typer.Argument(help="The agent's id.")]
Role = Annotated[str | None, typer.Option(help="What the agent does.")]
Department = Annotated[str | None, typer.Option(help="Where it belongs.")]
Level = Annotated[str | None, typer.Option(help=f"One of {', '.join(MemoryLevel)}.")]
Interval = Annotated[str | None, typer.Option(help=f"One of {', '.join(ConsolidationInterval)}.")]
MaxMemories = Annotated[int | None, typer.Option(help="Most memories it may keep.")]
RetentionDays = Annotated[int | None, typer.Option(help="Days that its memories are kept.")]
Retain = Annotated[
    list[str] | None, typer.Option(help="Days for one category, e.g. working=14; may be given several times.")
]

#: Agents read from the ledger at a time.
_PAGE = 1_000


@app.command("list")
def list_agents(home: HomeOption = None, as_json: AsJson = False) -> None:
    """Show every agent and when its next maintenance is due."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        found: list[Agent] = []
        while page := ledger.agents.list(settings.company, after=found[-1].agent_id if found else None, limit=_PAGE):
            found += page
    show_rows(
        (agent.model_dump(mode="json") if as_json else dict(agent) for agent in found),
        columns=("agent_id", "role", "department", "interval", "max_memories", "paused", "next_due_at", "last_run_at"),
        as_json=as_json,
    )


app.command("lessons")(lessons)


@app.command("add")
def add(
    agent_id: AgentArgument,
    role: Role = None,
    department: Department = None,
    level: Level = None,
    interval: Interval = None,
    max_memories: MaxMemories = None,
    retention_days: RetentionDays = None,
    retain: Retain = None,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Register an agent before its first memory."""
    _put(
        agent_id, home, as_json, new=True, role=role, department=department, level=level, interval=interval,
        max_memories=max_memories, retention_days=retention_days, retention_overrides=_overrides(retain),
    )  # fmt: skip


@app.command("set")
def change(
    agent_id: AgentArgument,
    role: Role = None,
    department: Department = None,
    level: Level = None,
    interval: Interval = None,
    max_memories: MaxMemories = None,
    retention_days: RetentionDays = None,
    retain: Retain = None,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Change an agent's settings; those that are left out stay as they are."""
    _put(
        agent_id, home, as_json, new=False, role=role, department=department, level=level, interval=interval,
        max_memories=max_memories, retention_days=retention_days, retention_overrides=_overrides(retain),
    )  # fmt: skip


@app.command("pause")
def pause(agent_id: AgentArgument, home: HomeOption = None) -> None:
    """Pause an agent's maintenance; an active run stops before its next removal."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        ledger.agents.pause(settings.company, agent_id)
    say(f"{agent_id}: maintenance is paused")


@app.command("resume")
def resume(agent_id: AgentArgument, home: HomeOption = None) -> None:
    """Resume an agent's maintenance."""
    settings = settings_of(home)
    with ledger_of(settings) as ledger:
        ledger.agents.resume(settings.company, agent_id)
        waiting = ledger.runs.active(settings.company, agent_id)
    if waiting:
        dispatch(settings, [waiting])
    say(f"{agent_id}: maintenance goes on")


def _put(agent_id: str, home: Any, as_json: bool, *, new: bool, **given: Any) -> None:
    settings = settings_of(home)
    spec = AgentSpec(
        company=settings.company,
        agent_id=agent_id,
        **{name: value for name, value in given.items() if value is not None},
    )
    with ledger_of(settings) as ledger:
        if not new and ledger.agents.get(settings.company, agent_id) is None:
            msg = f"agent_id: {agent_id!r} is not known; add it with `memtend agents add`"
            raise MemoryNotFoundError(msg)
        agent = ledger.agents.put(spec)
    show_facts(agent.model_dump(mode="json") if as_json else dict(agent), as_json=as_json)


def _overrides(given: list[str] | None) -> dict[str, Any] | None:
    if given is None:
        return None
    overrides: dict[str, Any] = {}
    for each in given:
        category, _, days = each.partition("=")
        if category not in set(MemoryCategory) or not days.isdecimal():
            raise MemoryInputError("retain", f"must be CATEGORY=DAYS with one of {', '.join(MemoryCategory)}")
        overrides[category] = int(days)
    return overrides


def add_to(parent: typer.Typer) -> None:
    """Put the commands on the command line."""
    parent.add_typer(app, name="agents")
