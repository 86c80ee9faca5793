"""What a run that is done sets off: the compression of experience, propagated lessons, and the wiki."""

from typing import Any

import pytest
from support.experiences import experience
from support.job_contexts import ScriptedContext

from memcore.config.policy import Policy
from memcore.errors import MemoryConnectionError, MemoryRetrievalError
from memcore.jobs import CompressPayload, Done, MaintenancePayload, Outcome, Skipped, Snooze
from memcore.ledger.runs import RunKind
from tasks.learn import compress
from tasks.maintain import maintain
from workers.celery_task import perform


def policy(**wiki_export: Any) -> Policy:
    consolidation = {"experience_compressor": {"enabled": True}, "wiki_export": {"enabled": True, **wiki_export}}
    procedural = {"enabled": True, "propagation": {"type": "department"}}
    return Policy.model_validate({"memory": {"consolidation": consolidation, "procedural": procedural}})


@pytest.fixture
def job_context(job_context: ScriptedContext) -> ScriptedContext:
    """A policy that compresses, propagates and exports, and an agent with something raw."""
    job_context.policy = policy(trigger="on_consolidation")
    job_context.ledger.experiences.append("acme", experience("e"))
    return job_context


def run_maintenance(
    job_context: ScriptedContext, *, kind: RunKind = "maintenance", undo_of: str | None = None
) -> Outcome:
    fields = {"company": "acme", "agent_id": "ada", "run_id": "run", "kind": kind, "undo_of": undo_of}
    payload = MaintenancePayload.model_validate({**fields, "planned_at": job_context.clock()})
    return perform(maintain, payload.model_dump_json(), job_context)


def compressed(job_context: ScriptedContext) -> list[str | None]:
    """Return whose compressions were dispatched."""
    return [item.agent_id for item in job_context.dispatcher.items if item.kind == CompressPayload.task]


def test_a_run_that_is_done_dispatches_raw_experience_and_exports_the_wiki(job_context: ScriptedContext) -> None:
    assert isinstance(run_maintenance(job_context), Done)
    assert compressed(job_context) == ["ada"]
    assert job_context.exported == ["ada"]


def test_with_nothing_raw_nothing_is_dispatched(job_context: ScriptedContext) -> None:
    job_context.ledger.experiences.mark("acme", "ada", "e", reason="too weak")
    run_maintenance(job_context)
    assert (compressed(job_context), job_context.exported) == ([], ["ada"])


def test_where_experience_is_not_compressed_nothing_is_dispatched(job_context: ScriptedContext) -> None:
    job_context.policy = Policy()
    run_maintenance(job_context)
    assert compressed(job_context) == []


@pytest.mark.parametrize(
    "chosen", [policy(), policy(trigger="on_consolidation", enabled=False), Policy()], ids=["by hand", "off", "default"]
)
def test_the_wiki_is_exported_only_where_the_policy_says_so(job_context: ScriptedContext, chosen: Policy) -> None:
    job_context.policy = chosen
    run_maintenance(job_context)
    perform(compress, CompressPayload(company="acme", agent_id="ada").model_dump_json(), job_context)
    assert job_context.exported == []


def test_a_run_that_is_not_done_and_an_undo_set_nothing_off(job_context: ScriptedContext) -> None:
    run_maintenance(job_context, kind="undo", undo_of="other")
    for outcome in (Skipped(reason="held"), Snooze(reason="paused", delay=job_context.clock() - job_context.clock())):
        job_context.maintenance_run = lambda _run_id, outcome=outcome: outcome  # type: ignore[misc]  # one outcome at a time
        run_maintenance(job_context)
    assert (compressed(job_context), job_context.exported) == ([], [])


def test_a_broker_that_is_away_makes_no_run_undone(job_context: ScriptedContext) -> None:
    job_context.dispatcher.error = MemoryConnectionError("gone")
    assert isinstance(run_maintenance(job_context), Done)
    assert job_context.exported == ["ada"]


def test_a_run_that_is_done_propagates_lessons_and_no_other_run_does(job_context: ScriptedContext) -> None:
    propagated: list[tuple[str, str]] = []

    def propagate(agent_id: str, by: str) -> int:
        propagated.append((agent_id, by))
        return len(propagated)

    job_context.passing_on = propagate
    run_maintenance(job_context, kind="undo", undo_of="other")
    assert propagated == []
    run_maintenance(job_context)
    assert propagated == [("ada", "department")]
    for procedural in ({"propagation": {"type": "none"}}, {"enabled": False, "propagation": {"type": "role"}}):
        job_context.policy = Policy.model_validate({"memory": {"procedural": procedural}})
        run_maintenance(job_context)
    assert len(propagated) == 1, "where the policy says so"


def test_lessons_that_cannot_be_passed_on_make_no_run_undone(
    job_context: ScriptedContext, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_agent_id: str, _by: str) -> int:
        raise MemoryRetrievalError("the store is away")

    job_context.passing_on = refuse
    assert isinstance(run_maintenance(job_context), Done)
    assert "night.lessons_wait" in caplog.messages
    assert job_context.exported == ["ada"]


@pytest.mark.parametrize(
    ("outcome", "exported"),
    [
        (Done(facts={"compressed": 1}), ["ada"]),
        (Done(facts={"weak": 1}), []),
        (Skipped(reason="paused"), []),
    ],
)
def test_a_compression_that_made_a_lesson_exports_the_wiki(
    job_context: ScriptedContext, outcome: Outcome, exported: list[str]
) -> None:
    job_context.compressing = lambda _agent_id: outcome
    assert perform(compress, CompressPayload(company="acme", agent_id="ada").model_dump_json(), job_context) == outcome
    assert job_context.exported == exported
