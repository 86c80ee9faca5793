"""How the fleet's tasks of three weeks went: some failures repeat across agents, others are one agent's own."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from examples.demo.fleet.day import midnight, moment
from examples.demo.fleet.pages import page
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.execution import ExecutionTrace, Recovery, TerminationReason, Turn

#: The failure that several agents share, the agent that never met it, and what that one asks when it does.
SHARED_FAILURE = "migration_lock"
NEWCOMER = "archivist"
ITS_QUESTION = "my migration fails, it waits for a lock: what now?"

#: How long a turn takes.
_TURN = timedelta(minutes=4)


class FleetTask(Frozen):
    """One finished task.

    Attributes:
        days_ago: when it ended, counted from the start of today; the fraction gives the hour.
        turns: tokens and the tools called, parted by spaces.
        recovered: whether the strategy helped.
    """

    days_ago: float
    type: NotBlankStr
    title: NotBlankStr
    turns: tuple[NotBlankStr, ...]
    ends: TerminationReason = TerminationReason.COMPLETED
    category: str | None = None
    error: str | None = None
    strategy: str | None = None
    recovered: bool = False
    retries: int = 0
    quality: float | None = None

    def trace(self, *, task_id: str, today: datetime) -> ExecutionTrace:
        """Return the trace that an engine would send.

        Args:
            task_id: the task.
            today: the start of the day from which its age counts.
        """
        ended_at = moment(today, self.days_ago)
        recovery = None if self.strategy is None else Recovery(strategy=self.strategy, is_recovered=self.recovered)
        return ExecutionTrace(
            task_id=task_id,
            task_title=self.title,
            task_type=self.type,
            turns=tuple(map(_turn, self.turns)),
            termination_reason=self.ends,
            error_message=self.error,
            error_category=self.category,
            recovery=recovery,
            retries=self.retries,
            quality=self.quality,
            started_at=ended_at - len(self.turns) * _TURN,
            ended_at=ended_at,
        )


def traces(now: datetime) -> Iterator[tuple[str, ExecutionTrace]]:
    """Yield each agent's name with a trace of its own; the same day tells the same at any hour."""
    today = midnight(now)
    for agent_id, rows in page("traces.yaml").items():
        for number, row in enumerate(rows, start=1):
            task_id = f"{agent_id}-{number}"
            yield agent_id, FleetTask.model_validate(row).trace(task_id=task_id, today=today)


def _turn(reported: str) -> Turn:
    tokens, *tools = reported.split()
    return Turn(tokens=int(tokens), tools=tuple(tools))
