"""Outcomes of a task's lesson: each way has one word in the row, and a model is asked only where needed."""

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.execution_traces import of_key, trajectory
from support.fake_teacher import FakeTeacher
from support.learning_fixture import FAILED, LearningFixture
from support.lessons import ANSWER, CANARY, answer
from support.skill_format import problems_of
from support.wiki_fixture import COMPANY

from memcore.errors import BudgetExceededError, MemoryStoreError, ProviderError, RetryExhaustedError
from memcore.jobs import Dead, Deferred, Done, Skipped
from memcore.ledger.agents import AgentSpec
from memcore.ledger.journal import JournalEntry
from memcore.models.execution import TerminationReason, Turn
from memcore.models.memory import LATEST, MemoryLevel
from memcore.models.origin import AUTHORITIES, Channel, Origin
from memcore.procedural.records import LessonText
from memcore.procedural.service import RETRY
from memcore.telemetry.events import Event

DAY = timedelta(days=1)


def folders(place: Path) -> list[Path]:
    return [path for path in place.iterdir() if path.is_dir()]


def teacher(**changed: Any) -> FakeTeacher:
    return FakeTeacher(always=answer(**changed))


async def test_the_lesson_of_a_failure_is_a_memory_and_a_row(school: LearningFixture) -> None:
    school.reported(**FAILED)
    model = teacher()
    assert await school.extract_lesson(model) == Done(facts={"stored": 1})
    (memory,) = await school.kept()
    row = school.lesson()
    assert (row.outcome, row.memory_id, row.confidence) == ("stored", memory.entry.id, 0.9)
    assert row.text is not None
    assert LessonText.model_validate_json(row.text) == LessonText.model_validate(ANSWER)
    assert memory.entry.metadata.source == "failure:t-1"
    assert memory.entry.created_at == row.created_at
    assert memory.lineage.task_id == "t-1"
    (asked,) = model.asked
    (by,) = model.for_whom
    assert "no space left on device" in str(asked.messages)
    assert (by.agent_id, by.purpose) == ("ada", "system:memory:propose:failure")


async def test_a_message_that_comes_again_asks_and_writes_nothing(school: LearningFixture) -> None:
    school.reported(**FAILED)
    model = teacher()
    await school.extract_lesson(model)
    before = school.lesson()
    assert isinstance(await school.extract_lesson(model), Skipped)
    assert school.lesson() == before
    assert len(model.asked) == len(await school.kept()) == 1


#: What an execution that went well is known by.
DONE = {"turns": FAILED["turns"]}


async def test_a_success_tells_turns_and_tools_alone(school: LearningFixture) -> None:
    school.reported(task_title=CANARY, task_description=CANARY, turns=FAILED["turns"])
    model = teacher()
    assert await school.extract_lesson(model) == Done(facts={"stored": 1})
    assert CANARY not in str(model.asked)
    assert "read_file" in str(model.asked)
    (memory,) = await school.kept()
    assert memory.entry.metadata.source == "success:t-1"


async def test_what_was_recovered_from_teaches_as_a_failure_however_well_it_ended(school: LearningFixture) -> None:
    school.reported(recovery=FAILED["recovery"], retries=9)
    model = teacher(confidence=0.6)
    # A success of this confidence would be of too low a quality.
    assert await school.extract_lesson(model) == Done(facts={"stored": 1})
    (by,) = model.for_whom
    assert by.purpose == "system:memory:propose:failure"


