"""What clients of released versions send is read for ever: these files are never changed, new versions get new ones."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from support.job_contexts import RecordingService, ScriptedContext, keeping_questions
from support.present import present
from support.repository import ROOT

from memcore.conversation.ending import EndingService
from memcore.conversation.turns import ExtractionService
from memcore.jobs import Done, Payload, is_newer
from memcore.ledger.agents import AgentSpec
from memcore.models.execution import Recovery, TerminationReason
from memcore.models.memory import MemoryCategory, MemoryLevel
from memcore.models.origin import OWN, Channel, Origin
from tasks.converse import close_session, end_session, extract_turn, record_turn
from tasks.distill import distill
from tasks.job import all_jobs
from tasks.learn import count as count_application
from tasks.learn import evolve, extract_lesson, finetune, record
from tasks.maintain import maintain
from tasks.store import count, record_queries, write
from workers.celery_task import perform

PAYLOADS = ROOT / "tests" / "fixtures" / "payloads"

#: The origin of what a key has sent.
K1 = Origin(channels=(Channel.AGENT,), principals=("k1",))

#: When the jobs of version 1 were sent.
SENT = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


def payload(name: str) -> str:
    return (PAYLOADS / f"{name}.json").read_text(encoding="utf-8")


def test_every_version_of_every_payload_is_on_file_and_read_and_counts_as_none_of_the_newer() -> None:
    wanted = {
        (each.payload.__name__.removesuffix("Payload").lower(), version): each.payload
        for each in all_jobs()
        if issubclass(each.payload, Payload)
        for version in get_args(each.payload.model_fields["version"].annotation)
    }
    found = set[tuple[str, int]]()
    for file in PAYLOADS.iterdir():
        name, *_, version = file.stem.split("-")
        text, key = file.read_text(encoding="utf-8"), (name, int(version))
        read = wanted[key].model_validate_json(text)
        assert read.model_dump()["version"] == int(version) == json.loads(text)["version"]
        assert not is_newer(text)
        found.add(key)
    assert found == set(wanted), "write tests/fixtures/payloads/NAME-VERSION.json"


def test_a_store_job_of_version_1_is_written_to_its_last_field(job_context: ScriptedContext) -> None:
    job_context.batch_writer.answer = 2
    assert perform(write, payload("store-1"), job_context) == Done(facts={"stored": 2, "buried": 0})
    ((full, bare),) = job_context.batch_writer.taken
    assert (full.agent_id, full.id) == ("ada", json.loads(payload("store-1"))["items"][0]["id"])
    assert (full.created_at, full.sent_at) == (SENT - timedelta(days=100), SENT)
    assert (full.session_id, full.project_id, full.task_id) == ("s-1", "p-1", "t-1")
    request = full.request
    assert request.content == 'The "queue" pages at 500 — naïve café, 日本'
    assert (request.category, request.namespace) == (MemoryCategory.WORKING, "payments")
    assert (request.metadata.source, request.metadata.confidence) == ("runbook", 0.75)
    assert request.metadata.tags == ("alerts", "on-call")
    assert request.expires_at == SENT + timedelta(days=30)
    assert (bare.agent_id, bare.created_at, bare.request.expires_at, bare.session_id) == ("bob", SENT, None, None)


def test_a_maintenance_job_of_version_1_makes_its_run(job_context: ScriptedContext) -> None:
    assert isinstance(perform(maintain, payload("maintenance-1"), job_context), Done)
    run = present(job_context.ledger.runs.get("acme", "run-1"))
    assert (run.agent_id, run.kind, run.origin, run.planned_at) == ("ada", "maintenance", "scheduled", SENT)
    assert (run.undo_of, run.allow_large) == (None, False)


def test_an_undo_job_of_version_1_makes_its_run(job_context: ScriptedContext) -> None:
    assert isinstance(perform(maintain, payload("maintenance-undo-1"), job_context), Done)
    run = present(job_context.ledger.runs.get("acme", "undo-1"))
    assert (run.kind, run.origin, run.undo_of, run.allow_large) == ("undo", "manual", "run-1", True)


def test_an_end_job_of_version_1_makes_its_run(job_context: ScriptedContext) -> None:
    assert isinstance(perform(maintain, payload("maintenance-end-1"), job_context), Done)
    run = present(job_context.ledger.runs.get("acme", "end-1"))
    assert (run.kind, run.scope_id, run.planned_at) == ("end_session", "s-1", SENT)


def test_a_restore_job_of_version_2_makes_its_run(job_context: ScriptedContext) -> None:
    assert isinstance(perform(maintain, payload("maintenance-restore-2"), job_context), Done)
    run = present(job_context.ledger.runs.get("acme", "restore-1"))
    assert (run.kind, run.scope_id, run.planned_at) == ("restore", "archived-1", SENT)


def test_a_removal_of_version_3_makes_its_run(job_context: ScriptedContext) -> None:
    assert isinstance(perform(maintain, payload("maintenance-remove-3"), job_context), Done)
    run = present(job_context.ledger.runs.get("acme", "remove-1"))
    assert (run.kind, run.scope_id, run.planned_at, run.step) == ("remove", "memory-1", SENT, "remove")


def test_a_use_job_of_version_1_is_counted(job_context: ScriptedContext) -> None:
    assert perform(count, payload("use-1"), job_context) == Done(facts={"counted": 2, "passed_over": 0})
    found = job_context.ledger.uses.of("acme", "ada", ["6f1c1f6e-3a0b-5c53-9d0e-6d656d74656e"])
    ((_, use),) = found.items()
    assert (use.uses, use.last_used_at) == (3, SENT)


def test_a_query_job_of_version_1_is_kept(job_context: ScriptedContext) -> None:
    job_context.policy = keeping_questions()
    assert perform(record_queries, payload("query-1"), job_context) == Done(facts={"recorded": 2})
    ((query,), (other,)) = (job_context.ledger.recorded_queries.of("acme", agent) for agent in ("ada", "bob"))
    assert (query.question, query.memory_ids[1]) == ("When does payments page?", "memory-2")
    assert (query.asked_at, other.question) == (SENT, "誰が払う?")


def test_an_applied_job_of_version_1_is_counted(job_context: ScriptedContext) -> None:
    assert perform(count_application, payload("applied-1"), job_context) == Done(facts={"counted": 1, "passed_over": 0})
    ((skill_id, counts),) = job_context.ledger.skills.applications(
        "acme", ["6f1c1f6e-3a0b-5c53-9d0e-6d656d74656e"]
    ).items()
    assert skill_id == json.loads(payload("applied-1"))["skill_id"]
    assert (counts.applications, counts.successes, counts.last_applied_at) == (1, 1, SENT)


def test_a_lesson_job_of_version_1_draws_its_lesson(job_context: ScriptedContext) -> None:
    asked: list[str] = []

    def answer(lesson_id: str) -> Done:
        asked.append(lesson_id)
        return Done(facts={"stored": 1})

    job_context.drawing = answer
    assert perform(extract_lesson, payload("lesson-1"), job_context) == Done(facts={"stored": 1})
    assert asked == ["trace-1"]


def test_an_evolve_job_of_version_1_plans_its_cycle(job_context: ScriptedContext) -> None:
    assert isinstance(perform(evolve, payload("evolve-1"), job_context), Done)
    (cycle,) = job_context.ledger.skill_cycles.page("acme")
    assert (cycle.cycle_id, cycle.origin) == (json.loads(payload("evolve-1"))["cycle_id"], "manual")
    assert cycle.planned_at == cycle.window_end == SENT


def test_a_finetune_job_of_version_3_starts_its_run_to_the_last_field_of_its_plan(job_context: ScriptedContext) -> None:
    sent = json.loads(payload("finetune-3"))
    assert isinstance(perform(finetune, payload("finetune-3"), job_context), Done)
    run = present(job_context.ledger.finetune_runs.get("acme", sent["run_id"]))
    assert run.plan.items() >= sent["plan"].items()


def test_an_experience_job_of_version_1_is_kept_to_its_last_field(job_context: ScriptedContext) -> None:
    job_context.ledger.agents.put(AgentSpec(company="acme", agent_id="ada", level=MemoryLevel.PERSISTENT))
    assert perform(record, payload("experience-1"), job_context) == Done(facts={"recorded": 1, "known": 0})
    (kept,) = job_context.ledger.experiences.page("acme", "ada")
    assert (kept.prompt, kept.output) == ('The "import" failed — naïve café, 日本', "The disk was full.")
    assert kept.verification_feedback == "the import ran through"
    assert kept.reasoning_trace == ("look at the log", "look at the disk")
    assert (kept.metadata.source, kept.metadata.confidence) == ("runbook", 0.75)
    assert kept.metadata.tags == ("detailed_experience", "on-call")
    assert (kept.created_at, kept.source_task_id) == (SENT, "t-1")


def test_a_distill_job_of_version_1_is_captured_to_its_last_field(job_context: ScriptedContext) -> None:
    job_context.ledger.agents.put(AgentSpec(company="acme", agent_id="ada", level=MemoryLevel.PERSISTENT))
    assert perform(distill, payload("distill-1"), job_context) == Done(
        facts={"experiences": 1, "memories": 1, "trajectories": 1}
    )
    ((memory,),) = job_context.batch_writer.taken
    assert (memory.session_id, memory.project_id, memory.task_id, memory.sent_at) == ("s-1", "p-1", "t-1", SENT)
    (raw,) = job_context.ledger.experiences.page("acme", "ada")
    assert (raw.prompt, raw.output) == ("Find out why.", "The disk was full.")
    assert (raw.verification_feedback, raw.reasoning_trace[1]) == ("the import ran through", "look at the disk")
    (kept,) = job_context.ledger.trajectories.page("acme")
    assert kept.id == memory.id == raw.id == json.loads(payload("distill-1"))["trace_id"]
    assert (kept.task_title, kept.task_description) == ('Mend the "import"', "It failed — naïve café, 日本")
    assert (kept.task_type, kept.outcome, kept.error_message) == ("repair", TerminationReason.ERROR, "ENOSPC")
    assert (kept.error_category, kept.retries, kept.quality) == ("disk", 1, 7.5)
    assert (kept.turn_count, kept.tokens, kept.tools) == (2, 1_200, ("search_memory", "shell", "shell"))
    assert kept.recovery == Recovery(
        strategy="retry", is_recovered=True, can_reassign=True, max_retries=3, missing_capability="root"
    )
    assert kept.ended_at - present(kept.started_at) == timedelta(hours=1)


def test_jobs_of_version_6_keep_the_origin_with_all_that_they_leave(job_context: ScriptedContext) -> None:
    job_context.ledger.agents.put(AgentSpec(company="acme", agent_id="ada", level=MemoryLevel.PERSISTENT))
    for job, name in ((distill, "distill-6"), (distill, "distill-1"), (record, "experience-6")):
        text = payload(name).replace("6f1c1f6e-3a0b-5c53-9d0e-6d656d74656e", name)
        assert isinstance(perform(job, text, job_context), Done)
    ledger = job_context.ledger
    experiences = {each.id: each.origin for each in ledger.experiences.page("acme", "ada")}
    assert experiences == {"distill-6": K1, "distill-1": OWN, "experience-6": K1}
    assert {each.id: each.origin for each in ledger.trajectories.page("acme")} == {"distill-6": K1, "distill-1": OWN}
    stored = {item.id: item.origin for items in job_context.batch_writer.taken for item in items}
    assert stored == {"distill-6": K1, "distill-1": None}


def test_an_origin_in_the_text_of_an_experience_is_nobodys_stamp(job_context: ScriptedContext) -> None:
    job_context.ledger.agents.put(AgentSpec(company="acme", agent_id="ada", level=MemoryLevel.PERSISTENT))
    said = json.loads(payload("experience-1"))
    said["experience"]["origin"] = {"channels": ["person"], "principals": ["k2"]}
    assert isinstance(perform(record, json.dumps(said), job_context), Done)
    (kept,) = job_context.ledger.experiences.page("acme", "ada")
    assert kept.origin == OWN


def test_a_turn_of_version_1_is_recorded_to_its_last_field_and_its_session_closed(job_context: ScriptedContext) -> None:
    assert perform(record_turn, payload("turn-1"), job_context) == Done(facts={"recorded": 1, "known": 0})
    turn = present(job_context.ledger.turns.get("acme", json.loads(payload("turn-1"))["turn_id"]))
    assert (turn.agent_id, turn.subject, turn.at) == ("ada", "user:mia", SENT)
    assert (turn.user_text, turn.assistant_text) == ('I live in "Berlin" — naïve café, 日本', "Noted.")
    assert perform(close_session, payload("closesession-1"), job_context) == Done(facts={"closed": 1})
    session = present(job_context.ledger.sessions.get("acme", turn.session_key))
    assert (session.session_id, session.ended_at) == ("s-1", SENT)


@pytest.mark.parametrize(
    ("job", "kind", "name", "field"),
    [
        (extract_turn, ExtractionService, "extract-1", "turn_id"),
        (end_session, EndingService, "endsession-1", "session_key"),
    ],
)
def test_a_job_of_version_1_asks_the_model_about_its_turn_or_session(
    job_context: ScriptedContext, job: Any, kind: type, name: str, field: str
) -> None:
    service = RecordingService()
    job_context.services[kind] = service
    assert perform(job, payload(name), job_context) == Done(facts={"asked": 1})
    assert service.keys == [json.loads(payload(name))[field]]


@pytest.mark.parametrize(("name", "optional"), [("maintenance-1", ("version", "kind", "origin", "allow_large"))])
def test_what_may_be_left_out_may_be_left_out_for_ever(
    job_context: ScriptedContext, name: str, optional: tuple[str, ...]
) -> None:
    fields: dict[str, Any] = json.loads(payload(name))
    bare = json.dumps({key: value for key, value in fields.items() if key not in optional})
    assert isinstance(perform(maintain, bare, job_context), Done)
