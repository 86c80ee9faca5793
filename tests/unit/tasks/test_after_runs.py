"""The jobs that a run asks for, to be done after it: search notes, and changes."""

from dataclasses import dataclass
from typing import Any

import pytest
from support.job_contexts import ScriptedContext

from memcore import ids
from memcore.config.policy import Policy
from memcore.errors import MemoryConnectionError
from memcore.jobs import ChangesPayload, Dead, Done, MaintenancePayload, Outcome, SearchNotesPayload, Step
from memcore.ledger.learning.experiences import ChangeFinding, NoteWriting
from memcore.maintenance.changes import ChangesService
from memcore.maintenance.search_notes import SearchNotesService
from scheduler.sweep import ASK_A_MODEL
from tasks.learn import find_changes, write_notes
from tasks.maintain import maintain
from workers.celery_task import perform


class Service:
    """Says what the test says, and for whom it was asked."""

    def __init__(self, *, goes_on: bool) -> None:
        self.asked: list[str] = []
        self._goes_on = goes_on

    async def run(self, agent_id: str) -> Step:
        self.asked.append(agent_id)
        return Step(outcome=Done(facts={"done": 4}), goes_on=self._goes_on)


@dataclass(frozen=True)
class AfterRun:
    """A job that a run asks for, where the policy's ``section`` says so."""

    section: str
    job: Any
    payload: type[ChangesPayload] | type[SearchNotesPayload]
    service: type[Any]
    item_id: str

    def message(self) -> str:
        return self.payload(company="acme", agent_id="ada").model_dump_json()

    def work(self, job_context: ScriptedContext) -> NoteWriting | ChangeFinding:
        ledger = job_context.ledger
        return ledger.change_finding if self.section == "changes" else ledger.note_writing


ASKED = {
    "changes": AfterRun(
        "changes", find_changes, ChangesPayload, ChangesService, ids.changes_id(company="acme", agent_id="ada")
    ),
    "notes": AfterRun(
        "search_notes",
        write_notes,
        SearchNotesPayload,
        SearchNotesService,
        ids.search_notes_id(company="acme", agent_id="ada"),
    ),
}


@pytest.fixture(params=ASKED)
def after(request: pytest.FixtureRequest) -> AfterRun:
    return ASKED[request.param]


def policy(after: AfterRun, *, is_enabled: bool) -> Policy:
    return Policy.model_validate({"memory": {"consolidation": {after.section: {"enabled": is_enabled}}}})


def run_maintenance(job_context: ScriptedContext) -> Outcome:
    payload = MaintenancePayload(company="acme", agent_id="ada", run_id="run", planned_at=job_context.clock())
    return perform(maintain, payload.model_dump_json(), job_context)


@pytest.mark.parametrize("goes_on", [False, True])
def test_the_agent_of_the_message_is_served_and_the_next_slice_is_dispatched(
    job_context: ScriptedContext, after: AfterRun, *, goes_on: bool
) -> None:
    service = Service(goes_on=goes_on)
    job_context.services[after.service] = service
    requested = after.work(job_context).request_for("acme", "ada")
    assert perform(after.job, after.message(), job_context) == Done(facts={"done": 4})
    assert service.asked == ["ada"]
    assert job_context.dispatcher.items == ([requested] if goes_on else [])


def test_what_can_never_work_is_dead(job_context: ScriptedContext, after: AfterRun) -> None:
    assert isinstance(perform(after.job, after.message().replace('"ada"', '" "'), job_context), Dead)


@pytest.mark.parametrize(("is_enabled", "asked"), [(True, ["ada"]), (False, [])])
def test_a_run_that_is_done_asks_where_the_policy_says_so(
    job_context: ScriptedContext, after: AfterRun, *, is_enabled: bool, asked: list[str]
) -> None:
    job_context.policy = policy(after, is_enabled=is_enabled)
    assert isinstance(run_maintenance(job_context), Done)
    items = [item for item in job_context.dispatcher.items if item.kind == after.payload.task]
    assert [item.agent_id for item in items] == asked
    # Asked for and not begun: the next run asks for nothing more.
    run_maintenance(job_context)
    assert len([item for item in job_context.dispatcher.items if item.kind == after.payload.task]) == len(asked)


def test_a_broker_that_is_away_leaves_the_request_for_the_sweep(job_context: ScriptedContext, after: AfterRun) -> None:
    job_context.policy = policy(after, is_enabled=True)
    job_context.dispatcher.error = MemoryConnectionError("away")
    assert isinstance(run_maintenance(job_context), Done)
    assert after.work(job_context).get("acme", after.item_id) is not None
    assert after.payload.task in ASK_A_MODEL
