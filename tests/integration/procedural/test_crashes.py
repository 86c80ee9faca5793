"""A crash at every single call on the way of a lesson: one memory, one bill a question, one row that tells the truth.

The way begins with a finished task in the store worker's hand, and ends with the row in the llm worker's.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from support.execution_traces import trace
from support.fake_teacher import FakeTeacher
from support.fault_injection import AT_CALLS, Crash, Faults
from support.learning_fixture import FAILED, LearningFixture
from support.ledger_records import copied_urls
from support.lessons import answer
from support.memories import NOW
from support.skill_format import problems_of
from support.wiki_fixture import COMPANY, WikiFixture

from memcore import ids
from memcore.config.learning import ProceduralMemoryConfig
from memcore.distillation import Capture
from memcore.ingest import Ingestor, WriteResult
from memcore.jobs import DistillPayload, Done, StoreItem
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.work_items import REDISPATCH_AFTER
from memcore.models.memory import ConsolidationInterval, MemoryLevel

TRACE_ID = ids.trace_id(company=COMPANY, agent_id="ada", trace="{}")

JOB = DistillPayload(company=COMPANY, agent_id="ada", trace_id=TRACE_ID, trace=trace(**FAILED), sent_at=NOW)

#: Between the two an answer is on its way into the ledger: the question is put again, under its key, and a provider
#: that knows the key sends no second bill.
ON_ITS_WAY = {"model.ask", "answers.finish"}


def capture(school: LearningFixture, faults: Faults) -> Capture:
    watched = faults.ledger(school.ledger)
    ingestor = Ingestor(
        faults.backend(school.library.backend),
        watched,
        company=COMPANY,
        interval=ConsolidationInterval.DAILY,
        level=MemoryLevel.PERSISTENT,
    )

    def store(item: StoreItem) -> WriteResult:
        return asyncio.run(ingestor.write([item]))

    return Capture(
        watched,
        store,
        level=MemoryLevel.PERSISTENT,
        procedural=ProceduralMemoryConfig(),
        clock=school.clock,
    )


async def drawn(school: LearningFixture, model: FakeTeacher, faults: Faults, skills: Path) -> None:
    service = school.service(
        faults.watched(model, "model"),
        backend=faults.backend(school.library.backend),
        ledger=faults.ledger(school.ledger),
        skills=skills,
    )
    for item in school.ledger.work.take_due(limit=9):
        assert isinstance(await service.extract_lesson(item.key), Done)


def learned(school: LearningFixture, model: FakeTeacher, faults: Faults, skills: Path) -> None:
    """Carry one task the whole way; messages that were lost are found by their rows, as the sweep finds them."""
    capture(school, faults).take(JOB)
    school.clock.now += REDISPATCH_AFTER
    asyncio.run(drawn(school, model, faults, skills))


@pytest.mark.parametrize("is_after", AT_CALLS)
def test_after_a_crash_anywhere_the_next_attempt_ends_it(
    folder: Path, ledger_template: Path, record_property: Callable[[str, object], None], *, is_after: bool
) -> None:
    points, is_over = 0, False
    while not is_over:
        place = folder / str(points)
        school = LearningFixture(WikiFixture(copied_urls(ledger_template, place), place))
        asyncio.run(school.library.backend.connect())
        # The first answer cannot be read, so that both questions of a lesson are on the way.
        model = FakeTeacher(script=["no JSON"], always=answer())
        faults = Faults(points, is_after=is_after)
        try:
            learned(school, model, faults, place / "skills")
            is_over = True
        except Crash:
            points += 1
        # What the dead worker held is free again; its message comes back long after.
        school.clock.now += LEASE_LENGTH
        learned(school, model, Faults(), place / "skills")

        where = faults.calls[points - 1] if points else ""
        row = school.lesson(TRACE_ID)
        lessons = [each for each in asyncio.run(school.kept()) if each.entry.id != TRACE_ID]
        assert [each.entry.id for each in lessons] == [row.memory_id], f"not one memory after {where}"
        assert (row.outcome, row.confidence) == ("stored", 0.9), where
        assert school.ledger.lessons.outcomes(COMPANY) == {"stored": 1}, where
        assert school.ledger.trajectories.count(COMPANY) == 1, where
        assert [problems_of(each) for each in (place / "skills").glob("*-*/")] == [[]], where
        assert len(model.paid) == len(model.keys), "each key is billed once by a provider that knows it"
        assert len(model.keys) == 2 or where in ON_ITS_WAY, where
        assert set(model.keys.values()) == {1} or where in ON_ITS_WAY, f"asked twice after {where}"
        school.ledger.close()
    assert points >= 20
    record_property("points", points)
    print(f"{points} points")  # noqa: T201  # how much was tried
