"""What came of a lesson changes its confidence, whatever happens between the count and the memory."""

import pytest
from support.learning_fixture import FAILED, LearningFixture
from support.wiki_fixture import COMPANY

from memcore.errors import MemoryConnectionError
from memcore.jobs import AppliedPayload
from memcore.ledger.learning.bounds import lower_bound, upper_bound
from memcore.models.memory import MemoryMetadata
from memcore.skills.applications import ApplicationService


def service(school: LearningFixture) -> ApplicationService:
    return ApplicationService(school.library.backend, school.ledger, company=COMPANY)


async def learned(school: LearningFixture) -> str:
    school.reported(**FAILED)
    await school.extract_lesson()
    return school.lesson().memory_id or ""


def application(school: LearningFixture, memory_id: str, number: int, outcome: str) -> AppliedPayload:
    return AppliedPayload.model_validate(
        {
            "company": COMPANY,
            "agent_id": "ada",
            "application_id": f"{number}",
            "skill_id": memory_id,
            "outcome": outcome,
            "applied_at": school.clock(),
        }
    )


async def metadata(school: LearningFixture, memory_id: str) -> MemoryMetadata:
    (record,) = await school.library.backend.get_many("ada", [memory_id])
    return record.entry.metadata


async def test_applications_bound_the_confidence_from_both_sides(school: LearningFixture) -> None:
    memory_id = await learned(school)
    before, counting = await metadata(school, memory_id), service(school)
    # One success proves little, and takes nothing away.
    assert await counting.count(application(school, memory_id, 0, "success"))
    assert await metadata(school, memory_id) == before
    for number in range(1, 10):
        await counting.count(application(school, memory_id, number, "failure"))
    lowered = await metadata(school, memory_id)
    assert lowered == before.model_copy(update={"confidence": upper_bound(1, 10)})
    for number in range(10, 200):
        await counting.count(application(school, memory_id, number, "success"))
    assert (await metadata(school, memory_id)).confidence == pytest.approx(lower_bound(191, 200))


async def test_a_store_that_was_away_is_caught_up_when_the_message_comes_again(
    school: LearningFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_id = await learned(school)
    counting = service(school)
    for number in range(9):
        await counting.count(application(school, memory_id, number, "failure"))

    async def away(*_args: object, **_kwargs: object) -> int:
        raise MemoryConnectionError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(school.library.backend, "set_metadata_many", away)
        with pytest.raises(MemoryConnectionError):
            await counting.count(application(school, memory_id, 9, "failure"))
    assert (await metadata(school, memory_id)).confidence == upper_bound(0, 9)
    assert not await counting.count(application(school, memory_id, 9, "failure"))
    assert school.ledger.skills.applications(COMPANY, [memory_id])[memory_id].applications == 10
    assert (await metadata(school, memory_id)).confidence == upper_bound(0, 10)


async def test_what_is_no_lesson_keeps_its_confidence(school: LearningFixture) -> None:
    memory_id = await learned(school)
    (record,) = await school.library.backend.get_many("ada", [memory_id])
    await school.library.backend.delete_many("ada", [memory_id])
    record.extra.clear()
    await school.library.backend.store_many([record])
    for number in range(9):
        await service(school).count(application(school, memory_id, number, "failure"))
    assert (await metadata(school, memory_id)).confidence == 0.9
