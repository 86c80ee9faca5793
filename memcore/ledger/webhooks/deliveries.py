"""Deliveries: each is a work item, and once it has ended a line of the log, which can be sent again."""

from datetime import datetime, timedelta
from typing import NamedTuple

from pydantic import Field
from sqlalchemy import Connection, and_, case, delete, func, select, update

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.jobs import DeliverPayload
from memcore.ledger.database import Row, equals, id_chunks, one_record
from memcore.ledger.organization.audit import AuditNote, AuditVerdict, append
from memcore.ledger.tables import OPEN_WORK, work_items
from memcore.ledger.webhooks.endpoints import EndpointState, WebhookEndpoint, refuse_disabled
from memcore.ledger.webhooks.tables import deliveries, endpoints
from memcore.ledger.work_items import Work, WorkItem, WorkRecord, WorkState
from memcore.models.memory import BoundedTime
from memcore.models.webhook import WebhookEventType

#: Most deliveries of a page, and of one call that sends the failed ones again.
MAX_PAGE, MAX_REPLAYED = 256, 1_000

#: How long a delivery that has ended is kept.
KEPT_FOR = timedelta(days=30)

#: The actor in the audit of what no person did.
_ACTOR = "memtend"

_ENDED = (WorkState.DONE, WorkState.SKIPPED, WorkState.FAILED, WorkState.DISMISSED)


class Delivery(WorkRecord):
    """The delivery of an event to an endpoint.

    Attributes:
        event_id: the same for every endpoint, and for every try.
        agent_id: the agent that the body names.
        body: the JSON that is sent.
        failures: tries that failed since it was announced, or sent again by a person.
        status: the status that the last try was answered with; None without an answer.
        error: what was wrong with the last try.
        tried_at: when that was.
        dispatch_after: when an open one is tried next.
    """

    company: str
    delivery_id: str
    endpoint: str
    event_id: str
    event: WebhookEventType
    agent_id: str | None = None
    body: str = Field(repr=False)
    announced_at: BoundedTime
    failures: int = 0
    status: int | None = None
    error: str | None = None
    tried_at: BoundedTime | None = None
    state: WorkState = WorkState.AVAILABLE
    reason: str | None = None
    dispatch_after: BoundedTime | None = None
    finished_at: BoundedTime | None = None


class EndpointLoad(NamedTuple):
    """How many deliveries of an endpoint are being sent now, and how many more wait."""

    leased: int
    waiting: int


