"""The canary: sends one memory of each company through the real path, and looks for it."""

from memcore import ids
from memcore.canary import CanaryService
from memcore.jobs import CanaryPayload, Outcome
from memcore.ledger.companies import CompanyState
from memcore.ledger.work_items import WorkItem
from scheduler.sweep import shuffled
from tasks.context import JobContext
from tasks.job import CONTROL_LIMITS, job

#: Companies beside the installation's own whose canary is sent in a minute; of more, each has its turn.
COMPANIES_A_MINUTE = 200


@job(CanaryPayload, CONTROL_LIMITS, needs=CanaryService, is_repeated=True)
def canary(payload: CanaryPayload, service: CanaryService, job_context: JobContext) -> Outcome:
    """Measure how long a memory of the company takes until it can be found, and send the job of the other companies."""
    if payload.company is None:
        job_context.dispatcher.dispatch(_of_others(job_context))
    return job_context.run(service.run())


def _of_others(job_context: JobContext) -> list[WorkItem]:
    """Return messages, and no rows, for the other companies whose turn it is."""
    now = job_context.clock()
    served = shuffled(job_context.policies.served(job_context.ledger.companies), now)
    others = [each.company for each, _ in served if each.state is CompanyState.ACTIVE]
    return [
        WorkItem(
            company=company,
            kind=CanaryPayload.task,
            key=ids.new_id(),
            queue=str(CanaryPayload.queue),
            payload=CanaryPayload(company=company).model_dump_json(),
            created_at=now,
        )
        for company in others
        if company != job_context.company
    ][:COMPANIES_A_MINUTE]
