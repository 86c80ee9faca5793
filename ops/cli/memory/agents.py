"""``memtend agents``: register agents, change their settings, pause them, show their lessons and questions."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from memcore.errors import MemoryInputError
from memcore.ledger.learning.lessons import MAX_PAGE
from memcore.ledger.organization.audit import Confirmation
from memcore.models.memory import ConsolidationInterval, MemoryCategory, MemoryLevel
from ops.cli.console import say
from ops.cli.session import Command, Commands, JsonCommand

app = Commands("agents", "Agents: list, lessons, questions, add, set, remove, pause, resume.")

#: What the audit says where a person gives no reason: that they typed it.
TYPED = "asked for by a command"

AgentArgument = Annotated[str, typer.Argument(help="The agent's id.")]


@app.command("list")
def list_agents(command: JsonCommand) -> None:
    """Show every agent and when its next maintenance is due."""
    found = command.run(lambda service: service.agents.every())
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
    with command.service() as (service, runner):
        if agent_id is None:
            counts = runner.run(service.agents.lesson_outcomes())
            rows = ({"outcome": outcome, "lessons": count} for outcome, count in counts.items())
            command.show_rows(rows, "outcome", "lessons")
            return
        found = runner.run(service.agents.lessons(agent_id, limit=limit))
    columns = ("created_at", "task_id", "outcome", "confidence", "applications", "successes", "memory_id")
    # The text of a lesson is the memory's: `memtend search` shows it.
    command.show_rows(found, *columns)


@app.command("questions")
def questions(
    command: JsonCommand,
    agent_id: AgentArgument,
    *,
    forget: Annotated[bool, typer.Option("--forget", help="Delete them all.")] = False,
) -> None:
    """Show the recorded questions of an agent, newest first, or delete them."""
    with command.service() as (service, runner):
        if forget:
            command.show_facts({"deleted": runner.run(service.agents.forget_questions(agent_id))})
            return
        found = runner.run(service.agents.questions(agent_id))
    command.show_rows(found, "asked_at", "question")


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

    def given(self) -> dict[str, Any]:
        """Return what is given; what is not stays as it is. Raises MemoryInputError."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        if self.retain is not None:
            given["retention_overrides"] = _overrides(given.pop("retain"))
        return given


@app.command("add")
def add(command: JsonCommand, agent_id: AgentArgument, options: _AgentOptions) -> None:
    """Register an agent before its first memory."""
    given = options.given()
    command.show_facts(command.run(lambda service: service.agents.add(agent_id, given)))


@app.command("set")
def change(command: JsonCommand, agent_id: AgentArgument, options: _AgentOptions) -> None:
    """Change an agent's settings; those that are left out stay as they are."""
    given = options.given()
    command.show_facts(command.run(lambda service: service.agents.set(agent_id, given)))


@app.command("remove")
def remove(
    command: JsonCommand,
    agent_id: AgentArgument,
    by: Annotated[str, typer.Option("--by", help="Your name; it is kept in the audit.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; it is kept too.")] = TYPED,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it; without it, its memories are only counted.")] = False,
) -> None:
    """Forget all memories of an agent, and take it off the schedule; `memtend runs undo` brings the memories back."""
    with command.service() as (service, runner):
        if not yes:
            runner.run(service.agents.get(agent_id))
            count = runner.run(service.memories.count(agent_id))
            raise MemoryInputError("yes", f"would forget {count} memories of {agent_id}; say --yes")
        confirmation = Confirmation(actor=by, confirm=True, reason=reason)
        receipt = runner.run(service.agents.remove(agent_id, confirmation))
    command.show_facts({"agent_id": agent_id, "run_id": receipt.run_id, "forgotten": len(receipt.forgotten)})


@app.command("pause")
def pause(command: Command, agent_id: AgentArgument) -> None:
    """Pause an agent's maintenance; an active run stops before its next removal."""
    command.run(lambda service: service.agents.pause(agent_id))
    say(f"{agent_id}: maintenance is paused")


@app.command("resume")
def resume(command: Command, agent_id: AgentArgument) -> None:
    """Resume an agent's maintenance."""
    command.run(lambda service: service.agents.resume(agent_id))
    say(f"{agent_id}: maintenance goes on")


def _overrides(given: list[str]) -> dict[str, int]:
    overrides: dict[str, int] = {}
    for each in given:
        category, _, days = each.partition("=")
        if category not in set(MemoryCategory) or not days.isdecimal():
            raise MemoryInputError("retain", f"must be CATEGORY=DAYS with one of {', '.join(MemoryCategory)}")
        overrides[category] = int(days)
    return overrides
