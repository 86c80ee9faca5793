"""The job that carries out a cycle of the skill evolver."""

import json
from datetime import timedelta

import pytest
from support.job_contexts import ScriptedContext
from support.memories import NOW

from memcore import ids
from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.jobs import Dead, Done, EvolvePayload, Outcome, Retry, Snooze
from memcore.ledger.learning.skill_cycles import Cycle
from tasks.learn import evolve
from workers.celery_task import perform

CYCLE_ID = ids.cycle_id(company="acme", planned_at=NOW.isoformat())


def payload(**changed: object) -> str:
    message = EvolvePayload(company="acme", cycle_id=CYCLE_ID, origin="manual", planned_at=NOW)
    return json.dumps({**message.model_dump(mode="json"), **changed})


def test_a_cycle_that_a_person_asked_for_is_planned_before_it_is_carried_out(job_context: ScriptedContext) -> None:
    seen = list[Cycle | None]()

    def health_check(cycle_id: str) -> Outcome:
        seen.append(job_context.ledger.skill_cycles.get("acme", cycle_id))
        return Done(facts={"proposals_emitted": 2})

    job_context.evolving = health_check
    assert perform(evolve, payload(), job_context) == Done(facts={"proposals_emitted": 2})
    (planned,) = seen
    assert planned is not None
    assert (planned.origin, planned.planned_at) == ("manual", NOW)
    assert planned.window_end - planned.window_start == timedelta(days=30)
    perform(evolve, payload(), job_context)
    assert len(job_context.ledger.skill_cycles.page("acme")) == 1


@pytest.mark.parametrize("changed", [{"cycle_id": " "}, {"planned_at": "noon"}])
def test_what_can_never_work_is_dead(job_context: ScriptedContext, changed: dict[str, object]) -> None:
    assert isinstance(perform(evolve, payload(**changed), job_context), Dead)


def test_a_newer_payload_waits(job_context: ScriptedContext) -> None:
    assert isinstance(perform(evolve, payload(version=99), job_context), Snooze)


@pytest.mark.parametrize(
    ("error", "outcome"), [(MemoryConnectionError("gone"), Retry), (MemoryInputError("a", "b"), Dead)]
)
def test_trouble_is_tried_again_or_given_up(
    job_context: ScriptedContext, error: Exception, outcome: type[Outcome]
) -> None:
    def fail(_cycle_id: str) -> Outcome:
        raise error

    job_context.evolving = fail
    assert isinstance(perform(evolve, payload(), job_context), outcome)
