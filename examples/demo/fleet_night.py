"""What the demo does with a running stack, step by step; each step returns what it found."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from examples.demo.balance import Balance, balance, tally_of
from examples.demo.fleet import FleetAgent, FleetExperience, FleetMemory, FleetQuestion
from memcore import MemoryClient
from memcore.backends.factory import WorkerBackend, create_worker_backend
from memcore.client.envelopes import ImportRecord
from memcore.config.loader import effective_policy
from memcore.config.settings import Settings
from memcore.errors import MemoryStoreError
from memcore.ledger.agents import AgentSpec
from memcore.ledger.ledger import Ledger
from memcore.ledger.monitoring.memory_tests import RegisteredTest
from memcore.ledger.runs import Run
from memcore.ledger.work_items import WorkState
from memcore.maintenance.provenance import MemoryHistory, trace_memory
from memcore.models.memory import COMPRESSED_TAG, MemoryEntry, MemoryQuery
from memcore.models.memory_test import MemoryTest, NamedMemory
from memcore.records import Where

#: How long the import, or the run, may take before the demo gives up, in seconds; both take a tenth of it.
LIMIT_SECONDS = 120.0

#: Pause between two ticks of beat, in seconds: nobody wants to wait ten for a run to begin.
TICK_SECONDS = 1.0

#: Pause between two looks at the runs, in seconds.
_POLL_INTERVAL_SECONDS = 0.1

#: The counts of a run of which any says that memories went.
_REMOVED = ("expired", "retention", "consolidated", "enforced")

_ENDED = {WorkState.DONE, WorkState.HELD, WorkState.SKIPPED, WorkState.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDemo:
    """A running stack with the connections that the demo needs."""

    company: str
    client: MemoryClient
    ledger: Ledger
    backend: WorkerBackend
    runner: asyncio.Runner

    def register(self, agents: Iterable[FleetAgent], *, not_before: datetime) -> None:
        """Make the agents known with their limits; none is due before the given time."""
        for agent in agents:
            self.ledger.agents.put(
                AgentSpec(
                    company=self.company,
                    agent_id=agent.id,
                    role=agent.role,
                    department=agent.department,
                    interval=agent.interval,
                    max_memories=agent.max_memories,
                    retention_overrides=agent.retention_days,
                )
            )
            self.ledger.agents.set_due(self.company, agent.id, not_before)

    def bring_in(self, memories: Iterable[FleetMemory]) -> dict[str, list[str]]:
        """Send the memories through the queue, wait until all can be found, and return the ids of each agent."""
        records = [ImportRecord.model_validate(memory.line()) for memory in memories]
        receipt = self.client.import_many(records)
        for status in self.client.wait(receipt.job_ids, timeout_seconds=LIMIT_SECONDS):
            if status.state != "done":
                msg = f"import: job {status.job_id} ended as {status.state}: {status.reason}"
                raise MemoryStoreError(msg)
        ids: dict[str, list[str]] = defaultdict(list)
        for record, memory_id in zip(records, receipt.memory_ids, strict=True):
            ids[record.agent_id].append(memory_id)
        return dict(ids)

    def register_tests(self, questions: Iterable[FleetQuestion]) -> int:
        """Register a memory test for each question: its answer is found; return how many there are."""
        tests = [
            MemoryTest(agent=each.agent_id, name=each.text, question=each.text, finds=(NamedMemory(text=each.answer),))
            for each in questions
        ]
        return self.ledger.memory_tests.register(self.company, tests, notes=[])

    def tests_after(self, runs: Iterable[Run]) -> tuple[RegisteredTest, ...]:
        """Wait until the tests of agents whose runs removed memories were asked after these, and return the tests."""
        moved = [run for run in runs if run.finished_at is not None and any(map(run.counts.get, _REMOVED))]
        deadline = time.monotonic() + LIMIT_SECONDS
        for run in moved:
            while self.ledger.memory_tests.due(self.company, run.agent_id, before=run.finished_at or run.created_at):
                if time.monotonic() > deadline:
                    msg = f"the memory tests of {run.agent_id} were not asked"
                    raise MemoryStoreError(msg)
                time.sleep(_POLL_INTERVAL_SECONDS)
        return tuple(test for run in moved for test in self.ledger.memory_tests.list(self.company, run.agent_id))

    def run_maintenance(self, agent_ids: Iterable[str], *, due: datetime) -> dict[str, Run]:
        """Set the agents due and wait until beat, the tick and the workers have brought each through its run.

        Their next runs are put off: the slot of an hourly agent may come at any minute, and the accounts of the demo
        know of one run.
        """
        waiting = set(agent_ids)
        for agent_id in waiting:
            self.ledger.agents.set_due(self.company, agent_id, due)
        ended: dict[str, Run] = {}
        deadline = time.monotonic() + LIMIT_SECONDS
        while waiting:
            for run in self.ledger.runs.list(self.company, limit=1_000):
                if run.agent_id in waiting and run.origin == "scheduled" and run.state in _ENDED:
                    ended[run.agent_id] = run
            waiting -= ended.keys()
            if waiting and time.monotonic() > deadline:
                msg = f"the maintenance run did not end for {', '.join(sorted(waiting))}"
                raise MemoryStoreError(msg)
            time.sleep(_POLL_INTERVAL_SECONDS)
        for agent_id in ended:
            self.ledger.agents.set_due(self.company, agent_id, due + UNTIL_LATER)
        return ended

    def store_experience(self, experience: FleetExperience) -> str:
        """Send what an agent went through, wait until it is kept, and return its id."""
        receipt = self.client.record_experience(
            experience.agent,
            prompt=experience.prompt,
            output=experience.output,
            verification_feedback=experience.verification,
            reasoning_trace=experience.steps,
        )
        for _ in self.client.wait([receipt.job_id], timeout_seconds=LIMIT_SECONDS):
            pass
        return receipt.experience_id

    def lesson(self, agent_id: str) -> MemoryEntry | None:
        """Wait until the agent's experience is compressed and return what it learned; None when nothing came of it."""
        deadline = time.monotonic() + LIMIT_SECONDS
        query = MemoryQuery(tags=(COMPRESSED_TAG,), limit=1)
        while time.monotonic() < deadline:
            is_over = not self.ledger.experiences.has_raw(self.company, agent_id)
            found = self.runner.run(self.backend.retrieve(agent_id, query))
            if found or is_over:
                return found[0] if found else None
            time.sleep(_POLL_INTERVAL_SECONDS)
        return None

    def why(self, memory_id: str) -> MemoryHistory:
        """Return where a memory comes from, through every summary."""
        return self.runner.run(
            trace_memory(memory_id, backend=self.backend, ledger=self.ledger, company=self.company, journal_days=7)
        )

    def undo(self, run: Run) -> Run:
        """Take a run back through the queue and return the undo's own run."""
        receipt = self.client.undo(run.agent_id, run.run_id)
        for _ in self.client.wait([receipt.job_id], timeout_seconds=LIMIT_SECONDS):
            pass
        undone = self.ledger.runs.get(self.company, receipt.job_id)
        if undone is None or undone.state is not WorkState.DONE:
            msg = f"the undo ended as {undone.state if undone else 'nothing'}"
            raise MemoryStoreError(msg)
        return undone

    def search(self, question: FleetQuestion, *, limit: int) -> tuple[MemoryEntry, ...]:
        """Ask an agent's memory, in this process."""
        return self.runner.run(self.backend.retrieve(question.agent_id, MemoryQuery(text=question.text, limit=limit)))

    def live(self, agent_id: str) -> list[str]:
        """Return the ids of all that the store holds for an agent."""
        ids: list[str] = []
        cursor: str | None = None
        while True:
            page = self.runner.run(self.backend.scan(Where(agent_id=agent_id), cursor=cursor))
            ids += [record.entry.id for record in page.records]
            cursor = page.cursor
            if cursor is None:
                return ids

    def balance(self, agent_id: str, stored: Iterable[str]) -> Balance:
        """Return an agent's account from what client, journal and store hold."""
        return balance(stored=stored, tally=tally_of(self.ledger, self.company, agent_id), live=self.live(agent_id))


@contextmanager
def fleet_demo(settings: Settings) -> Iterator[FleetDemo]:
    """Connect to a running stack, as an engine and an operator would."""
    policy = effective_policy(settings.policy_path)
    backend = create_worker_backend(settings, policy)
    ledger = Ledger.open(settings.ledger_urls)
    with MemoryClient.from_settings(settings) as client, asyncio.Runner() as runner:
        runner.run(backend.connect())
        try:
            yield FleetDemo(company=settings.company, client=client, ledger=ledger, backend=backend, runner=runner)
        finally:
            runner.run(backend.disconnect())
            ledger.close()


#: How far ahead agents are planned while their memories come in: their runs must not begin before.
UNTIL_LATER = timedelta(hours=6)
