"""What the demo does with the fleet's tasks: tell them, wait for lessons, let the evolver look, ask and decide."""

import shlex
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from examples.demo.fleet_night import LIMIT_SECONDS, FleetDemo
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
_POLL_INTERVAL_SECONDS = 0.1

#: What a command may take, in seconds.
_COMMAND_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRun:
    """A command as a person types it, and what it printed.

    Attributes:
        line: the command.
        code: how it ended.
        printed: on standard output.
        reported: on standard error.
    """

    line: str
    code: int
    printed: str
    reported: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """A running stack, and what is learned in it."""

    demo: FleetDemo
    home: Path

    def await_cycle_of_today(self) -> None:
        """Wait until the cycle that the sweep plans each day has ended; one amid the tasks would take a part of them.

        Raises MemoryStoreError.
        """
        deadline = time.monotonic() + LIMIT_SECONDS
        while self.demo.ledger.skill_cycles.last_finished(self.demo.company) is None:
            if time.monotonic() > deadline:
                raise MemoryStoreError("the evolver's cycle of today did not end")
            time.sleep(_POLL_INTERVAL_SECONDS)

    def store_traces(self, traces: Iterable[tuple[str, ExecutionTrace]]) -> dict[str, list[str]]:
        """Send how tasks went, wait until all is kept, and return the ids of each agent's traces."""
        stored_traces: dict[str, list[str]] = defaultdict(list)
        jobs: list[str] = []
        for agent_id, trace in traces:
            receipt = self.demo.client.distill(agent_id, trace)
            if receipt is None:
                raise MemoryStoreError(f"the trace of {trace.task_id} could not be sent")
            stored_traces[agent_id].append(receipt.trace_id)
            jobs.append(receipt.job_id)
        for status in self.demo.client.wait(jobs, timeout_seconds=LIMIT_SECONDS):
            if status.state != "done":
                raise MemoryStoreError(f"a trace: job {status.job_id} ended as {status.state}: {status.reason}")
        return dict(stored_traces)

    def lessons(self, agents: Iterable[str]) -> tuple[Lesson, ...]:
        """Return every lesson of these agents, once a model was asked for all; for two minutes at most."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while None in self.demo.ledger.lessons.outcomes(self.demo.company) and time.monotonic() < deadline:
            time.sleep(_POLL_INTERVAL_SECONDS)
        return tuple(
            lesson for agent_id in agents for lesson in self.demo.ledger.lessons.page(self.demo.company, agent_id)
        )

    def evolve(self) -> EvolverReport:
        """Ask the evolver to look, wait for its cycle, and return its report."""
        receipt = self.demo.client.evolve_now()
        for _ in self.demo.client.wait([receipt.job_id], timeout_seconds=LIMIT_SECONDS):
            pass
        cycle = self.demo.ledger.skill_cycles.get(self.demo.company, receipt.job_id)
        if cycle is None or cycle.report is None:
            raise MemoryStoreError("the evolver's cycle did not end")
        return EvolverReport.model_validate(cycle.report)

    def proposals(self) -> tuple[Approval, ...]:
        """Return the skills that wait for a person, those of most agents first."""
        waiting = self.demo.ledger.approvals.page(self.demo.company, state=ApprovalState.PENDING)
        skills = [each for each in waiting if each.proposal.action == ORG_PROMOTION]
        return tuple(sorted(skills, key=lambda each: (-int(each.proposal.figures["agents"]), each.approval_id)))

    def failures(self, agent_id: str, category: str, *, since: datetime) -> int:
        """Return how often an agent has met a failure."""
        stored_traces = self.demo.ledger.trajectories.stream(self.demo.company, agent_id=agent_id, since=since)
        return sum(trajectory.error_category == category for trajectory in stored_traces)

    def search(self, agent_id: str, question: str, *, limit: int) -> tuple[MemoryEntry, ...]:
        """Ask, as an agent, what all have in common."""
        store: object = self.demo.backend
        if not isinstance(store, SharedKnowledgeStore):
            raise MemoryCapabilityError("this backend keeps nothing that agents share")
        query = MemoryQuery(text=question, limit=limit)
        return self.demo.runner.run(store.search_shared(query, exclude_agent=agent_id))

    def apply(self, agent_id: str, skill_id: str, *, task_id: str) -> Applications:
        """Tell that a skill helped an agent with a task, wait until it is counted, and return the counts."""
        self.demo.client.applied(agent_id, skill_id, "success", task_id=task_id)
        deadline = time.monotonic() + LIMIT_SECONDS
        while not (counted := self.demo.ledger.skills.applications(self.demo.company, [skill_id])):
            if time.monotonic() > deadline:
                raise MemoryStoreError(f"nobody counted that {agent_id} applied {skill_id}")
            time.sleep(_POLL_INTERVAL_SECONDS)
        return counted[skill_id]

    def type(self, *words: str) -> CommandRun:
        """Run a command of memtend in a process of its own, as a person would."""
        words = (*words, "--home", str(self.home))
        argv = [*program_argv("ops.cli.main"), *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False)
        return CommandRun(
            line=shlex.join(["memtend", *words]),
            code=done.returncode,
            printed=done.stdout,
            reported=done.stderr.strip(),
        )