class Deliveries(Work[Delivery]):
    """The table of deliveries and their work items."""

    _kind = DeliverPayload.task
    _table = deliveries
    _model = Delivery
    _newest_by = (deliveries.c.announced_at, deliveries.c.delivery_id)
    _page_size = MAX_PAGE

    def succeed(self, company: str, delivery_id: str, token: str, *, status: int) -> Delivery:
        """End a delivery that was accepted; its endpoint is well. Raises LeaseLostError."""
        own: Row = {"status": status, "error": None, "tried_at": self._clock()}
        with self._database.write() as connection:
            done = self._leased_in(connection, company, delivery_id, token, "finish", own=own)
            # Only where something changes: most deliveries succeed, and none waits for another over this row.
            failing = equals(endpoints, company=company, name=done.endpoint) & endpoints.c.failing_since.is_not(None)
            connection.execute(update(endpoints).where(failing).values(failing_since=None))
        return done

    def postpone(
        self, company: str, delivery_id: str, token: str, *, status: int | None, error: str, after: timedelta
    ) -> Delivery:
        """Note a try that failed, and try again after a delay. Raises LeaseLostError."""
        with self._database.write() as connection:
            own = self._failed(connection, company, delivery_id, status=status, error=error)
            at = self._clock() + after
            failed = self._leased_in(
                connection, company, delivery_id, token, "wait", own=own, reason=error, dispatch_after=at
            )
            self._note_failing(connection, failed)
            return failed

    def give_up(
        self, company: str, delivery_id: str, token: str, *, status: int | None, error: str, disable: str | None = None
    ) -> Delivery:
        """Note a try that failed, and end the delivery as failed; a person may send it again.

        With a reason to ``disable`` its endpoint is told of nothing more, which is audited. Raises LeaseLostError.
        """
        with self._database.write() as connection:
            own = self._failed(connection, company, delivery_id, status=status, error=error)
            gone = self._leased_in(connection, company, delivery_id, token, "fail", own=own, reason=error)
            self._note_failing(connection, gone)
            if disable is not None:
                self._disable(connection, company, gone.endpoint, disable)
            return gone

    def load(self, company: str, endpoint: str) -> EndpointLoad:
        """Return how busy an endpoint is."""
        now, of = self._clock(), work_items.c
        # One whose worker died counts until its lease has ended.
        is_leased = and_(of.state == WorkState.LEASED.value, of.lease_until > now)
        leased, waiting = (func.count(case((which, 1))) for which in (is_leased, ~is_leased))
        its = equals(work_items, company=company, kind=self._kind) & OPEN_WORK
        mine = select(deliveries.c.delivery_id).where(equals(deliveries, company=company, endpoint=endpoint))
        query = select(leased.label("leased"), waiting.label("waiting")).where(its, of.key.in_(mine))
        row = self._database.row(query)
        return EndpointLoad(row["leased"], row["waiting"]) if row else EndpointLoad(0, 0)

    def page(
        self,
        company: str,
        *,
        endpoint: str | None = None,
        state: WorkState | None = None,
        before: Delivery | None = None,
        limit: int = MAX_PAGE,
    ) -> tuple[Delivery, ...]:
        """Return at most 256 deliveries of a company, newest first, behind the last one of the page before."""
        query = self._rows().where(deliveries.c.company == company)
        if endpoint is not None:
            query = query.where(deliveries.c.endpoint == endpoint)
        if state is not None:
            query = query.where(work_items.c.state == state.value)
        return self._page(query, before=before, limit=limit)

    def replay(self, company: str, delivery_id: str, *, note: AuditNote) -> WorkItem:
        """Send a delivery that has ended again, under its event's id, and return its item to be dispatched.

        Raises MemoryNotFoundError; MemoryInputError when it is on its way, or its endpoint is disabled.
        """
        with self._database.write() as connection:
            found = connection.execute(self._rows().where(self._is(company, delivery_id))).mappings().one_or_none()
            if found is None:
                raise MemoryNotFoundError(
                    f"delivery_id: {delivery_id!r} names no delivery; see `memtend webhooks deliveries`"
                )
            endpoint = select(endpoints).where(equals(endpoints, company=company, name=found["endpoint"]))
            its = one_record(connection, WebhookEndpoint, endpoint)
            if its is not None:
                refuse_disabled(its)
            if not self._replayed(connection, company, delivery_id):
                raise MemoryInputError("delivery_id", "is on its way already")
            append(connection, company, note, at=self._clock())
        return self.item(company, delivery_id)

    def replay_failed(self, company: str, *, endpoint: str | None = None, note: AuditNote) -> tuple[WorkItem, ...]:
        """Send the newest thousand failed deliveries again, but to disabled endpoints, and return their items."""
        is_enabled = select(endpoints.c.name).where(
            endpoints.c.company == company, endpoints.c.state == EndpointState.ENABLED.value
        )
        query = (
            self._rows()
            .where(deliveries.c.company == company, work_items.c.state == WorkState.FAILED.value)
            .where(deliveries.c.endpoint.in_(is_enabled))
            .order_by(deliveries.c.announced_at.desc())
            .limit(MAX_REPLAYED)
        )
        if endpoint is not None:
            query = query.where(deliveries.c.endpoint == endpoint)
        with self._database.write() as connection:
            # In one order everywhere: two calls at once that lock in different ones deadlock on PostgreSQL.
            failed = sorted(row["delivery_id"] for row in connection.execute(query).mappings())
            sent = [each for each in failed if self._replayed(connection, company, each)]
            append(connection, company, note, at=self._clock())
        return tuple(self.item(company, each) for each in sent)

    def expire(self, company: str, *, before: datetime) -> int:
        """Delete the deliveries that ended before a time, and return how many there were."""
        ended = and_(
            equals(work_items, company=company, kind=self._kind),
            work_items.c.state.in_([state.value for state in _ENDED]),
            work_items.c.finished_at < before,
        )
        with self._database.write() as connection:
            # One statement looks and deletes: what a person sends again at this moment stays.
            gone = connection.execute(delete(work_items).where(ended).returning(work_items.c.key)).scalars().all()
            for part in id_chunks(gone):
                mine = (deliveries.c.company == company) & deliveries.c.delivery_id.in_(part)
                connection.execute(delete(deliveries).where(mine))
        return len(gone)

    def _failed(self, connection: Connection, company: str, delivery_id: str, *, status: int | None, error: str) -> Row:
        """Return what a failed try changes in its row."""
        query = select(deliveries.c.failures).where(self._is(company, delivery_id))
        # None was removed with its endpoint: whoever holds it learns that from the next statement.
        failures = connection.execute(query).scalar_one_or_none() or 0
        return {"failures": failures + 1, "status": status, "error": error, "tried_at": self._clock()}

    def _note_failing(self, connection: Connection, failed: Delivery) -> None:
        # Behind the item's row, as in `succeed`: two that lock in different orders deadlock on PostgreSQL.
        mine = equals(endpoints, company=failed.company, name=failed.endpoint)
        well = mine & endpoints.c.failing_since.is_(None)
        connection.execute(update(endpoints).where(well).values(failing_since=self._clock()))

    def _disable(self, connection: Connection, company: str, name: str, reason: str) -> None:
        now = self._clock()
        its = equals(endpoints, company=company, name=name, state=EndpointState.ENABLED.value)
        values = {"state": EndpointState.DISABLED.value, "reason": reason, "changed_at": now}
        if connection.execute(update(endpoints).where(its).values(values)).rowcount:
            note = AuditNote(
                actor=_ACTOR, action="webhooks.disable", subject=name, verdict=AuditVerdict.DONE, reason=reason
            )
            append(connection, company, note, at=now)

    def _replayed(self, connection: Connection, company: str, delivery_id: str) -> bool:
        own: Row = {"failures": 0, "status": None, "error": None}
        # Due at once: whoever asked may die before it has sent the message.
        due = self._clock()
        return bool(
            self._changed(
                connection, "replay", company, delivery_id, own=own, given={}, reason=None, attempt=0,
                dispatch_after=due,
            )
        )  # fmt: skip
