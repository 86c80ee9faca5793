"""The policies of the companies that a tick or a sweep serves; a wrong one delays none of the others."""

import logging

from memcore.config.policy import Policy
from memcore.errors import MemoryConfigError
from memcore.ledger.companies import Company, CompanyState
from tasks.context import JobContext

_log = logging.getLogger("memtend.jobs")

#: Companies read from the ledger at a time.
_PAGE = 1_000


def served_companies(job_context: JobContext) -> list[tuple[Company, Policy]]:
    """Return the companies that are not removed, with their policies; one whose policy is wrong is left out.

    The interval of a company's own policy is saved in its row, where :meth:`Agents.due` finds it.
    """
    policies, found, changed = job_context.policies, list[tuple[Company, Policy]](), {}
    for company in _known(job_context):
        try:
            _, policy = policies.of(company)
        except MemoryConfigError as error:
            about = {"company": company.company, "reason": str(error)}
            _log.error("scheduler.company_left_out", extra=about)  # its sentence says what to change
            continue
        found.append((company, policy))
        interval = None if policy is policies.policy else policy.memory.consolidation.interval
        if interval is not company.interval:
            changed[company.company] = interval
    if changed:  # most calls find none, and take no lock
        job_context.ledger.companies.note_intervals(changed)
    return found


def _known(job_context: JobContext) -> list[Company]:
    companies, found = job_context.ledger.companies, list[Company]()
    while len(page := companies.list(after=found[-1].company if found else None, limit=_PAGE)) == _PAGE:
        found += page
    found += page
    if all(company.company != job_context.company for company in found):
        # The installation's own, where nobody has migrated since it was named.
        companies.register(job_context.company)
        return _known(job_context)
    return [company for company in found if company.state is not CompanyState.REMOVED]