@pytest.mark.parametrize(
    ("reported", "model", "policy", "outcome", "asked"),
    [
        (FAILED, teacher(confidence=0.4), {}, "low_confidence", 1),
        (DONE, teacher(confidence=0.7), {}, "low_quality", 1),
        (FAILED, FakeTeacher(always="no JSON"), {}, "malformed", 2),
        (FAILED, teacher(), {"enabled": False}, "disabled", 0),
        (FAILED, teacher(), {"capture": {"type": "success"}}, "not_chosen", 0),
        ({"quality": 7.9}, teacher(), {}, "low_quality", 0),
        ({**DONE, "quality": 8.0}, teacher(), {}, "stored", 1),
        # The first success of its agent stands at every percentile.
        ({**DONE, "quality": 9.0}, teacher(), {"capture": {"success_quality_percentile": 100}}, "stored", 1),
        # Of failures no quality is asked for.
        ({**FAILED, "quality": 1.0}, teacher(), {}, "stored", 1),
    ],
)
async def test_every_outcome_is_one_word_in_the_row(
    school: LearningFixture,
    reported: dict[str, Any],
    model: FakeTeacher,
    policy: dict[str, Any],
    outcome: str,
    asked: int,
) -> None:
    school.reported(**reported)
    assert await school.extract_lesson(model, **policy) == Done(facts={outcome: 1})
    row = school.lesson()
    assert row.outcome == outcome
    assert (row.memory_id is not None, row.text is not None) == (outcome == "stored", outcome == "stored")
    # Also a lesson that was too weak says how sure its model was.
    assert (row.confidence is not None) == (asked == 1)
    assert len(await school.kept()) == int(outcome == "stored")
    assert len(model.asked) == asked
    model.asked.clear()
    assert isinstance(await school.extract_lesson(model, **policy), Skipped)
    assert model.asked == []


async def test_only_the_best_successes_of_an_agent_teach(school: LearningFixture) -> None:
    # Ten of ada's own, one of them to be drawn; bob's, failures, and what is kept no longer count for nothing.
    keep = {"capture": {"min_quality_score": 0}, "evolver": {"keep_days": 300}}
    for number in range(1, 11):
        school.reported(f"q-{number}", task_id=f"t-{number}", quality=float(number), **DONE)
    school.ledger.trajectories.append(COMPANY, trajectory("bobs", agent_id="bob", quality=10.0))
    school.ledger.trajectories.append(COMPANY, trajectory("failed", **FAILED, quality=10.0))
    for number in range(40):
        old = trajectory(f"old-{number}", quality=10.0, younger=-101 * DAY)
        school.ledger.trajectories.append(COMPANY, old)
    model = teacher()
    assert await school.extract_lesson(model, "q-7", **keep) == Done(facts={"below_percentile": 1})
    assert model.asked == []
    assert await school.extract_lesson(model, "q-8", **keep) == Done(facts={"stored": 1})


async def test_a_task_that_is_kept_no_longer_teaches_nothing(school: LearningFixture) -> None:
    school.reported(**FAILED)
    school.ledger.trajectories.expire(COMPANY, before=LATEST)
    model = teacher()
    assert await school.extract_lesson(model) == Done(facts={"gone": 1})
    school.ledger.lessons.expire(COMPANY, before=LATEST)
    assert isinstance(await school.extract_lesson(model), Dead)
    assert model.asked == []


@pytest.mark.parametrize("level", [MemoryLevel.NONE, MemoryLevel.SESSION, MemoryLevel.PROJECT])
async def test_an_agent_whose_level_was_lowered_meanwhile_learns_nothing(
    school: LearningFixture, level: MemoryLevel
) -> None:
    school.reported(**FAILED)
    school.ledger.agents.put(AgentSpec(company=COMPANY, agent_id="ada", level=level))
    model = teacher()
    assert await school.extract_lesson(model) == Done(facts={"level": 1})
    assert model.asked == []


async def test_a_lesson_that_a_run_removed_does_not_rise_again(school: LearningFixture) -> None:
    school.reported(**FAILED)
    await school.extract_lesson()
    (memory,) = await school.kept()
    school.reported("l-2", **FAILED)
    school.clock.now += DAY
    journal_entry = JournalEntry(
        booking_id="b", run_id="r", company=COMPANY, agent_id="ada", seq=0, reason="expired",
        incoming=(), incoming_kind="created", outgoing=(memory,),
    )  # fmt: skip
    school.ledger.journal.prepare(journal_entry)
    await school.library.backend.delete_many("ada", [memory.entry.id])
    school.ledger.journal.settle("b")
    assert await school.extract_lesson(lesson_id="l-2") == Done(facts={"buried": 1})
    assert await school.kept() == []
    # The same task fails again after that run: then it is learned anew, without a second question.
    school.clock.now += DAY
    school.reported("l-3", **FAILED)
    model = teacher()
    assert await school.extract_lesson(model, "l-3") == Done(facts={"repeated": 1})
    assert model.asked == []


