"""The reindex job."""

import json

import pytest
from support.job_contexts import ScriptedCrew

from memcore.jobs.outcomes import Dead, Done, Parked, Snooze
from memcore.jobs.payloads import ReindexPayload
from memcore.reindex.service import Slice
from tasks.embedder import reindex


def payload(**changed: object) -> str:
    return json.dumps({**ReindexPayload(company="acme").model_dump(mode="json"), **changed})


def test_a_slice_that_is_not_the_last_rings_for_the_next(crew: ScriptedCrew) -> None:
    crew.slice = Slice(outcome=Done(facts={"looked_at": 7}), goes_on=True)
    assert reindex(payload(), crew) == Done(facts={"looked_at": 7})
    assert crew.bell.reindexes == ["acme"]


def test_what_must_wait_is_left_to_the_sweep(crew: ScriptedCrew) -> None:
    crew.slice = Slice(outcome=Parked(reason="maintenance is paused"))
    assert reindex(payload(), crew) == Parked(reason="maintenance is paused")
    assert crew.bell.reindexes == []


@pytest.mark.parametrize("changed", [{"company": "other"}, {"extra": 1}])
def test_what_can_never_work_is_dead(crew: ScriptedCrew, changed: dict[str, object]) -> None:
    assert isinstance(reindex(payload(**changed), crew), Dead)


def test_a_newer_payload_waits(crew: ScriptedCrew) -> None:
    assert isinstance(reindex(payload(version=99), crew), Snooze)
