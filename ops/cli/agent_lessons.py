"""``memtend agents lessons``: what became of the lessons of tasks."""

from typing import Annotated

import typer

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.lesson import Lesson
from memcore.ledger.lessons import MAX_PAGE
from memcore.ledger.skill import Applications
from ops.cli.console import AsJson, show_rows
from ops.cli.session import HomeOption, ledger_of, settings_of

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
    """Show what became of the lessons of an agent's tasks, newest first: stored, too weak, or still waiting."""
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
