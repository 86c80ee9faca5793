"""A fleet that learns, for tests of the evolver: executions with their lessons, a cycle, and what came of it."""

from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

from memcore import ids
from memcore.config.learning import EvolverConfig
from memcore.jobs import ApplicationOutcome, AppliedPayload
from memcore.ledger.agents import AgentSpec
from memcore.ledger.learning.patterns import PatternKind
from memcore.ledger.learning.skill_cycles import Cycle
from memcore.ledger.learning.skills import Skill, SkillSource, SkillState
from memcore.ledger.ledger import Ledger
from memcore.models.approval import Approval
from memcore.models.execution import TerminationReason, Turn
from memcore.procedural.records import LessonText
from memcore.skills.evolver import SkillEvolver
from memcore.skills.report import EvolverReport
from support.execution_traces import trajectory
from support.ledger_records import COMPANY, StoppedClock, finish_lesson, open_lesson
from support.lessons import lesson
from support.proposals import service_of

#: The task title of agents whose disk was full, in the words of their lessons.
DISK = "The nightly import stops: no space left on device"

#: What a chain is made of.
CHAIN = ("search_invoices", "write_refund")

#: The agents of what is usual, one letter for each execution.
BACKGROUND = "abcdefgh" * 6

CONFIG = EvolverConfig(enabled=True)


#: All that the evolver may call of the ledger.
READS = {
    "patterns": {"tally", "shared"},
    "trajectories": {"stream_added", "count", "count_added"},
    "lessons": {"of_pattern"},
    "skills": {"stream", "count", "votes"},
    "approvals": {"get", "page"},
    "shared_log": {"history"},
    "hidden": {"of"},
}


class ReadOnlyLedger:
    """A ledger that has nothing but the reads of the evolver: any other call fails the test."""

    def __init__(self, ledger: Ledger) -> None:
        for name, calls in READS.items():
            part = getattr(ledger, name)
            setattr(self, name, SimpleNamespace(**{call: getattr(part, call) for call in calls}))

    @classmethod
    def of(cls, ledger: Ledger) -> Ledger:
        return cast("Ledger", cls(ledger))


class Fleet:
    """Agents of one company, their ledger, and evolvers over it."""

    def __init__(self, ledger: Ledger, clock: StoppedClock, *, adds_agents: bool = True) -> None:
        self.ledger = ledger
        self.clock = clock
        #: Agents that a person need not add any more; None where only the test adds agents.
        self._added: set[str] | None = set() if adds_agents else None
        self.service = service_of(ledger.approvals)

    def execute(
        self,
        trace_id: str,
        agent_id: str,
        *,
        category: str | None = None,
        text: LessonText | None = None,
        ago: timedelta = timedelta(days=1),
        **more: Any,
    ) -> None:
        """An execution, a failure where it has a category, and what the agent learned from it."""
        if self._added is not None and agent_id not in self._added:
            self.ledger.agents.put(AgentSpec(company=COMPANY, agent_id=agent_id))
            self._added.add(agent_id)
        reason = TerminationReason.COMPLETED if category is None else TerminationReason.ERROR
        one = trajectory(trace_id, agent_id=agent_id, termination_reason=reason, error_category=category, **more)
        one = one.model_copy(update={"ended_at": self.clock() - ago})
        self.ledger.trajectories.append(COMPANY, one)
        if text is not None:
            self.teach(trace_id, agent_id, text)

    def teach(self, trace_id: str, agent_id: str, text: LessonText) -> None:
        open_lesson(self.ledger, COMPANY, agent_id, trace_id)
        finish_lesson(self.ledger, COMPANY, trace_id, "stored", memory_id=f"m-{trace_id}", confidence=text.confidence,
            text=text.model_dump_json(),
        )  # fmt: skip

    def fail(
        self, agents: str = "abcd", category: str = "disk", *, text: LessonText | None = None, **more: Any
    ) -> LessonText:
        """Let each agent, told in letters, fail once in a category of its own task type, and learn the same."""
        text = text or lesson()
        given: dict[str, Any] = {"task_type": category, "task_title": DISK, **more}
        for number, agent in enumerate(agents):
            self.execute(f"{category}-{agent}-{number}", agent, category=category, text=text, **given)
        return text

    def succeed(
        self, agents: str, name: str, tools: Sequence[str] = (), *, text: LessonText | None = None, **more: Any
    ) -> None:
        """Let each agent succeed once, with these tools."""
        turns = tuple(Turn(tools=(tool,)) for tool in tools)
        for number, agent in enumerate(agents):
            self.execute(f"{name}-{agent}-{number}", agent, text=text, turns=turns, **{"task_title": "Talk", **more})

    def work(self) -> None:
        """Let eight agents do other tasks well: what is usual, with which failures are compared."""
        self.succeed(BACKGROUND, "work", task_title="Walk the dogs", task_type="walk")

    def stand(
        self,
        text: LessonText,
        *,
        pattern_id: str = "other",
        skill_id: str = "skill",
        sources: tuple[SkillSource, ...] = (),
    ) -> str:
        """Add an active skill that was approved."""
        now = self.clock()
        self.ledger.skills.put(
            COMPANY,
            Skill(
                skill_id=skill_id,
                approval_id=f"approval of {skill_id}",
                pattern_id=pattern_id,
                state=SkillState.ACTIVE,
                confidence=text.confidence,
                text=text.model_dump_json(),
                published_at=now,
                changed_at=now,
                sources=sources,
            ),
        )
        return skill_id

    def apply(self, skill_id: str, agent: str, outcome: ApplicationOutcome) -> None:
        """Count that an agent applied a skill, or a lesson of its own, once."""
        payload = AppliedPayload(
            company=COMPANY,
            agent_id=agent,
            application_id=f"{skill_id} {agent}",
            skill_id=skill_id,
            outcome=outcome,
            applied_at=self.clock(),
        )
        assert self.ledger.skills.apply(payload, skill_id=skill_id)

    def cycle(self, cycle_id: str = "cycle") -> Cycle:
        now = self.clock()
        return Cycle(
            cycle_id=cycle_id,
            origin="manual",
            planned_at=now,
            window_start=now - timedelta(days=30),
            window_end=now,
        )

    def evolver(self, **config: Any) -> SkillEvolver:
        changed = EvolverConfig.model_validate({**CONFIG.model_dump(), **config})
        return SkillEvolver(ReadOnlyLedger.of(self.ledger), self.service, changed, company=COMPANY, clock=self.clock)

    async def run(self, cycle_id: str = "cycle", **config: Any) -> EvolverReport:
        return await self.evolver(**config).run(self.cycle(cycle_id))

    def proposed(self) -> list[Approval]:
        """All that was ever proposed, by the time it was, then by id."""
        return sorted(self.ledger.approvals.page(COMPANY), key=lambda each: (each.created_at, each.approval_id))


def pattern_of(category: str = "disk") -> str:
    return ids.pattern_id(company=COMPANY, kind=PatternKind.FAILURE, key=category)


def accounted(report: EvolverReport) -> int:
    """How many patterns the report says something about."""
    counts = report.model_dump(exclude={"patterns_found", "trajectories_analyzed", "supersessions"})
    return sum(each for each in counts.values() if isinstance(each, int))
