"""The reindex job."""

import json

import pytest
from support.active_collections import served
from support.job_contexts import ScriptedContext

from memcore.jobs import Dead, Deferred, Done, ReindexPayload, Snooze, Step
from memcore.ledger.collections import ReindexKind
from tasks.learn import reindex
from workers.celery_task import perform


def payload(**changed: object) -> str:
    return json.dumps({**ReindexPayload(company="acme").model_dump(mode="json"), **changed})


def test_a_slice_that_is_not_the_last_dispatches_for_the_next(job_context: ScriptedContext) -> None:
    pointers = job_context.ledger.collection_pointers
    version = pointers.adopt("acme", served("old")).version
    pointers.begin("acme", version=version, target=served("new"), kind=ReindexKind.FORWARD, total=9)
    job_context.slice = Step(outcome=Done(facts={"looked_at": 7}), goes_on=True)
    assert perform(reindex, payload(), job_context) == Done(facts={"looked_at": 7})
    (message,) = job_context.dispatcher.items
    assert ReindexPayload.model_validate_json(message.payload or "") == ReindexPayload(company="acme")


def test_what_must_wait_is_left_to_the_sweep(job_context: ScriptedContext) -> None:
    job_context.slice = Step(outcome=Deferred(reason="maintenance is paused"))
    assert perform(reindex, payload(), job_context) == Deferred(reason="maintenance is paused")
    assert job_context.dispatcher.items == []


@pytest.mark.parametrize("changed", [{"company": 7}])
def test_what_can_never_work_is_dead(job_context: ScriptedContext, changed: dict[str, object]) -> None:
    assert isinstance(perform(reindex, payload(**changed), job_context), Dead)


def test_a_newer_payload_waits(job_context: ScriptedContext) -> None:
    assert isinstance(perform(reindex, payload(version=99), job_context), Snooze)
