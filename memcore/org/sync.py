"""Brings the log's lines to the vector store, each in its turn, however often a process dies over it."""

import asyncio
import logging
from typing import Self

from memcore import errors, ids
from memcore.backends.protocol import FactStore, facts_of
from memcore.company import CompanyContext
from memcore.ledger.organization.facts import OrgLog
from memcore.models.organization import OperationLogEntry
from memcore.org.search import record_of
from memcore.telemetry.events import Event

#: Failed facts after which a call gives up: an error of so many is an error of all.
_MOST_STUCK = 5

#: Lines that one call brings to the store at most: the sweep has other things to do.
AT_A_TIME = 200

_log = logging.getLogger(__name__)


class OrgSync:
    """Brings the pending lines to the store, those of one fact in their order.

    A line stays in the outbox until the store shows it and hides the version before it. Both do nothing the second
    time, and a version that was hidden never comes back, so processes may follow at once, and slow ones late.
    """

    def __init__(self, log: OrgLog, facts: FactStore | None, *, company: str) -> None:
        self._log = log
        self._facts = facts
        self._company = company

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company; it shows nothing where the store keeps no facts."""
        return cls(context.ledger.org, facts_of(context.backend), company=context.company)

    async def follow(self, *, fact_id: str | None = None) -> int:
        """Show what waits, of all facts or of one, and return how many lines were shown.

        A line that fails keeps its place, and the lines of its fact behind it. A text that can never be shown counts
        as shown: it is found by words. An event reports either. Raises MemoryConnectionError when the store or the
        ledger is away.
        """
        if self._facts is None:
            return 0
        stuck: set[str] = set()
        after: OperationLogEntry | None = None
        shown = seen = 0
        while seen < AT_A_TIME and len(stuck) < _MOST_STUCK and (lines := await self._pending(fact_id, after)):
            for line in lines:
                if line.fact_id not in stuck:
                    if await self._shows(line, self._facts):
                        shown += 1
                    else:
                        stuck.add(line.fact_id)
            seen, after = seen + len(lines), lines[-1]
        return shown

    async def tend(self) -> None:
        """Show what waits, as a sweep does: when the store or the ledger is away, an event says so."""
        try:
            await self.follow()
        except errors.MemoryError as error:
            _log.warning(Event.ORG_MEMORY_SHOW_DEFERRED, extra={"fact_id": None, "error": type(error).__name__})

    async def _shows(self, line: OperationLogEntry, facts: FactStore) -> bool:
        try:
            if line.content is not None:
                try:
                    await facts.show(record_of(self._company, line))
                except errors.MemoryError as error:
                    if error.is_retryable:
                        raise
                    # The version before it must go all the same.
                    _failed(line, error)
            if line.version > 1:
                old = line.version - 1
                await facts.hide(ids.shown_fact_id(company=self._company, fact_id=line.fact_id, version=old))
        except errors.MemoryConnectionError:
            raise
        except errors.MemoryError as error:
            _failed(line, error)
            return False
        await asyncio.to_thread(lambda: self._log.shown(self._company, line.fact_id, line.version))
        return True

    async def _pending(self, fact_id: str | None, after: OperationLogEntry | None) -> tuple[OperationLogEntry, ...]:
        return await asyncio.to_thread(lambda: self._log.pending(self._company, fact_id=fact_id, after=after))


def _failed(line: OperationLogEntry, error: errors.MemoryError) -> None:
    fields = {"fact_id": line.fact_id, "version": line.version, "error": type(error).__name__}
    _log.warning(Event.ORG_MEMORY_SHOW_FAILED, extra=fields)
