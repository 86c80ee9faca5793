import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.execution_traces import trajectory
from support.fake_teacher import FakeTeacher
from support.lessons import ANSWER, CANARY, FAILURE, SUCCESS, TombstoneRecorder, answer, lesson
from support.memories import DAWN, NOW
from support.skill_format import problems_of

from memcore.backends.inmemory import InMemoryBackend
from memcore.config.learning import CaptureConfig, ProceduralMemoryConfig
from memcore.errors import MemoryStoreError, ProviderError, RetryExhaustedError
from memcore.ingest import Tombstones
from memcore.models.execution import Recovery, TerminationReason
from memcore.procedural.capture import (
    CaptureOutcome,
    ProceduralCapture,
    is_among_the_best,
    is_good_enough,
    says_the_same,
    takes,
)
from memcore.procedural.records import ProceduralMemoryProposal, proposal_of
from memcore.procedural.skill_files import SkillFolders
from memcore.records import MemoryRecord, Where
from memcore.telemetry.events import Event


@pytest.fixture
async def backend() -> InMemoryBackend:
    made = InMemoryBackend(company="acme", clock=lambda: NOW)
    await made.connect()
    return made


def capture(
    backend: InMemoryBackend,
    model: FakeTeacher,
    *,
    tombstones: Tombstones | None = None,
    skills: SkillFolders | None = None,
    **policy: Any,
) -> ProceduralCapture:
    config = ProceduralMemoryConfig.model_validate(policy)
    return ProceduralCapture(
        backend,
        model,
        config,
        company="acme",
        tombstones=TombstoneRecorder() if tombstones is None else tombstones,
        skills=skills,
    )


async def kept(backend: InMemoryBackend) -> list[MemoryRecord]:
    return list((await backend.scan(Where(agent_id="ada"), cursor=None, limit=100)).records)


async def test_a_failure_becomes_a_memory_that_is_a_lesson(backend: InMemoryBackend) -> None:
    captured = await capture(backend, FakeTeacher(always=answer(scope="org"))).run("ada", FAILURE, learned_at=NOW)
    (found,) = await kept(backend)
    assert captured.outcome is CaptureOutcome.STORED
    assert captured.memory_id == found.entry.id
    assert captured.proposal == ProceduralMemoryProposal.model_validate(ANSWER)
    assert ANSWER["action"] not in repr(captured)
    assert captured.refused == ("scope",)
    assert (captured.skill, captured.skill_failures) == (None, 0)
    assert proposal_of(found) == ProceduralMemoryProposal.model_validate(ANSWER)
    assert found.entry.metadata.source == "failure:ticket-4711"
    assert found.lineage.task_id == "ticket-4711"
    assert found.entry.created_at == NOW


async def test_the_same_execution_told_twice_is_one_memory(backend: InMemoryBackend) -> None:
    for _ in range(2):
        await capture(backend, FakeTeacher(always=answer())).run("ada", FAILURE, learned_at=NOW)
    assert len(await kept(backend)) == 1


async def test_a_lesson_that_was_removed_since_its_task_was_told_does_not_rise_again(backend: InMemoryBackend) -> None:
    first = await capture(backend, FakeTeacher(always=answer())).run("ada", FAILURE, learned_at=DAWN)
    assert first.memory_id is not None
    await backend.delete_many("ada", [first.memory_id])
    tombstones = TombstoneRecorder({first.memory_id: NOW})
    again = await capture(backend, FakeTeacher(always=answer()), tombstones=tombstones).run(
        "ada", FAILURE, learned_at=DAWN
    )
    assert (again.outcome, again.memory_id) == ("buried", None)
    assert await kept(backend) == []
    # The same lesson of a task that was told later is a lesson anew.
    later = NOW + timedelta(seconds=1)
    anew = await capture(backend, FakeTeacher(always=answer()), tombstones=tombstones).run(
        "ada", FAILURE, learned_at=later
    )
    assert (anew.outcome, anew.memory_id) == ("stored", first.memory_id)


async def test_a_run_that_removes_a_lesson_while_it_is_written_wins(backend: InMemoryBackend) -> None:
    class MaintenanceRun(TombstoneRecorder):
        health_checks = 0

        def tombstoned(self, sent: Mapping[str, datetime]) -> frozenset[str]:
            self.health_checks += 1
            return frozenset(sent) if self.health_checks > 1 else frozenset()

    captured = await capture(backend, FakeTeacher(always=answer()), tombstones=MaintenanceRun()).run(
        "ada", FAILURE, learned_at=NOW
    )
    assert captured.outcome == "buried"
    assert await kept(backend) == []


