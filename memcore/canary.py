"""The canary: one memory a minute through the real path; the age of the newest that can be found is the service level.

A canary is stored as an engine's memory is: a message, a worker's batch, an embedding, a write. A search then looks for
it. It belongs to an owner of its own (``CANARY_OWNER``), which no caller may name and no list names; the one before is
deleted as soon as the next is found, so that a company has one.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import Self

from memcore import ids
from memcore.backends.factory import WorkerBackend
from memcore.clock import Clock, utc_now
from memcore.company import CompanyContext, JobDispatcher
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.jobs import Done, Outcome, StoreItem, StorePayload, store_queue
from memcore.ledger.ledger import Ledger
from memcore.ledger.monitoring.measures import Measure, MeasureName
from memcore.ledger.work_items import WorkItem
from memcore.models.base import Frozen
from memcore.models.memory import (
    CANARY_OWNER,
    BoundedTime,
    MemoryCategory,
    MemoryMetadata,
    MemoryQuery,
    MemoryStoreRequest,
)
from memcore.models.webhook import EventNotice, WebhookEventType
from memcore.records import Where

#: How long a job looks for the canary that it has sent. A longer wait would keep a worker from other jobs; the next
#: job looks again.
LOOKED_FOR = timedelta(seconds=5)

#: When a canary that nobody finds is given up, and another one is sent: its message may be lost with its broker's disk.
SENT_AGAIN_AFTER = timedelta(minutes=10)

#: When a canary that nobody finds is late: the doctor, the alerts and webhooks say so.
LATE_AFTER = timedelta(minutes=5)

#: The time from store to search above which the path is not well; the alert rules say both
#: (docker/prometheus/alerts.yml).
SLOW_AFTER = timedelta(seconds=30)

#: The value of CANARY_FOUND while none was found.
_NONE_FOUND = -1.0

#: First and longest pause between two looks, in seconds; each is half as long again as the one before.
_PAUSE_SECONDS = (0.02, 0.5)


class CanaryState(Frozen):
    """What is known of a company's canaries.

    Attributes:
        sent_at: when the newest one was sent.
        found_sent_at: when the newest one that was found was sent; before any was found, when the first was sent.
        seconds: from when that one was sent until it could be found; None before any was found.
    """

    sent_at: BoundedTime
    found_sent_at: BoundedTime
    seconds: float | None

    @property
    def is_open(self) -> bool:
        """Whether the newest one is not found yet."""
        return self.seconds is None or self.found_sent_at < self.sent_at

    def age_seconds(self, now: datetime) -> float:
        """Return the age of the newest memory that is known to be found: it grows while the path stands still."""
        return max(0.0, (now - self.found_sent_at).total_seconds())

    def delay_seconds(self, now: datetime) -> float:
        """Return the seconds from store to search: as last measured, or the age of the one that is not found yet."""
        waited = max(0.0, (now - self.sent_at).total_seconds()) if self.is_open else 0.0
        return max(waited, self.seconds or 0.0) if self.is_open else self.seconds or 0.0


def is_well(*, age_seconds: float, delay_seconds: float) -> bool:
    """Whether the newest memory that is found is young enough, and was found soon enough."""
    return age_seconds <= LATE_AFTER.total_seconds() and delay_seconds <= SLOW_AFTER.total_seconds()


def canary_state(measures: tuple[Measure, ...], company: str) -> CanaryState | None:
    """Return the state of a company's canaries by its figures; None before the first was sent."""
    by_name = {each.name: each for each in measures if each.company == company}
    sent, found = by_name.get(MeasureName.CANARY_SENT), by_name.get(MeasureName.CANARY_FOUND)
    if sent is None or found is None:
        return None
    return CanaryState(
        sent_at=sent.at, found_sent_at=found.at, seconds=None if found.value == _NONE_FOUND else found.value
    )


