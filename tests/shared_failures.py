"""Failures that many agents share, with the lesson that each of them drew: what the evolver proposes a skill from."""

from datetime import datetime, timedelta

from lessons import lesson

from memcore.execution_trace import ExecutionTrace, TerminationReason, Turn
from memcore.ledger.ledger import Ledger
from memcore.ledger.trajectory import Trajectory

#: Agents that show each of them.
AGENTS = 4

#: What fails, each a pattern of its own: its error message, when its lesson applies, and what to do then.
CATEGORIES = {
    "disk": ("no space left on volume", "No space is left on a volume.", "Move old exports away."),
    "certificate": ("peer certificate expired", "A peer's certificate has expired.", "Renew it with the registrar."),
    "quota": ("too many requests today", "Too many requests were made today.", "Wait until midnight; batch them."),
}


def failed(category: str, number: int, *, at: datetime) -> ExecutionTrace:
    """Return how a task failed."""
    return ExecutionTrace(
        task_id=f"{category}-{number}",
        task_title=f"Task {number}",
        task_type=f"{category} duty",
        turns=(Turn(tokens=3, tools=("shell", "read_file")),),
        termination_reason=TerminationReason.ERROR,
        error_message=CATEGORIES[category][0],
        error_category=category,
        ended_at=at,
    )


def share_failures(ledger: Ledger, company: str, *, at: datetime) -> None:
    """Put the failures and their lessons into the ledger, a second apart, the last one a second before that time."""
    for category, (_, condition, action) in CATEGORIES.items():
        for number in range(AGENTS):
            agent_id, trajectory_id = f"agent-{number}", f"{category}-{number}-{at.isoformat()}"
            trace = failed(category, number, at=at - timedelta(seconds=number + 1))
            ledger.trajectories.append(company, Trajectory.of(trace, trace_id=trajectory_id, agent_id=agent_id))
            ledger.lessons.open(company, agent_id, trajectory_id)
            drawn = lesson(discovery=f"How to mend a {category}.", condition=condition, action=action)
            ledger.lessons.drawn(
                company,
                trajectory_id,
                "stored",
                memory_id=f"lesson-{trajectory_id}",
                confidence=drawn.confidence,
                text=drawn.model_dump_json(),
            )
