"""A crew for jobs under test: a real ledger, and a desk, a bell and nights that the test writes the script for."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from memcore.clock import Clock, utc_now
from memcore.config.policy import Policy
from memcore.finetune.service import Step
from memcore.ingest import Written
from memcore.jobs.outcomes import Done, Outcome
from memcore.jobs.payloads import LessonPayload, StoreItem
from memcore.ledger.learning.skill_cycles import Cycle
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_answers import Synthesis
from memcore.ledger.runs import Run
from memcore.llm.protocol import Model
from memcore.maintenance.consolidation.answers import Asked
from memcore.reindex.service import Slice


@dataclass
class ScriptedDesk:
    """Answers as the test says: how many were stored, all that became of them, an error, or never (None)."""

    answer: int | Written | Exception | None = 1
    taken: list[tuple[StoreItem, ...]] = field(default_factory=list)

    def submit(self, items: Sequence[StoreItem]) -> "Future[Written]":
        self.taken.append(tuple(items))
        future: Future[Written] = Future()
        if isinstance(self.answer, Exception):
            future.set_exception(self.answer)
        elif isinstance(self.answer, Written):
            future.set_result(self.answer)
        elif self.answer is not None:
            ids = [item.id for item in items]
            stored, buried = ids[: self.answer], ids[self.answer :]
            future.set_result(Written(stored=frozenset(stored), buried=frozenset(buried)))
        return future


@dataclass
class RecordingBell:
    """Remembers whom it rang for."""

    rung: list[Run] = field(default_factory=list)
    parts: list[Synthesis] = field(default_factory=list)
    experience: list[tuple[str, str]] = field(default_factory=list)
    lessons: list[LessonPayload] = field(default_factory=list)
    cycles: list[Cycle] = field(default_factory=list)
    reindexes: list[str] = field(default_factory=list)
    finetunes: list[tuple[str, str]] = field(default_factory=list)
    error: Exception | None = None

    def ring_many(self, runs: Iterable[Run]) -> None:
        if self.error is not None:
            raise self.error
        self.rung.extend(runs)

    def ring_parts(self, parts: Iterable[Synthesis]) -> None:
        if self.error is not None:
            raise self.error
        self.parts.extend(parts)

    def ring_experience(self, company: str, agent_ids: Iterable[str]) -> None:
        if self.error is not None:
            raise self.error
        self.experience.extend((company, agent_id) for agent_id in agent_ids)

    def ring_lessons(self, lessons: Iterable[LessonPayload]) -> None:
        if self.error is not None:
            raise self.error
        self.lessons.extend(lessons)

    def ring_cycles(self, company: str, cycles: Iterable[Cycle]) -> None:
        del company
        if self.error is not None:
            raise self.error
        self.cycles.extend(cycles)

    def ring_reindex(self, company: str) -> None:
        if self.error is not None:
            raise self.error
        self.reindexes.append(company)

    def ring_finetune(self, company: str, run_id: str) -> None:
        if self.error is not None:
            raise self.error
        self.finetunes.append((company, run_id))


@dataclass
class ScriptedCrew:
    """See tasks.context.Crew."""

    ledger: Ledger
    company: str = "acme"
    policy: Policy = field(default_factory=Policy)
    desk: ScriptedDesk = field(default_factory=ScriptedDesk)
    bell: RecordingBell = field(default_factory=RecordingBell)
    clock: Clock = utc_now
    night: Callable[[str], Outcome] = lambda _run_id: Done(facts={"live": 3})

    model: Model | None = None
    compressing: Callable[[str], Outcome] = lambda _agent_id: Done(facts={"compressed": 1})
    drawing: Callable[[str], Outcome] = lambda _lesson_id: Done(facts={"stored": 1})
    evolving: Callable[[str], Outcome] = lambda _cycle_id: Done(facts={"proposals_emitted": 1})
    passing_on: Callable[[str], int] = lambda _agent_id: 0
    exported: list[str] = field(default_factory=list)
    tended: int = 0
    tended_org: int = 0
    slice: Slice = field(default_factory=lambda: Slice(outcome=Done(), goes_on=True))
    step: Step = field(default_factory=lambda: Step(outcome=Done(), goes_on=True))
    asking: Callable[[str, int], Asked] = lambda _run_id, _place: Asked(outcome=Done(facts={"asked": 1}))

    def maintain(self, run_id: str) -> Outcome:
        return self.night(run_id)

    def synthesize(self, run_id: str, place: int) -> Asked:
        return self.asking(run_id, place)

    def compress(self, agent_id: str) -> Outcome:
        return self.compressing(agent_id)

    def draw_lesson(self, lesson_id: str) -> Outcome:
        return self.drawing(lesson_id)

    def evolve(self, cycle_id: str) -> Outcome:
        return self.evolving(cycle_id)

    def pass_on(self, agent_id: str) -> int:
        return self.passing_on(agent_id)

    def reindex(self) -> Slice:
        return self.slice

    def finetune(self, run_id: str) -> Step:
        del run_id
        return self.step

    def tend_approvals(self) -> None:
        self.tended += 1

    def tend_org(self) -> None:
        self.tended_org += 1

    def export_wiki(self, agent_id: str) -> None:
        self.exported.append(agent_id)
