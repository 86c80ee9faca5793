"""The job that asks a model, and the run that dispatches it."""

import json
from datetime import timedelta

import pytest
from support.job_contexts import ScriptedContext
from support.ledger_records import StoppedClock, places_due
from support.memories import NOW
from support.present import present

from memcore.errors import MaintenancePausedError, MemoryConnectionError, MemoryInputError
from memcore.jobs import Dead, Deferred, Done, MaintenancePayload, Outcome, Retry, Skipped, Snooze, SynthesisPayload
from memcore.ledger.attempt import Attempt
from memcore.ledger.llm_answers import Synthesis
from memcore.ledger.runs import NewRun, Run
from memcore.ledger.work_items import REDISPATCH_AFTER
from memcore.maintenance.consolidation.answers import QuestionOutcome
from memcore.maintenance.consolidation.step import LOOKED_AT_AGAIN
from memcore.models.memory import MemoryCategory
from tasks.maintain import maintain, synthesize
from workers.celery_task import perform


def payload(*, place: int = 0) -> str:
    return SynthesisPayload(company="acme", agent_id="ada", run_id="run-1", place=place).model_dump_json()


def queued(job_context: ScriptedContext) -> Run:
    return present(
        job_context.ledger.runs.create(NewRun(run_id="run-1", company="acme", agent_id="ada", planned_at=NOW))
    )


def maintenance_run(job_context: ScriptedContext) -> Outcome:
    message = MaintenancePayload(company="acme", agent_id="ada", run_id="run-1", planned_at=NOW)
    return perform(maintain, message.model_dump_json(), job_context)


def snoozing(job_context: ScriptedContext, clock: StoppedClock) -> None:
    """A run that records two parts and snoozes."""

    def rest(run_id: str) -> Outcome:
        run = present(job_context.ledger.runs.claim("acme", run_id, lease=timedelta(seconds=45)))
        job_context.ledger.syntheses.plan(
            [
                Synthesis(
                    run_id=run_id,
                    place=place,
                    company="acme",
                    agent_id="ada",
                    category=MemoryCategory.SEMANTIC,
                    source_ids=("a", "b"),
                )
                for place in range(2)
            ]
        )
        until = clock() + LOOKED_AT_AGAIN
        job_context.ledger.runs.wait("acme", run_id, present(run.token), until=until, reason="waits for a model")
        return Deferred(reason="waits for a model")

    job_context.maintenance_run = rest


def test_a_run_that_waits_sends_a_job_for_each_part_once(job_context: ScriptedContext, clock: StoppedClock) -> None:
    queued(job_context)
    snoozing(job_context, clock)

    assert isinstance(maintenance_run(job_context), Deferred)
    payloads = [SynthesisPayload.model_validate_json(each.payload or "") for each in job_context.dispatcher.items]
    assert payloads == [SynthesisPayload(company="acme", agent_id="ada", run_id="run-1", place=n) for n in range(2)]
    assert isinstance(maintenance_run(job_context), Deferred)
    assert len(job_context.dispatcher.items) == 2, "they are under way"
    clock.advance(REDISPATCH_AFTER)
    maintenance_run(job_context)
    assert len(job_context.dispatcher.items) == 4, "nothing came of them"


def test_answers_that_came_before_the_run_was_back_in_the_queue_wake_it(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    queued(job_context)
    snoozing(job_context, clock)
    maintenance_run(job_context)
    for place in range(2):
        part = present(job_context.ledger.syntheses.claim("acme", f"run-1.{place}", lease=REDISPATCH_AFTER))
        job_context.ledger.syntheses.finish(part)

    maintenance_run(job_context)

    assert [item.key for item in job_context.dispatcher.items] == ["run-1.0", "run-1.1", "run-1"]


def test_a_run_that_waits_sends_its_own_parts_alone_and_a_paused_one_does_not_wake_itself(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    assert job_context.ledger.runs.create(NewRun(company="acme", agent_id="bob", planned_at=NOW)) is not None
    clock.advance(2 * REDISPATCH_AFTER)
    queued(job_context)
    snoozing(job_context, clock)
    maintenance_run(job_context)
    assert [item.key for item in job_context.dispatcher.items] == ["run-1.0", "run-1.1"]
    for place in range(2):
        part = present(job_context.ledger.syntheses.claim("acme", f"run-1.{place}", lease=REDISPATCH_AFTER))
        job_context.ledger.syntheses.finish(part)
    job_context.dispatcher.items.clear()

    def pause(run_id: str) -> Outcome:
        with Attempt(job_context.ledger.runs, "acme", run_id) as attempt:
            attempt.claim()
            raise MaintenancePausedError("paused")
        return attempt.outcome

    job_context.maintenance_run = pause
    assert maintenance_run(job_context) == Deferred(reason="paused")
    assert job_context.dispatcher.items == []


def test_a_dispatcher_that_fails_leaves_the_parts_to_be_dispatched_again(
    job_context: ScriptedContext, clock: StoppedClock
) -> None:
    queued(job_context)
    snoozing(job_context, clock)
    job_context.dispatcher.error = MemoryConnectionError("no broker")

    assert isinstance(maintenance_run(job_context), Retry)

    clock.advance(REDISPATCH_AFTER)
    assert places_due(job_context.ledger, "run-1") == [0, 1]


def test_the_outcome_is_the_service_s_and_the_run_that_it_names_is_dispatched_for(job_context: ScriptedContext) -> None:
    queued(job_context)
    run = job_context.ledger.runs.item("acme", "run-1")
    job_context.asking = lambda _run_id, place: QuestionOutcome(
        outcome=Done(facts={"asked": place}), maintenance_run=run
    )

    assert perform(synthesize, payload(place=3), job_context) == Done(facts={"asked": 3})
    assert job_context.dispatcher.items == [run]


def test_no_run_no_dispatcher(job_context: ScriptedContext) -> None:
    job_context.asking = lambda _run_id, _place: QuestionOutcome(outcome=Skipped(reason="nobody waits"))
    assert perform(synthesize, payload(), job_context) == Skipped(reason="nobody waits")
    assert job_context.dispatcher.items == []


@pytest.mark.parametrize(
    ("error", "kind"), [(MemoryConnectionError("no store"), Retry), (MemoryInputError("field", "is wrong"), Dead)]
)
def test_passing_trouble_is_retried_and_other_trouble_is_dead(
    job_context: ScriptedContext, error: Exception, kind: type[Outcome]
) -> None:
    def fail(_run_id: str, _place: int) -> QuestionOutcome:
        raise error

    job_context.asking = fail
    assert isinstance(perform(synthesize, payload(), job_context), kind)


def test_a_broken_job_is_dead_and_a_newer_one_waits(job_context: ScriptedContext) -> None:
    assert isinstance(perform(synthesize, "{", job_context), Dead)
    assert isinstance(perform(synthesize, payload().replace('"place":0', '"place":-1'), job_context), Dead)
    newer = json.loads(payload()) | {"version": 9, "new": True}
    assert isinstance(perform(synthesize, json.dumps(newer), job_context), Snooze)
