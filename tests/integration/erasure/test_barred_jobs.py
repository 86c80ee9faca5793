"""While an agent is erased, its jobs are dropped, whatever their kind; those of others run."""

from pathlib import Path

import pytest
from support.experiences import experience
from support.job_contexts import ScriptedContext
from support.ledger_records import COMPANY, copied_urls

from memcore.jobs import Done, ExperiencePayload, Skipped
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import Confirmation
from tasks.learn import record
from workers.celery_task import perform

WORD = Confirmation(actor="grace", confirm=True, reason="she has left")


@pytest.mark.parametrize("subject", [None, "user:p"])
def test_a_job_of_an_agent_that_is_erased_is_dropped(
    tmp_path: Path, ledger_template: Path, subject: str | None
) -> None:
    ledger = Ledger.open(copied_urls(ledger_template, tmp_path))
    context = ScriptedContext(ledger=ledger)
    ledger.erasures.request(COMPANY, "ada", confirmation=WORD, subject=subject)
    outcomes = {}
    for agent_id in ("ada", "bob"):
        payload = ExperiencePayload(company=COMPANY, experience=experience(f"e-{agent_id}", agent_id=agent_id))
        outcomes[agent_id] = perform(record, payload.model_dump_json(), context)
    recorded = Done(facts={"recorded": 1, "known": 0})
    # Of a person alone, the agent's other work goes on.
    assert outcomes == {
        "ada": Skipped(reason="the agent is being erased") if subject is None else recorded,
        "bob": recorded,
    }
    ledger.close()