async def test_a_spent_budget_lets_the_lesson_sleep_until_the_next_day(school: LearningFixture) -> None:
    school.reported(**FAILED)
    until = school.clock() + timedelta(hours=5)
    broke = FakeTeacher(always=BudgetExceededError("nothing left today", until=until))
    assert await school.extract_lesson(broke) == Deferred(reason="nothing left today")
    assert (school.lesson().outcome, school.lesson().attempt) == (None, 0)
    school.clock.now = until - timedelta(seconds=1)
    assert school.ledger.work.take_due(limit=9) == ()
    school.clock.now = until
    (woken,) = school.ledger.work.take_due(limit=9)
    assert await school.extract_lesson(lesson_id=woken.key) == Done(facts={"stored": 1})


@pytest.mark.parametrize(
    ("trouble", "outcome"),
    [(RetryExhaustedError("503"), "unavailable"), (ProviderError("401: the key is wrong"), "refused")],
)
async def test_a_model_that_is_away_or_refuses_is_asked_later_and_not_for_ever(
    school: LearningFixture, caplog: pytest.LogCaptureFixture, trouble: Exception, outcome: str
) -> None:
    caplog.set_level(logging.INFO)
    school.reported(**FAILED)
    began = school.clock()
    away = FakeTeacher(always=trouble)
    for tries in range(1, RETRY.attempts or 0):
        assert isinstance(await school.extract_lesson(away), Deferred), tries
        assert school.lesson().attempt == tries
        school.clock.now += RETRY.delay(tries)
    assert school.clock() - began > 3 * DAY
    assert Event.PROCEDURAL_MEMORY_LESSON_PUT_OFF in caplog.messages
    assert await school.extract_lesson(away) == Done(facts={outcome: 1})
    assert school.lesson().outcome == outcome
    assert Event.PROCEDURAL_MEMORY_LESSON_DRAWN in caplog.messages


async def test_a_model_that_comes_back_is_asked_the_same_question(school: LearningFixture) -> None:
    school.reported(**FAILED)
    model = FakeTeacher(script=[RetryExhaustedError("503")], always=answer())
    assert isinstance(await school.extract_lesson(model), Deferred)
    assert await school.extract_lesson(model) == Done(facts={"stored": 1})
    assert len(model.keys) == 1


async def test_of_two_who_draw_one_lesson_the_second_leaves_it_to_the_first(school: LearningFixture) -> None:
    school.reported(**FAILED)
    model = teacher()
    seen: list[object] = []

    class Slow(FakeTeacher):
        async def ask(self, request: Any, *, by: Any, key: str) -> Any:
            # While the first one's model thinks.
            seen.append(await school.extract_lesson(model))
            return await super().ask(request, by=by, key=key)

    assert await school.extract_lesson(Slow(always=answer())) == Done(facts={"stored": 1})
    assert isinstance(seen[0], Skipped)
    assert model.asked == []


@pytest.mark.parametrize("whose", ["company", "agent"])
async def test_who_is_paused_learns_later(school: LearningFixture, whose: str) -> None:
    school.reported(**FAILED)
    model = teacher()
    school.ledger.agents.put(AgentSpec(company=COMPANY, agent_id="ada"))
    if whose == "company":
        school.ledger.companies.pause(COMPANY)
    else:
        school.ledger.agents.pause(COMPANY, "ada")
    assert isinstance(await school.extract_lesson(model), Deferred)
    assert model.asked == []
    assert (school.lesson().outcome, school.lesson().attempt) == (None, 0)
    school.ledger.companies.resume(COMPANY)
    school.ledger.agents.resume(COMPANY, "ada")
    assert await school.extract_lesson(model) == Done(facts={"stored": 1})


async def test_without_a_model_the_lesson_waits(school: LearningFixture) -> None:
    school.reported(**FAILED)
    assert isinstance(await school.service(None).extract_lesson("l-1"), Skipped)
    assert school.lesson().outcome is None


