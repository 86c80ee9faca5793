"""Failures that many agents share, with their lessons: the skill evolver proposes skills from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from memcore.ledger.agents import AgentSpec
from memcore.ledger.learning.trajectories import Trajectory
from memcore.ledger.ledger import Ledger
from memcore.models.execution import ExecutionTrace, TerminationReason, Turn
from support.ledger_records import finish_lesson, open_lesson
from support.lessons import lesson

#: Agents that show each of them.
AGENTS = 4

#: Other tasks of each of these agents.
USUAL = 12


@dataclass(frozen=True, kw_only=True)
class SharedFailure:
    """One pattern: its category, its error message, when its lesson applies, and what to do then."""

    category: str
    message: str
    condition: str
    action: str


#: What fails, unlike each other.
FAILURES = (
    SharedFailure(
        category="disk",
        message="no space left on volume",
        condition="No space is left on a volume.",
        action="Move old exports away.",
    ),
    SharedFailure(
        category="certificate",
        message="peer certificate expired",
        condition="A peer's certificate has expired.",
        action="Renew it with the registrar.",
    ),
    SharedFailure(
        category="quota",
        message="too many requests today",
        condition="Too many requests were made today.",
        action="Wait until midnight; batch them.",
    ),
)


def many_failures(name: str, number: int) -> tuple[SharedFailure, ...]:
    """Return that many failures, unlike each other and those of another name."""
    return tuple(
        SharedFailure(
            category=f"{word}fault",
            message=f"{word}vent {word}seal {word}lamp",
            condition=f"The {word}vent, the {word}seal and the {word}lamp are out.",
            action=f"Turn {word}dial, then {word}knob.",
        )
        for word in (f"{name}{each}" for each in range(number))
    )


def share_failures(ledger: Ledger, company: str, *, at: datetime, failures: Sequence[SharedFailure] = FAILURES) -> None:
    """Put the failures and their lessons into the ledger, a second apart, the last one a second before that time.

    Added agents do other tasks well meanwhile: what is usual, with which failures are compared.
    """
    for number in range(AGENTS * USUAL):
        agent_id, trace_id = f"agent-{number % AGENTS}", f"usual-{number}-{at.isoformat()}"
        ledger.agents.put(AgentSpec(company=company, agent_id=agent_id))
        usual = ExecutionTrace(
            task_id=f"usual-{number}",
            task_title="Walk the dogs",
            task_type="usual duty",
            termination_reason=TerminationReason.COMPLETED,
            ended_at=at - timedelta(seconds=number + 1),
        )
        ledger.trajectories.append(company, Trajectory.of(usual, trace_id=trace_id, agent_id=agent_id))
    for failure in failures:
        drawn = lesson(
            discovery=f"How to mend a {failure.category}.", condition=failure.condition, action=failure.action
        )
        for number in range(AGENTS):
            agent_id, trajectory_id = f"agent-{number}", f"{failure.category}-{number}-{at.isoformat()}"
            trace = _failed(failure, number, at=at - timedelta(seconds=number + 1))
            ledger.trajectories.append(company, Trajectory.of(trace, trace_id=trajectory_id, agent_id=agent_id))
            open_lesson(ledger, company, agent_id, trajectory_id)
            finish_lesson(
                ledger,
                company,
                trajectory_id,
                "stored",
                memory_id=f"lesson-{trajectory_id}",
                confidence=drawn.confidence,
                text=drawn.model_dump_json(),
            )


def _failed(failure: SharedFailure, number: int, *, at: datetime) -> ExecutionTrace:
    return ExecutionTrace(
        task_id=f"{failure.category}-{number}",
        task_title=f"Task {number}",
        task_type=f"{failure.category} duty",
        turns=(Turn(tokens=3, tools=("shell", "read_file")),),
        termination_reason=TerminationReason.ERROR,
        error_message=failure.message,
        error_category=failure.category,
        ended_at=at,
    )
