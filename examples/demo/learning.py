"""What the demo does with the fleet's tasks: tell them, wait for lessons, let the evolver look, ask and decide."""

import shlex
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from examples.demo.fleet_night import LIMIT_SECONDS, FleetNight
from memcore.backends.protocol import SharedKnowledgeStore
from memcore.errors import MemoryCapabilityError, MemoryStoreError
from memcore.ledger.learning.lessons import Lesson
from memcore.ledger.learning.skills import Applications
from memcore.models.approval import Approval, ApprovalState
from memcore.models.execution import ExecutionTrace
from memcore.models.memory import MemoryEntry, MemoryQuery
from memcore.programs import program_argv
from memcore.skills.publication import ORG_PROMOTION
from memcore.skills.report import EvolverReport

#: Pause between two looks at the lessons, in seconds.
_LOOK_SECONDS = 0.1

#: What a command may take, in seconds.
_COMMAND_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A command as a person types it, and what it printed.

    Attributes:
        line: the command.
        code: how it ended.
        printed: on standard output.
        told: on standard error.
    """

    line: str
    code: int
    printed: str
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """A running stack, and what is learned in it."""

    night: FleetNight
    home: Path

    def tell(self, traces: Iterable[tuple[str, ExecutionTrace]]) -> dict[str, list[str]]:
        """Send how tasks went, wait until all is kept, and return the ids of each agent's traces."""
        told: dict[str, list[str]] = defaultdict(list)
        jobs: list[str] = []
        for agent_id, trace in traces:
            receipt = self.night.client.distill(agent_id, trace)
            if receipt is None:
                raise MemoryStoreError(f"the trace of {trace.task_id} could not be sent")
            told[agent_id].append(receipt.trace_id)
            jobs.append(receipt.job_id)
        for status in self.night.client.wait(jobs, timeout_seconds=LIMIT_SECONDS):
            if status.state != "done":
                raise MemoryStoreError(f"a trace: job {status.job_id} ended as {status.state}: {status.reason}")
        return dict(told)

    def lessons(self, agents: Iterable[str]) -> tuple[Lesson, ...]:
        """Return every lesson of these agents, once a model was asked for all; for two minutes at most."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while None in self.night.ledger.lessons.outcomes(self.night.company) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        return tuple(
            lesson for agent_id in agents for lesson in self.night.ledger.lessons.page(self.night.company, agent_id)
        )

    def evolve(self) -> EvolverReport:
        """Ask the evolver to look, wait for its cycle, and return its report."""
        receipt = self.night.client.evolve_now()
        for _ in self.night.client.wait([receipt.job_id], timeout_seconds=LIMIT_SECONDS):
            pass
        cycle = self.night.ledger.skill_cycles.get(self.night.company, receipt.job_id)
        if cycle is None or cycle.report is None:
            raise MemoryStoreError("the evolver's cycle did not end")
        return EvolverReport.model_validate(cycle.report)

    def proposals(self) -> tuple[Approval, ...]:
        """Return the skills that wait for a person, those of most agents first."""
        waiting = self.night.ledger.approvals.page(self.night.company, state=ApprovalState.PENDING)
        skills = [each for each in waiting if each.proposal.action == ORG_PROMOTION]
        return tuple(sorted(skills, key=lambda each: (-int(each.proposal.figures["agents"]), each.approval_id)))

    def failures(self, agent_id: str, category: str, *, since: datetime) -> int:
        """Return how often an agent has met a failure."""
        told = self.night.ledger.trajectories.stream(self.night.company, agent_id=agent_id, since=since)
        return sum(trajectory.error_category == category for trajectory in told)

    def search(self, agent_id: str, question: str, *, limit: int) -> tuple[MemoryEntry, ...]:
        """Ask, as an agent, what all have in common."""
        store: object = self.night.backend
        if not isinstance(store, SharedKnowledgeStore):
            raise MemoryCapabilityError("this backend keeps nothing that agents share")
        query = MemoryQuery(text=question, limit=limit)
        return self.night.runner.run(store.search_shared(query, exclude_agent=agent_id))

    def apply(self, agent_id: str, skill_id: str, *, task_id: str) -> Applications:
        """Tell that a skill helped an agent with a task, wait until it is counted, and return the counts."""
        self.night.client.applied(agent_id, skill_id, "success", task_id=task_id)
        deadline = time.monotonic() + LIMIT_SECONDS
        while not (counted := self.night.ledger.skills.applications(self.night.company, [skill_id])):
            if time.monotonic() > deadline:
                raise MemoryStoreError(f"nobody counted that {agent_id} applied {skill_id}")
            time.sleep(_LOOK_SECONDS)
        return counted[skill_id]

    def type(self, *words: str) -> Typed:
        """Run a command of memtend in a process of its own, as a person would."""
        words = (*words, "--home", str(self.home))
        argv = [*program_argv("ops.cli.main"), *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
        return Typed(
            line=shlex.join(["memtend", *words]), code=done.returncode, printed=done.stdout, told=done.stderr.strip()
        )
