"""Tasks from which agents learn, and the lessons that are drawn from them."""

from pathlib import Path
from typing import Any

from memcore.backends.protocol import BatchBackend
from memcore.config.learning import ProceduralMemoryConfig
from memcore.jobs import Outcome
from memcore.ledger.learning.lessons import Lesson
from memcore.ledger.ledger import Ledger
from memcore.llm.protocol import Model
from memcore.models.execution import Recovery, TerminationReason, Turn
from memcore.models.memory import MemoryLevel
from memcore.procedural.service import LearningService
from memcore.procedural.skill_files import SkillFolders
from memcore.records import MemoryRecord, Where
from support.execution_traces import trajectory
from support.fake_teacher import FakeTeacher
from support.lessons import answer
from support.wiki_fixture import COMPANY, WikiFixture

#: An execution that failed.
FAILED: dict[str, Any] = {
    "termination_reason": TerminationReason.ERROR,
    "error_category": "disk",
    "error_message": "no space left on device",
    "recovery": Recovery(strategy="retry", max_retries=3),
    "turns": (Turn(tokens=9, tools=("shell", "read_file")),),
}


class LearningFixture:
    """Store and ledger of one company whose agents learn."""

    def __init__(self, library: WikiFixture) -> None:
        self.library = library
        self.ledger = library.ledger
        self.clock = library.clock

    def reported(self, lesson_id: str = "l-1", *, agent_id: str = "ada", **more: Any) -> None:
        """Record a task whose lesson is to be drawn."""
        made = trajectory(lesson_id, agent_id=agent_id, **more)
        assert self.ledger.trajectories.append(COMPANY, made, lesson_at=self.clock())

    def service(
        self,
        model: Model | None,
        *,
        backend: BatchBackend | None = None,
        ledger: Ledger | None = None,
        level: MemoryLevel = MemoryLevel.PERSISTENT,
        skills: Path | None = None,
        **policy: Any,
    ) -> LearningService:
        return LearningService(
            backend or self.library.backend,
            ledger or self.ledger,
            ProceduralMemoryConfig.model_validate(policy),
            company=COMPANY,
            level=level,
            model=model,
            skills=None if skills is None else SkillFolders(skills, company=COMPANY),
            clock=self.clock,
        )

    async def extract_lesson(self, model: Model | None = None, lesson_id: str = "l-1", **given: Any) -> Outcome:
        return await self.service(model or FakeTeacher(always=answer()), **given).extract_lesson(lesson_id)

    def lesson(self, lesson_id: str = "l-1") -> Lesson:
        found = self.ledger.lessons.get(COMPANY, lesson_id)
        assert found is not None
        return found

    async def kept(self, agent_id: str = "ada") -> list[MemoryRecord]:
        return list((await self.library.backend.scan(Where(agent_id=agent_id))).records)
