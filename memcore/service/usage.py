"""Language models and audit: whether models answer and what they cost, and what people decided and changed."""

from datetime import UTC, date, timedelta

from memcore.errors import MemoryCapabilityError, MemoryInputError
from memcore.ledger.llm_usage import UsageBy, UsageRow
from memcore.ledger.organization.audit import MAX_PAGE as MOST_LINES
from memcore.ledger.organization.audit import AuditLine
from memcore.llm.check import ModelCheck, check_model
from memcore.llm.protocol import NOTES_PURPOSE
from memcore.models.base import Frozen
from memcore.records import SearchNotes, Where
from memcore.service.resources import CompanyPart, ServiceResources, check_page

#: Most days of one report.
MAX_DAYS = 3_660

#: Days that a forecast looks ahead.
FORECAST_DAYS = 30

#: Most agents whose memories a forecast counts.
MOST_AGENTS = 1_000


class ForecastRow(Frozen):
    """What one purpose is expected to ask and to cost in 30 days."""

    purpose: str
    calls: int
    tokens: int
    cost: float


class PendingNotes(Frozen):
    """Memories that have no search notes yet, of the first 1,000 agents, and what these are expected to take, once.

    Attributes:
        tokens_per_memory: as measured in the days that were asked for, today included; None where none was asked about.
        tokens, cost: None where nothing was measured.
    """

    memories: int
    tokens_per_memory: float | None
    tokens: int | None
    cost: float | None


class UsageForecast(Frozen):
    """What language models are expected to use in the next 30 days, if these are like the last ones.

    Attributes:
        days: whole days of UTC of the account that it rests on, today left out; 0 where nothing is known.
        since: the first of them.
        rows: a row for each purpose, the dearest first.
        pending: None where no search notes are written.
    """

    days: int
    since: date | None
    rows: tuple[ForecastRow, ...]
    pending: PendingNotes | None


class ModelOperations:
    """Asks the company's language model."""

    def __init__(self, resources: ServiceResources) -> None:
        self._resources = resources

    async def check(self, model: str | None = None) -> ModelCheck:
        """Ask the server one real question, and return how it answers and what was learnt of it, anew.

        ``model`` is another than that of ``memory.llm.model``. The question costs some hundred tokens, on the account
        of ``system:models:check``, and no budget refuses it. A failure is a part of what is returned.

        Raises MemoryCapabilityError without a server, MemoryConnectionError.
        """
        resources = self._resources
        found = await check_model(
            resources.settings, resources.policy, resources.ledger, model=model, anew=True, clock=resources.clock
        )
        if found is None:
            raise MemoryCapabilityError("no server of language models is named: set MEMTEND_LLM_URL")
        return found


class UsageOperations(CompanyPart):
    """Reads the account of language models and the audit. Every call raises MemoryConnectionError."""

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

    async def forecast(self, *, days: int = 7, agent_id: str | None = None) -> UsageForecast:
        """Return what is expected of the next 30 days, from 1 to 3,660 whole days before today, and what is pending.

        Raises MemoryInputError, MemoryConfigError.
        """
        since, today = self._period(UsageBy.PURPOSE, days + 1)
        first = await self._ask(self._ledger.usage.first_day, agent_id=agent_id)
        known = 0 if first is None else max(0, (today - max(since, first)).days)
        rows = tuple[UsageRow, ...]()
        if known:
            until = today - timedelta(days=1)
            rows = await self._ask(
                self._ledger.usage.report, UsageBy.PURPOSE, since=since, until=until, agent_id=agent_id
            )
        ahead = FORECAST_DAYS / max(1, known)
        return UsageForecast(
            days=known,
            since=today - timedelta(days=known) if known else None,
            rows=tuple(
                ForecastRow(
                    purpose=each.key or "",
                    calls=round(each.calls * ahead),
                    tokens=round((each.prompt_tokens + each.completion_tokens) * ahead),
                    cost=each.cost * ahead,
                )
                for each in rows
            ),
            pending=await self._pending(since, today, agent_id),
        )

    async def _pending(self, since: date, until: date, agent_id: str | None) -> PendingNotes | None:
        resources, memory = self._resources, self._resources.policy.memory
        notes = memory.consolidation.search_notes
        if not notes.enabled or resources.settings.llm_url is None:
            return None
        by = SearchNotes.by_model(notes.model or resources.settings.llm(memory.llm).model)
        agents = (
            [each.agent_id for each in await resources.run(self._ledger.agents.list, self._company, limit=MOST_AGENTS)]
            if agent_id is None
            else [agent_id]
        )
        backend = await resources.backend()
        memories = 0
        for each in agents:
            memories += await backend.count_where(Where(agent_id=each, unnoted_by=by, lessons=False))
        report = self._ledger.usage.report
        rows = await resources.run(report, self._company, UsageBy.PURPOSE, since=since, until=until, agent_id=agent_id)
        row = next((each for each in rows if each.key == NOTES_PURPOSE), None)
        asked = 0 if row is None else row.calls - row.asked_again
        if row is None or not asked:
            return PendingNotes(memories=memories, tokens_per_memory=None, tokens=None, cost=None)
        each_takes = (row.prompt_tokens + row.completion_tokens) / asked
        return PendingNotes(
            memories=memories,
            tokens_per_memory=round(each_takes, 1),
            tokens=round(each_takes * memories),
            cost=row.cost / asked * memories,
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
        check_page(limit, MOST_LINES)
        return await self._ask(self._ledger.audit.page, actor=actor, action=action, before=before, limit=limit)

    def _period(self, by: str, days: int) -> tuple[date, date]:
        if by not in set(UsageBy):
            raise MemoryInputError("by", f"must be one of {', '.join(UsageBy)}")
        if not 1 <= days <= MAX_DAYS:
            raise MemoryInputError("days", f"must be 1 to {MAX_DAYS}")
        until = self._resources.clock().astimezone(UTC).date()
        return until - timedelta(days=days - 1), until