@dataclass(frozen=True, eq=False)
class CanaryService:
    """Sends and finds the canaries of one company."""

    backend: WorkerBackend
    ledger: Ledger
    dispatcher: JobDispatcher
    _: KW_ONLY
    company: str
    clock: Clock = utc_now
    looked_for: timedelta = LOOKED_FOR

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        return cls(context.backend, context.ledger, context.dispatcher, company=context.company, clock=context.clock)

    async def run(self) -> Outcome:
        """Look for the canary before, unless it was found; send the next one, and look for that.

        While the one before cannot be found, no other is sent for ten minutes: a path that stands still gets no queue
        of canaries. Raises MemoryConnectionError, MemoryRetrievalError, MemoryStoreError.
        """
        state = canary_state(self.ledger.measures.of([self.company]), self.company)
        if state is not None and state.is_open and not await self._found(state):
            late = self.clock() - state.sent_at
            if late < SENT_AGAIN_AFTER:
                return Done(facts={"late_seconds": round(late.total_seconds())})
        sent_at = self.clock()
        self.dispatcher.dispatch([self._message(sent_at)])
        # Behind the dispatch: one that the broker refused must not look late for ten minutes.
        self.ledger.measures.begin(self.company, MeasureName.CANARY_FOUND, _NONE_FOUND, at=sent_at)
        self.ledger.measures.note(self.company, MeasureName.CANARY_SENT, 0.0, at=sent_at)
        for pause in _pauses(self.looked_for.total_seconds()):
            if await self._noted(sent_at):
                return Done(facts={"sent": 1, "found": 1})
            await asyncio.sleep(pause)
        return Done(facts={"sent": 1, "found": 0})

    async def _found(self, state: CanaryState) -> bool:
        """Return whether the newest canary is found now; where it is late instead, say so to who wants to know."""
        try:
            is_found = await self._noted(state.sent_at)
        except MemoryError:
            self._announce_late(state)
            raise
        if not is_found:
            self._announce_late(state)
        return is_found

    def _announce_late(self, state: CanaryState) -> None:
        late = self.clock() - state.sent_at
        if late >= LATE_AFTER:
            # One outage has one cause, however many canaries are sent in it: the newest that was found stays the same.
            since = state.found_sent_at.isoformat()
            data = {"found_sent_at": since, "late_seconds": round(late.total_seconds())}
            self.ledger.webhooks.announce(
                self.company, EventNotice(event=WebhookEventType.CANARY_LATE, data=data, cause=since)
            )

    async def _noted(self, sent_at: datetime) -> bool:
        """Return whether a search finds the canary; then note it, and delete the older ones."""
        request = _request(sent_at)
        query = MemoryQuery(text=request.content, since=sent_at, limit=10)
        wanted = _memory_id(self.company, request)
        if wanted not in {each.id for each in await self.backend.retrieve(CANARY_OWNER, query)}:
            return False
        seconds = max(0.0, (self.clock() - sent_at).total_seconds())
        self.ledger.measures.note(self.company, MeasureName.CANARY_FOUND, seconds, at=sent_at)
        await self.backend.delete_where(Where(agent_id=CANARY_OWNER, created_before=sent_at))
        return True

    def _message(self, sent_at: datetime) -> WorkItem:
        # A message and no row, as an engine's store is.
        request = _request(sent_at)
        item = StoreItem(
            id=_memory_id(self.company, request),
            agent_id=CANARY_OWNER,
            request=request,
            created_at=sent_at,
            sent_at=sent_at,
        )
        return WorkItem(
            company=self.company,
            kind=StorePayload.task,
            key=ids.new_id(),
            queue=str(store_queue(CANARY_OWNER)),
            payload=StorePayload(company=self.company, version=4, items=(item,)).model_dump_json(),
            created_at=sent_at,
        )


def _request(sent_at: datetime) -> MemoryStoreRequest:
    return MemoryStoreRequest(
        category=MemoryCategory.EPISODIC,
        content=f"The canary of {sent_at.isoformat()}.",
        metadata=MemoryMetadata(source="canary"),
    )


def _memory_id(company: str, request: MemoryStoreRequest) -> str:
    return ids.memory_id(
        company=company,
        agent_id=CANARY_OWNER,
        category=request.category,
        namespace=request.namespace,
        content=request.content,
        source=request.metadata.source,
    )


def _pauses(seconds: float) -> Iterator[float]:
    pause, longest = _PAUSE_SECONDS
    while seconds > 0:
        yield min(pause, seconds)
        seconds -= pause
        pause = min(pause * 1.5, longest)
