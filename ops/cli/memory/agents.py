"""``memtend agents``: register agents, change their settings, pause them, show their lessons and questions."""

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.agents import Agent, AgentSpec
from memcore.ledger.learning.lessons import MAX_PAGE, Lesson
from memcore.ledger.learning.skills import Applications
from memcore.models.memory import ConsolidationInterval, MemoryCategory, MemoryLevel
from ops.cli.console import say
from ops.cli.session import Command, Commands, JsonCommand

app = Commands("agents", "Agents: list, lessons, questions, add, set, pause, resume.")

#: What people see of a lesson that nobody has drawn.
_WAITING = "waiting"

AgentArgument = Annotated[str, typer.Argument(help="The agent's id.")]

#: Agents read from the ledger at a time.
_PAGE = 1_000


@app.command("list")
def list_agents(command: JsonCommand) -> None:
    """Show every agent and when its next maintenance is due."""
    with command.ledger() as ledger:
        found: list[Agent] = []
        while page := ledger.agents.list(command.company, after=found[-1].agent_id if found else None, limit=_PAGE):
            found += page
    columns = ("agent_id", "role", "department", "interval", "max_memories", "paused", "next_due_at", "last_run_at")
    command.show_rows(found, *columns)


@app.command("lessons")
def lessons(
    command: JsonCommand,
    agent_id: Annotated[
        str | None, typer.Argument(help="Whose; without one, how many lessons of all agents ended how.")
    ] = None,
    limit: Annotated[int, typer.Option(help=f"At most so many, 1 to {MAX_PAGE}.")] = 20,
) -> None:
    """Show the lessons of an agent's tasks, newest first: stored, too weak, or still waiting."""
    if not 1 <= limit <= MAX_PAGE:
        raise MemoryInputError("limit", f"must be 1 to {MAX_PAGE}")
    company = command.company
    with command.ledger() as ledger:
        if agent_id is None:
            counts = ledger.lessons.outcomes(company)
            rows = ({"outcome": outcome or _WAITING, "lessons": count} for outcome, count in counts.items())
            command.show_rows(rows, "outcome", "lessons")
            return
        found = ledger.lessons.page(company, agent_id, limit=limit)
        if not found and ledger.agents.get(company, agent_id) is None:
            raise MemoryNotFoundError(f"agent: {agent_id!r} is not known; `memtend agents list` says who is")
        applied = ledger.skills.applications(company, [each.memory_id for each in found if each.memory_id])
    columns = ("created_at", "task_id", "outcome", "confidence", "applications", "successes", "memory_id")
    command.show_rows((_row(each, applied.get(each.memory_id or "")) for each in found), *columns)


@app.command("questions")
def questions(
    command: JsonCommand,
    agent_id: AgentArgument,
    *,
    forget: Annotated[bool, typer.Option("--forget", help="Delete them all.")] = False,
) -> None:
    """Show the recorded questions of an agent, newest first, or delete them."""
    with command.ledger() as ledger:
        if forget:
            command.show_facts({"deleted": ledger.recorded_queries.forget(command.company, agent_id)})
            return
        found = ledger.recorded_queries.of(command.company, agent_id)
    command.show_rows(found, "asked_at", "question")


def _row(lesson: Lesson, counts: Applications | None) -> dict[str, object]:
    # The text of a lesson is the memory's: `memtend search` shows it.
    return {
        **lesson.model_dump(exclude={"text", "token", "attempt"}),
        "tries": lesson.attempt,
        "outcome": lesson.outcome or _WAITING,
        "applications": counts.applications if counts else 0,
        "successes": counts.successes if counts else 0,
        "last_applied_at": counts.last_applied_at if counts else None,
    }


@dataclass(frozen=True)
class _AgentOptions:
    """The settings of an agent."""

    role: Annotated[str | None, typer.Option(help="What the agent does.")] = None
    department: Annotated[str | None, typer.Option(help="Where it belongs.")] = None
    level: Annotated[str | None, typer.Option(help=f"One of {', '.join(MemoryLevel)}.")] = None
    interval: Annotated[str | None, typer.Option(help=f"One of {', '.join(ConsolidationInterval)}.")] = None
    max_memories: Annotated[int | None, typer.Option(help="Most memories it may keep.")] = None
    retention_days: Annotated[int | None, typer.Option(help="Days that its memories are kept.")] = None
    retain: Annotated[
        list[str] | None, typer.Option(help="Days for one category, e.g. working=14; may be given several times.")
    ] = None

    def spec(self, company: str, agent_id: str) -> AgentSpec:
        """Return the agent as it shall be; what is not given stays as it is. Raises MemoryInputError."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        if self.retain is not None:
            given["retention_overrides"] = _overrides(given.pop("retain"))
        return AgentSpec(company=company, agent_id=agent_id, **given)


@app.command("add")
def add(command: JsonCommand, agent_id: AgentArgument, options: _AgentOptions) -> None:
    """Register an agent before its first memory."""
    spec = options.spec(command.company, agent_id)
    with command.ledger() as ledger:
        agent = ledger.agents.put(spec)
    command.show_facts(agent)


@app.command("set")
def change(command: JsonCommand, agent_id: AgentArgument, options: _AgentOptions) -> None:
    """Change an agent's settings; those that are left out stay as they are."""
    spec = options.spec(command.company, agent_id)
    with command.ledger() as ledger:
        if ledger.agents.get(command.company, agent_id) is None:
            raise MemoryNotFoundError(f"agent_id: {agent_id!r} is not known; add it with `memtend agents add`")
        agent = ledger.agents.put(spec)
    command.show_facts(agent)


@app.command("pause")
def pause(command: Command, agent_id: AgentArgument) -> None:
    """Pause an agent's maintenance; an active run stops before its next removal."""
    with command.ledger() as ledger:
        ledger.agents.pause(command.company, agent_id)
    say(f"{agent_id}: maintenance is paused")


@app.command("resume")
def resume(command: Command, agent_id: AgentArgument) -> None:
    """Resume an agent's maintenance."""
    with command.ledger() as ledger:
        ledger.agents.resume(command.company, agent_id)
        active = ledger.runs.active(command.company, agent_id)
        waiting = [ledger.runs.item(command.company, active.run_id)] if active else []
    command.dispatch(waiting)
    say(f"{agent_id}: maintenance goes on")


def _overrides(given: list[str]) -> dict[str, int]:
    overrides: dict[str, int] = {}
    for each in given:
        category, _, days = each.partition("=")
        if category not in set(MemoryCategory) or not days.isdecimal():
            raise MemoryInputError("retain", f"must be CATEGORY=DAYS with one of {', '.join(MemoryCategory)}")
        overrides[category] = int(days)
    return overrides