async def test_trouble_of_the_store_comes_back_to_an_answer_that_is_kept(
    school: LearningFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    school.reported(**FAILED)
    model = teacher()

    async def full(_records: object) -> None:
        raise MemoryStoreError("full")

    with monkeypatch.context() as patched:
        patched.setattr(school.library.backend, "store_many", full)
        assert await school.extract_lesson(model) == Deferred(reason="MemoryStoreError")
    assert (school.lesson().outcome, school.lesson().attempt) == (None, 1)
    assert await school.extract_lesson(model) == Done(facts={"stored": 1})
    assert len(model.asked) == 1


async def test_a_lesson_whose_attempts_are_used_up_says_so(school: LearningFixture) -> None:
    school.reported(**FAILED)
    for _ in range(RETRY.attempts or 0):
        school.ledger.lessons.claim(COMPANY, "l-1", lease=timedelta(0))
    assert isinstance(await school.extract_lesson(), Dead)
    assert (school.lesson().outcome, school.lesson().drawn_at) == ("failed", school.clock())
    assert school.ledger.lessons.outcomes(COMPANY) == {"failed": 1}


async def test_what_is_learned_of_a_task_that_expires_meanwhile_is_dropped(school: LearningFixture) -> None:
    school.reported(**FAILED)

    class Eraser(FakeTeacher):
        async def ask(self, request: Any, *, by: Any, key: str) -> Any:
            school.ledger.trajectories.expire(COMPANY, before=LATEST)
            school.ledger.lessons.expire(COMPANY, before=LATEST)
            return await super().ask(request, by=by, key=key)

    assert isinstance(await school.extract_lesson(Eraser(always=answer())), Skipped)
    assert await school.kept() == []


async def test_the_lesson_is_written_as_a_skill_folder_where_the_policy_names_one(
    school: LearningFixture, tmp_path: Path
) -> None:
    school.reported(**FAILED)
    await school.extract_lesson(skills=tmp_path)
    assert [problems_of(each) for each in folders(tmp_path)] == [[]]


async def test_no_word_of_a_task_or_a_lesson_is_logged(
    school: LearningFixture, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    school.reported(task_title=CANARY, **FAILED)
    await school.extract_lesson(teacher(action=f"Ask {CANARY}."))
    assert Event.PROCEDURAL_MEMORY_LESSON_DRAWN in caplog.messages
    assert CANARY not in "".join(str(vars(each)) for each in caplog.records)


async def test_the_lesson_of_a_success_knows_what_failed_before_at_the_same_task(school: LearningFixture) -> None:
    school.reported("f-1", task_id="t", **FAILED)
    school.reported("f-2", task_id="t", younger=DAY, **{**FAILED, "error_category": "network", "error_message": None})
    stopped = {"termination_reason": TerminationReason.CANCELLED, "error_category": "stopped"}
    school.reported("stopped", task_id="t", younger=DAY, **stopped)
    school.reported("other", task_id="u", **{**FAILED, "error_category": "other"})
    school.reported("bob", agent_id="bob", task_id="t", **{**FAILED, "error_category": "bob's"})
    school.reported("later", task_id="t", younger=3 * DAY, **{**FAILED, "error_category": "later"})
    school.reported("s", task_id="t", younger=2 * DAY, turns=(Turn(tools=("copy",), arguments=({"path": "string"},)),))
    model = teacher()
    assert await school.extract_lesson(model, "s") == Done(facts={"stored": 1})
    said = model.asked[0].messages[1].content
    assert "disk after read_file: no space left on device\nnetwork after read_file\n" in said
    assert "copy(path: string)" in said
    assert not any(word in said for word in ("stopped", "other", "bob", "later"))


async def test_a_lesson_has_the_origins_of_all_that_the_model_read(school: LearningFixture) -> None:
    school.reported("failed", task_id="t", origin=of_key("k1"), **FAILED)
    tool = Origin(channels=(Channel.TOOL,), principals=("k2",))
    school.reported("again", task_id="t", younger=DAY, origin=tool, **FAILED)
    school.reported("s", task_id="t", younger=2 * DAY, origin=of_key("k3"))
    assert await school.extract_lesson(teacher(), "s") == Done(facts={"stored": 1})
    (memory,) = await school.kept()
    every = Origin(channels=(Channel.AGENT, Channel.TOOL), principals=("k1", "k2", "k3"))
    assert memory.entry.origin == school.lesson("s").origin == every
    assert memory.entry.with_authority(AUTHORITIES).authority == "reference"


@pytest.mark.parametrize("reason", ["cancelled", "shutdown", "parked"])
async def test_no_model_is_asked_about_a_task_that_was_interrupted(school: LearningFixture, reason: str) -> None:
    # As an earlier release opened it.
    school.reported(termination_reason=TerminationReason(reason), error_category="gone")
    model = teacher()
    assert await school.extract_lesson(model) == Done(facts={"not_chosen": 1})
    assert model.asked == []
