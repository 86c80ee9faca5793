"""Language models and audit: whether models answer and what they cost, and what people decided and changed."""

from datetime import UTC, date, timedelta

from memcore.errors import MemoryCapabilityError, MemoryInputError
from memcore.ledger.llm_usage import UsageBy, UsageRow
from memcore.ledger.organization.audit import MAX_PAGE as MOST_LINES
from memcore.ledger.organization.audit import AuditLine
from memcore.llm.check import ModelCheck, check_model
from memcore.service.resources import ServiceResources

#: Most days of one report.
MAX_DAYS = 3_660


class ModelOperations:
    """Asks the company's language model."""

    def __init__(self, resources: ServiceResources) -> None:
        self._resources = resources

    async def check(self, model: str | None = None) -> ModelCheck:
        """Ask the server one real question, and return how it answers and what was learnt of it, anew.

        ``model`` is another than that of ``memory.llm.model``. The question costs some hundred tokens, on the account
        of ``system:models:check``, and no budget refuses it. A failure is a part of what is returned.

        Raises MemoryCapabilityError without a server, MemoryInputError without a model, MemoryConnectionError.
        """
        resources = self._resources
        if model is None and resources.policy.memory.llm.model is None:
            raise MemoryInputError("model", "must be named: memory.llm.model names none")
        found = await check_model(
            resources.settings, resources.policy, resources.ledger, model=model, anew=True, clock=resources.clock
        )
        if found is None:
            raise MemoryCapabilityError("no server of language models is named: set MEMTEND_LLM_URL")
        return found


class UsageOperations:
    """Reads the account of language models and the audit. Every call raises MemoryConnectionError."""

    def __init__(self, resources: ServiceResources) -> None:
        self._resources = resources
        self._ledger = resources.ledger
        self._company = resources.company

    async def usage(
        self, by: str = UsageBy.AGENT.value, *, days: int = 7, agent_id: str | None = None
    ) -> tuple[UsageRow, ...]:
        """Return calls, tokens and cost of the last days of UTC, today included, 1 to 3,660, a row for each ``by``.

        ``by`` is agent, day, purpose, run or model. By ``company`` every company has a row: only for people who
        operate the whole installation. Raises MemoryInputError.
        """
        since, until = self._period(by, days)
        company = None if by == UsageBy.COMPANY else self._company
        return await self._resources.run(
            self._ledger.usage.report, company, UsageBy(by), since=since, until=until, agent_id=agent_id
        )

    async def audit(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        before: AuditLine | None = None,
        limit: int = MOST_LINES,
    ) -> tuple[AuditLine, ...]:
        """Return 1 to 256 lines of the audit, newest first, behind the last line of the page before.

        An actor is named with or without ``person:`` or ``agent:`` before the name. Raises MemoryInputError.
        """
        if not 1 <= limit <= MOST_LINES:
            raise MemoryInputError("limit", f"must be 1 to {MOST_LINES}")
        return await self._resources.run(
            self._ledger.audit.page, self._company, actor=actor, action=action, before=before, limit=limit
        )

    def _period(self, by: str, days: int) -> tuple[date, date]:
        if by not in set(UsageBy):
            raise MemoryInputError("by", f"must be one of {', '.join(UsageBy)}")
        if not 1 <= days <= MAX_DAYS:
            raise MemoryInputError("days", f"must be 1 to {MAX_DAYS}")
        until = self._resources.clock().astimezone(UTC).date()
        return until - timedelta(days=days - 1), until
