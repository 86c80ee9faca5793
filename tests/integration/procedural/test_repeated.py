"""Lessons that are drawn again: one memory, each task counted once, whoever draws them and wherever a worker dies."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.execution_traces import of_key
from support.fake_teacher import FakeTeacher
from support.fault_injection import AT_CALLS, Crash, Faults
from support.learning_fixture import FAILED, LearningFixture
from support.ledger_records import copied_urls
from support.lessons import answer
from support.memories import NOW
from support.wiki_fixture import COMPANY, WikiFixture

from memcore.jobs import Done
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.work_items import REDISPATCH_AFTER
from memcore.models.execution import TerminationReason, Turn
from memcore.models.origin import OWN, Origin

#: The same lesson in other words.
AGAIN = answer(discovery="Imports need room.", rationale="It happened once more.", confidence=0.7)


async def drawn(school: LearningFixture, *tasks: dict[str, Any], always: str = AGAIN) -> list[str | None]:
    """Draw a first lesson, then those of these tasks, and return the memory of each."""
    school.reported("first", **FAILED)
    assert await school.extract_lesson(lesson_id="first") == Done(facts={"stored": 1})
    for number, task in enumerate(tasks):
        school.reported(f"l-{number}", **{**FAILED, **task})
        await school.extract_lesson(FakeTeacher(always=always), f"l-{number}")
    return [school.lesson(f"l-{number}").memory_id for number in range(len(tasks))]


def taught(school: LearningFixture, memory_id: str | None) -> int:
    return school.ledger.lessons.taught(COMPANY, "ada", [memory_id or ""])[memory_id or ""].tasks


def number_of_folders(root: Path) -> int:
    return sum(path.is_dir() for path in root.iterdir())


async def test_a_lesson_that_is_drawn_again_is_counted_and_its_wording_kept(
    school: LearningFixture, tmp_path: Path
) -> None:
    school.reported("first", **FAILED)
    await school.extract_lesson(lesson_id="first", skills=tmp_path)
    school.clock.now += REDISPATCH_AFTER
    school.reported("again", task_id="t-2", **FAILED)
    assert await school.extract_lesson(FakeTeacher(always=AGAIN), "again", skills=tmp_path) == Done(
        facts={"repeated": 1}
    )
    (memory,) = await school.kept()
    first, again = school.lesson("first"), school.lesson("again")
    assert first.memory_id == again.memory_id == memory.entry.id
    assert again.text is not None
    assert "It happened once more." in again.text
    counted = school.ledger.lessons.taught(COMPANY, "ada", [memory.entry.id, "another"])
    assert {key: (each.tasks, each.last_at) for key, each in counted.items()} == {
        memory.entry.id: (2, again.created_at)
    }
    assert number_of_folders(tmp_path) == 1
    # A message that comes again counts nothing.
    await school.extract_lesson(FakeTeacher(always=AGAIN), "again")
    assert taught(school, memory.entry.id) == 2
    # What repeats is not copied to peers a second time.
    assert [each.lesson_id for each in school.ledger.lessons.unpropagated(COMPANY, "ada", limit=9)] == ["first"]


@pytest.mark.parametrize(
    "task",
    [
        {"turns": (Turn(tools=("shell", "browser")),)},
        {"error_category": "network"},
        {"task_type": "report"},
        {"termination_reason": TerminationReason.COMPLETED, "error_category": None, "recovery": None, "quality": 9.0},
    ],
)
async def test_the_same_words_about_another_kind_of_task_are_another_lesson(
    school: LearningFixture, task: dict[str, Any]
) -> None:
    (other,) = await drawn(school, {"task_id": "t-2", **task}, always=answer())
    assert other not in {None, school.lesson("first").memory_id}
    assert len(await school.kept()) == 2


async def test_the_same_tools_in_another_order_are_the_same_kind_of_task(school: LearningFixture) -> None:
    (again,) = await drawn(school, {"turns": (Turn(tools=("read_file", "shell", "shell")),)})
    assert again == school.lesson("first").memory_id


async def test_a_lesson_that_differs_in_what_to_do_stays_apart(school: LearningFixture) -> None:
    (other,) = await drawn(school, {"task_id": "t-2"}, always=answer(action="Never start the import again."))
    assert other != school.lesson("first").memory_id


@pytest.mark.parametrize(
    ("first", "again", "is_repeated"),
    [
        (of_key("k1"), of_key("k1"), True),
        (of_key("k1"), of_key("k1", "k2"), True),
        (OWN, of_key("k2"), True),
        (of_key("k1"), of_key("k2"), False),
        (of_key("k1"), OWN, False),
    ],
)
async def test_what_a_key_taught_is_not_hidden_with_what_another_one_had_taught_before(
    school: LearningFixture, first: Origin, again: Origin, is_repeated: bool
) -> None:
    school.reported("first", **FAILED, origin=first)
    school.reported("again", **FAILED, origin=again)
    await school.extract_lesson(lesson_id="first")
    await school.extract_lesson(FakeTeacher(always=AGAIN), "again")
    kept = {each.entry.id: each.entry.origin for each in await school.kept()}
    rows = {name: school.lesson(name) for name in ("first", "again")}
    assert {name: row.origin for name, row in rows.items()} == {"first": first, "again": again}
    assert (rows["again"].memory_id == rows["first"].memory_id) is is_repeated
    taught_by = {rows["first"].memory_id: first, **({} if is_repeated else {rows["again"].memory_id: again})}
    assert kept == taught_by
    # The earlier one's own memory comes back, where somebody removed it.
    await school.library.backend.delete_many("ada", [*kept])
    school.reported("later", task_id="t-9", **FAILED, origin=again)
    await school.extract_lesson(FakeTeacher(always=AGAIN), "later")
    (memory,) = await school.kept()
    assert memory.entry.id == rows["again"].memory_id


async def test_another_agent_draws_its_own(school: LearningFixture) -> None:
    await drawn(school)
    school.reported("bob's", agent_id="bob", **FAILED)
    assert await school.extract_lesson(lesson_id="bob's") == Done(facts={"stored": 1})
    assert len(await school.kept("bob")) == 1


async def test_a_removed_lesson_that_is_taught_again_comes_back(school: LearningFixture) -> None:
    (again,) = await drawn(school, {})
    assert again is not None
    await school.library.backend.delete_many("ada", [again])
    school.reported("later", **FAILED)
    assert await school.extract_lesson(FakeTeacher(always=AGAIN), "later") == Done(facts={"repeated": 1})
    (memory,) = await school.kept()
    assert memory.entry.id == again
    assert taught(school, again) == 3


async def test_when_the_first_execution_is_forgotten_the_memory_still_counts(school: LearningFixture) -> None:
    (again,) = await drawn(school, {})
    first = school.lesson("first")
    school.clock.now += REDISPATCH_AFTER
    assert school.ledger.lessons.expire(COMPANY, before=first.created_at) == 0
    school.reported("later", **FAILED)
    school.ledger.lessons.expire(COMPANY, before=school.clock())
    await school.extract_lesson(FakeTeacher(always=AGAIN), "later")
    # Its words are known from its memory alone, so that what says the same is stored beside it, and nothing is lost.
    assert {each.entry.id for each in await school.kept()} == {again, school.lesson("later").memory_id}


async def test_two_workers_that_draw_the_same_lesson_at_once_end_with_one(school: LearningFixture) -> None:
    for number in range(2):
        school.reported(f"l-{number}", task_id=f"t-{number}", **FAILED)
    done = await asyncio.gather(
        *(school.extract_lesson(FakeTeacher(always=text), f"l-{n}") for n, text in enumerate((answer(), AGAIN)))
    )
    assert sorted(str(each) for each in done) == sorted(
        str(Done(facts={outcome: 1})) for outcome in ("stored", "repeated")
    )
    (memory,) = await school.kept()
    assert taught(school, memory.entry.id) == 2


TEXTS = {"first": answer(), "again": AGAIN}


def draw(school: LearningFixture, lesson_id: str, faults: Faults) -> None:
    service = school.service(
        FakeTeacher(always=TEXTS[lesson_id]),
        backend=faults.backend(school.library.backend),
        ledger=faults.ledger(school.ledger),
    )
    asyncio.run(service.extract_lesson(lesson_id))


@pytest.mark.parametrize("dies", ["first", "again"])
@pytest.mark.parametrize("is_after", AT_CALLS)
def test_wherever_a_worker_dies_both_tasks_are_counted_once(
    folder: Path, ledger_template: Path, *, is_after: bool, dies: str
) -> None:
    points, is_over = 0, False
    while not is_over:
        school = LearningFixture(WikiFixture(copied_urls(ledger_template, folder / str(points)), folder))
        asyncio.run(school.library.backend.connect())
        for lesson_id in TEXTS:
            school.reported(lesson_id, task_id=lesson_id, **FAILED)
        faults = Faults(points, is_after=is_after)

        order = sorted(TEXTS, key=lambda each: each != dies)
        try:
            draw(school, order[0], faults)
            is_over = True
        except Crash:
            points += 1
        draw(school, order[1], Faults())
        school.clock.now = max(school.clock.now, NOW) + LEASE_LENGTH
        draw(school, order[0], Faults())
        kept = asyncio.run(school.kept())
        where = faults.calls[points - 1] if points else ""
        assert len(kept) == 1, where
        assert taught(school, kept[0].entry.id) == 2, where
        assert sorted(str(school.lesson(each).outcome) for each in TEXTS) == ["repeated", "stored"], where
        school.ledger.close()
    assert points >= 6