@pytest.mark.parametrize(
    ("strategy", "of_failures", "of_successes"),
    [("failure", True, False), ("success", False, True), ("hybrid", True, True)],
)
def test_the_strategy_says_what_teaches(strategy: str, of_failures: bool, of_successes: bool) -> None:
    config = CaptureConfig.model_validate({"type": strategy})
    assert takes(config, trajectory("f", termination_reason=TerminationReason.ERROR)) is of_failures
    assert takes(config, trajectory("s")) is of_successes


@pytest.mark.parametrize("reason", TerminationReason)
def test_an_interruption_is_no_failure_unless_it_had_to_be_recovered_from(reason: TerminationReason) -> None:
    interrupted = reason in {"cancelled", "parked", "shutdown"}
    ended = trajectory("t", termination_reason=reason)
    assert [takes(CaptureConfig(type=kind), ended) for kind in ("failure", "success", "hybrid")] == [
        not interrupted and reason != "completed",
        reason == "completed",
        not interrupted,
    ]
    recovered = trajectory("t", termination_reason=reason, recovery=Recovery(strategy="resume"))
    assert takes(CaptureConfig(type="failure"), recovered)


@pytest.mark.parametrize(
    ("changed", "is_same"),
    [
        ({}, True),
        ({"discovery": "Imports stop at 3 in the morning.", "rationale": "Ada lost 40 minutes to it."}, True),
        ({"condition": "Please note: the nightly import stops with 'no space left on device'."}, True),
        ({"condition": "The nightly import stops with 'no space left on device' (ticket-2)."}, True),
        ({"execution_steps": ANSWER["execution_steps"][:2]}, True),
        ({"condition": "The nightly import stops with 'no space left on device' (ticket-3)."}, False),
        ({"action": "Never move exports older than a week away, then start the import again."}, False),
        ({"action": "Move exports older than 2 weeks away, then start the import again."}, False),
        ({"action": "Move exports older than a week to Bob, then start the import again."}, False),
        ({"execution_steps": [*ANSWER["execution_steps"], "Tell the operator."]}, False),
        ({"execution_steps": list(reversed(ANSWER["execution_steps"]))}, False),
    ],
)
def test_a_lesson_repeats_another_when_each_thing_to_do_is_the_same(changed: dict[str, Any], *, is_same: bool) -> None:
    assert says_the_same(lesson(**changed), lesson(), tasks=("ticket-1", "ticket-2")) is is_same


@pytest.mark.parametrize(("confidence", "is_enough"), [(0.8, True), (0.79, False), (1.0, True), (0.0, False)])
def test_the_quality_of_a_success_is_ten_times_its_confidence(confidence: float, is_enough: bool) -> None:
    assert is_good_enough(CaptureConfig(), confidence=confidence) is is_enough


def test_a_quality_that_is_exactly_the_least_is_enough() -> None:
    for score in range(101):
        assert is_good_enough(CaptureConfig(min_quality_score=score / 10), confidence=score / 100), score


@pytest.mark.parametrize(
    ("percentile", "reached", "successes", "is_taken"),
    [
        # The nearest rank: of 1 to 10 the 75th percentile is 8.
        (75.0, 7, 10, False),
        (75.0, 8, 10, True),
        (100.0, 9, 10, False),
        (100.0, 10, 10, True),
        (0.0, 1, 10, True),
        # The first success of an agent, and those that are all alike, stand at every percentile.
        (100.0, 1, 1, True),
        (100.0, 5, 5, True),
        # An old success, whose own window is over.
        (75.0, 0, 0, True),
    ],
)
def test_a_success_is_one_of_its_agents_best(percentile: float, reached: int, successes: int, is_taken: bool) -> None:
    config = CaptureConfig(success_quality_percentile=percentile)
    assert is_among_the_best(config, reached=reached, successes=successes) is is_taken


async def test_what_does_not_teach_asks_nobody(backend: InMemoryBackend) -> None:
    model = FakeTeacher(always=answer())
    off = await capture(backend, model, enabled=False).run("ada", FAILURE, learned_at=NOW)
    other = await capture(backend, model, capture={"type": "success"}).run("ada", FAILURE, learned_at=NOW)
    assert [off.outcome, other.outcome] == ["disabled", "not_chosen"]
    assert model.asked == []


