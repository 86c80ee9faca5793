"""The job that finds changes, and the run that asks for it."""

from typing import Any

import pytest
from support.job_contexts import ScriptedContext

from memcore import ids
from memcore.config.policy import Policy
from memcore.errors import MemoryConnectionError
from memcore.jobs import ChangesPayload, Dead, Done, MaintenancePayload, Outcome, Step
from memcore.maintenance.changes import ChangesService
from scheduler.sweep import ASK_A_MODEL
from tasks.learn import find_changes
from tasks.maintain import maintain
from workers.celery_task import perform


class Service:
    """Says what the test says, and for whom it was asked."""

    def __init__(self, *, goes_on: bool) -> None:
        self.asked: list[str] = []
        self._goes_on = goes_on

    async def run(self, agent_id: str) -> Step:
        self.asked.append(agent_id)
        return Step(outcome=Done(facts={"unsure": 4}), goes_on=self._goes_on)


def policy(**changes: Any) -> Policy:
    return Policy.model_validate({"memory": {"consolidation": {"changes": changes}}})


def run_maintenance(job_context: ScriptedContext) -> Outcome:
    payload = MaintenancePayload(company="acme", agent_id="ada", run_id="run", planned_at=job_context.clock())
    return perform(maintain, payload.model_dump_json(), job_context)


@pytest.mark.parametrize("goes_on", [False, True])
def test_the_agent_of_the_message_is_looked_at_and_the_next_slice_is_dispatched(
    job_context: ScriptedContext, *, goes_on: bool
) -> None:
    service = Service(goes_on=goes_on)
    job_context.services[ChangesService] = service
    requested = job_context.ledger.change_finding.request_for("acme", "ada")
    payload = ChangesPayload(company="acme", agent_id="ada").model_dump_json()
    assert perform(find_changes, payload, job_context) == Done(facts={"unsure": 4})
    assert service.asked == ["ada"]
    assert job_context.dispatcher.items == ([requested] if goes_on else [])


def test_what_can_never_work_is_dead(job_context: ScriptedContext) -> None:
    payload = ChangesPayload(company="acme", agent_id="ada").model_dump_json().replace('"ada"', '" "')
    assert isinstance(perform(find_changes, payload, job_context), Dead)


@pytest.mark.parametrize(("is_enabled", "asked"), [(True, ["ada"]), (False, [])])
def test_a_run_that_is_done_asks_for_changes_where_the_policy_says_so(
    job_context: ScriptedContext, *, is_enabled: bool, asked: list[str]
) -> None:
    job_context.policy = policy(enabled=is_enabled)
    assert isinstance(run_maintenance(job_context), Done)
    items = [item for item in job_context.dispatcher.items if item.kind == ChangesPayload.task]
    assert [item.agent_id for item in items] == asked
    # Asked for and not begun: the next run asks for nothing more.
    run_maintenance(job_context)
    assert len([item for item in job_context.dispatcher.items if item.kind == ChangesPayload.task]) == len(asked)


def test_a_broker_that_is_away_leaves_the_request_for_the_sweep(job_context: ScriptedContext) -> None:
    job_context.policy = policy(enabled=True)
    job_context.dispatcher.error = MemoryConnectionError("away")
    assert isinstance(run_maintenance(job_context), Done)
    key = ids.changes_id(company="acme", agent_id="ada")
    assert job_context.ledger.change_finding.get("acme", key) is not None
    assert ChangesPayload.task in ASK_A_MODEL