@pytest.mark.parametrize(
    ("confidence", "of_failure", "of_success"),
    [
        (0.49, "low_confidence", "low_confidence"),
        (0.5, "stored", "low_quality"),
        (0.79, "stored", "low_quality"),
        (0.8, "stored", "stored"),
    ],
)
async def test_a_proposal_passes_the_gates_of_its_kind(
    backend: InMemoryBackend, confidence: float, of_failure: str, of_success: str
) -> None:
    model = FakeTeacher(always=answer(confidence=confidence))
    service = capture(backend, model)
    outcomes = [
        (await service.run("ada", FAILURE, learned_at=NOW)).outcome,
        (await service.run("ada", SUCCESS, learned_at=NOW)).outcome,
    ]
    assert outcomes == [of_failure, of_success]
    assert len(await kept(backend)) == outcomes.count(CaptureOutcome.STORED)


async def test_the_lesson_of_a_success_says_so(backend: InMemoryBackend) -> None:
    await capture(backend, FakeTeacher(always=answer())).run("ada", SUCCESS, learned_at=NOW)
    (found,) = await kept(backend)
    assert found.entry.metadata.tags == ("non-inferable", "success-derived", "import", "disk")
    assert found.entry.metadata.source == "success:ticket-4712"


@pytest.mark.parametrize(
    ("always", "outcome"),
    [
        ("no JSON", "malformed"),
        (RetryExhaustedError("away"), "unavailable"),
        (ProviderError("the key is wrong"), "refused"),
    ],
)
async def test_no_trouble_of_a_model_is_the_executions(
    backend: InMemoryBackend, always: Exception | str, outcome: str
) -> None:
    captured = await capture(backend, FakeTeacher(always=always)).run("ada", FAILURE, learned_at=NOW)
    assert (captured.outcome, captured.memory_id) == (outcome, None)
    assert await kept(backend) == []


async def test_trouble_of_the_store_is_raised_so_that_the_job_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    full = InMemoryBackend(company="acme", max_memories=1, clock=lambda: NOW)
    await full.connect()
    service = capture(full, FakeTeacher(script=[answer(), answer(discovery="Another.")]))
    await service.run("ada", FAILURE, learned_at=NOW)
    with pytest.raises(MemoryStoreError):
        await service.run("ada", FAILURE, learned_at=NOW)
    assert Event.PROCEDURAL_MEMORY_ENTRY_STORE_FAILED in caplog.messages


async def test_a_skill_is_written_beside_the_memory(backend: InMemoryBackend, tmp_path: Path) -> None:
    captured = await capture(backend, FakeTeacher(always=answer()), skills=SkillFolders(tmp_path, company="acme")).run(
        "ada", FAILURE, learned_at=NOW
    )
    assert captured.skill is not None
    assert captured.skill_failures == 0
    assert problems_of(tmp_path / captured.skill) == []


async def test_a_disk_that_refuses_a_skill_is_counted_and_costs_no_memory(
    backend: InMemoryBackend, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    skills = SkillFolders(tmp_path / "file", company="acme")
    captured = await capture(backend, FakeTeacher(always=answer()), skills=skills).run("ada", FAILURE, learned_at=NOW)
    assert (captured.outcome, captured.skill, captured.skill_failures) == ("stored", None, 1)
    assert len(await kept(backend)) == 1


async def test_a_directory_of_another_company_costs_no_memory(backend: InMemoryBackend, tmp_path: Path) -> None:
    SkillFolders(tmp_path, company="globex").write(lesson(), memory_id="m", source="s")
    skills = SkillFolders(tmp_path, company="acme")
    captured = await capture(backend, FakeTeacher(always=answer()), skills=skills).run("ada", FAILURE, learned_at=NOW)
    assert (captured.outcome, captured.skill, captured.skill_failures) == ("stored", None, 1)


async def test_no_text_of_an_execution_or_an_answer_is_logged(
    backend: InMemoryBackend, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    model = FakeTeacher(script=[f"{CANARY}: no JSON", answer(action=f"Ask {CANARY}.", supersedes=[CANARY])])
    await capture(backend, model, skills=SkillFolders(tmp_path, company="acme")).run("ada", FAILURE, learned_at=NOW)
    assert {Event.PROCEDURAL_MEMORY_ENTRY_STORED, Event.PROCEDURAL_MEMORY_SKILL_MD_WRITTEN} <= set(caplog.messages)
    assert CANARY not in "".join(str(vars(each)) for each in caplog.records)
