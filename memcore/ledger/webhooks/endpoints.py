"""Endpoints: the addresses of a company that are told of events, and the secrets that sign what they are sent."""

import secrets
from base64 import b64encode
from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, NoReturn

from pydantic import Field, StringConstraints, TypeAdapter
from sqlalchemy import ColumnElement, delete, select, update

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.jobs import DeliverPayload
from memcore.ledger.database import Records, Row, checked_key, count_rows, equals, insert_one, one_record
from memcore.ledger.organization.audit import AuditNote, append
from memcore.ledger.tables import work_items
from memcore.ledger.webhooks.outbox import ENABLED, announce, deliver_to
from memcore.ledger.webhooks.tables import deliveries, endpoints
from memcore.models.base import Frozen, View, naming_fields
from memcore.models.memory import BoundedTime
from memcore.models.webhook import SUBSCRIBABLE, EventNotice, WebhookEventType

#: Most endpoints of a company: each event is written once for each.
MAX_ENDPOINTS = 20

#: How long the secret before a rotation signs too.
OLD_SECRET_LASTS = timedelta(hours=24)

#: What a secret begins with, by the Standard Webhooks specification, and its random bytes.
SECRET_PREFIX, _SECRET_BYTES = "whsec_", 32

_NAME: TypeAdapter[str] = TypeAdapter(Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")])


class EndpointState(StrEnum):
    """Whether an endpoint is told of events."""

    ENABLED = ENABLED
    DISABLED = "disabled"


class WebhookView(View):
    """A webhook, without its secret.

    Attributes:
        events: what it is told of.
        reason: why it is disabled, where no person did it.
        failing_since: since when no delivery has succeeded; null while the last one did.
    """

    name: str
    url: str = Field(repr=False)
    events: tuple[WebhookEventType, ...]
    state: EndpointState
    reason: str | None
    failing_since: BoundedTime | None
    created_at: BoundedTime
    changed_at: BoundedTime


class WebhookEndpoint(WebhookView):
    """An endpoint as people see it: never its secret."""

    company: str


class NewWebhookEndpoint(Frozen):
    """An endpoint that was just made or rotated, and its secret, which is never shown again."""

    endpoint: WebhookEndpoint
    secret: str = Field(repr=False)


class SigningEndpoint(WebhookEndpoint):
    """An endpoint with its secrets, for who signs what is sent to it."""

    secret: str = Field(repr=False)
    old_secret: str | None = Field(default=None, repr=False)
    old_secret_until: BoundedTime | None = None

    def secrets(self, now: datetime) -> tuple[str, ...]:
        """Return what signs now: the secret, and for a day after a rotation the one before too."""
        until = self.old_secret_until
        old = (self.old_secret,) if self.old_secret and until is not None and now < until else ()
        return (self.secret, *old)


class WebhookEndpoints(Records[WebhookEndpoint]):
    """The table of endpoints. Each change is audited in its transaction."""

    _table = endpoints
    _model = WebhookEndpoint

    def add(
        self, company: str, name: str, *, url: str, events: Collection[WebhookEventType | str], note: AuditNote
    ) -> NewWebhookEndpoint:
        """Add an endpoint, whose address the caller has checked, and return it with its secret.

        Raises MemoryInputError when the name is taken or not valid, an event does not exist, or there are 20 already.
        """
        now, name, secret = self._clock(), _checked_name(name), _new_secret()
        row: Row = {
            "company": checked_key("company", company),
            "name": name,
            "url": url,
            "events": list(_checked_events(events)),
            "secret": secret,
            "state": ENABLED,
            "created_at": now,
            "changed_at": now,
        }
        with self._database.write() as connection:
            if count_rows(connection, endpoints, endpoints.c.company == company) >= MAX_ENDPOINTS:
                raise MemoryInputError("name", f"the company has {MAX_ENDPOINTS} webhooks; that is the limit")
            if not insert_one(connection, endpoints, row):
                raise MemoryInputError("name", f"{name!r} is taken; choose another, or remove that webhook first")
            append(connection, company, note, at=now)
        return NewWebhookEndpoint(endpoint=self.get(company, name), secret=secret)

    def get(self, company: str, name: str) -> WebhookEndpoint:
        """Return an endpoint. Raises MemoryNotFoundError."""
        return self._one(select(endpoints).where(_is(company, name))) or _missing(name)

    def signing(self, company: str, name: str) -> SigningEndpoint | None:
        """Return an endpoint with its secrets, or None."""
        with self._database.read() as connection:
            return one_record(connection, SigningEndpoint, select(endpoints).where(_is(company, name)))

    def list(self, company: str) -> tuple[WebhookEndpoint, ...]:
        """Return a company's endpoints by name."""
        return self._all(select(endpoints).where(endpoints.c.company == company).order_by(endpoints.c.name))

    def in_trouble(self) -> tuple[WebhookEndpoint, ...]:
        """Return the endpoints of all companies that are failing, or were disabled because they did."""
        stopped = endpoints.c.reason.is_not(None) & (endpoints.c.state == EndpointState.DISABLED.value)
        which = endpoints.c.failing_since.is_not(None) | stopped
        return self._all(select(endpoints).where(which).order_by(endpoints.c.company, endpoints.c.name))

    def count_all(self) -> int:
        """Return how many endpoints there are of all companies."""
        return self._database.count(endpoints)

    def remove(self, company: str, name: str, *, note: AuditNote) -> None:
        """Remove an endpoint with its deliveries, also those that are on their way. Raises MemoryNotFoundError."""
        mine = equals(deliveries, company=company, endpoint=name)
        with self._database.write() as connection:
            its = equals(work_items, company=company, kind=DeliverPayload.task)
            keys = select(deliveries.c.delivery_id).where(mine)
            connection.execute(delete(work_items).where(its, work_items.c.key.in_(keys)))
            connection.execute(delete(deliveries).where(mine))
            # Last, in the order in which a worker changes them.
            if not connection.execute(delete(endpoints).where(_is(company, name))).rowcount:
                _missing(name)
            append(connection, company, note, at=self._clock())

    def enable(self, company: str, name: str, *, note: AuditNote) -> WebhookEndpoint:
        """Let an endpoint be told of what happens from now on. Raises MemoryNotFoundError."""
        return self._changed(company, name, note, state=ENABLED, reason=None, failing_since=None)

    def disable(self, company: str, name: str, *, note: AuditNote) -> WebhookEndpoint:
        """Let an endpoint be told of nothing more. Raises MemoryNotFoundError."""
        state = EndpointState.DISABLED.value
        return self._changed(company, name, note, state=state, reason=None, failing_since=None)

    def rotate(self, company: str, name: str, *, note: AuditNote) -> NewWebhookEndpoint:
        """Give an endpoint a new secret; the one before signs too for 24 hours. Raises MemoryNotFoundError."""
        secret, until = _new_secret(), self._clock() + OLD_SECRET_LASTS
        rotated = {"old_secret": endpoints.c.secret, "old_secret_until": until, "secret": secret}
        return NewWebhookEndpoint(endpoint=self._changed(company, name, note, **rotated), secret=secret)

    def announce(self, company: str, notice: EventNotice) -> int:
        """Write an event that is told of by no other row, and return the deliveries; the same cause counts once."""
        with self._database.write() as connection:
            return len(announce(connection, company, notice, at=self._clock()))

    def ping(self, company: str, name: str, *, note: AuditNote) -> str:
        """Write a delivery that only tries an endpoint, and return its id.

        Raises MemoryNotFoundError; MemoryInputError when the endpoint is disabled.
        """
        now = self._clock()
        with self._database.write() as connection:
            found = one_record(connection, WebhookEndpoint, select(endpoints).where(_is(company, name)))
            refuse_disabled(found or _missing(name))
            append(connection, company, note, at=now)
            notice = EventNotice(event=WebhookEventType.PING, data={"webhook": name})
            return deliver_to(connection, company, name, notice, at=now)

    def _changed(self, company: str, name: str, note: AuditNote, **values: object) -> WebhookEndpoint:
        now = self._clock()
        with self._database.write() as connection:
            statement = update(endpoints).where(_is(company, name)).values(**values, changed_at=now)
            found = one_record(connection, WebhookEndpoint, statement.returning(*endpoints.c))
            append(connection, company, note, at=now)
            return found or _missing(name)


def refuse_disabled(endpoint: WebhookEndpoint) -> None:
    """Raise MemoryInputError for an endpoint that is told of nothing."""
    if endpoint.state is EndpointState.DISABLED:
        raise MemoryInputError("name", f"{endpoint.name!r} is disabled; `memtend webhooks enable {endpoint.name}`")


def _is(company: str, name: str) -> ColumnElement[bool]:
    return equals(endpoints, company=company, name=name)


def _missing(name: str) -> NoReturn:
    raise MemoryNotFoundError(f"name: {name!r} names no webhook; see `memtend webhooks list`")


def _checked_name(name: str) -> str:
    with naming_fields(name="name"):
        return _NAME.validate_python(name)


def _checked_events(events: Collection[WebhookEventType | str]) -> tuple[str, ...]:
    named = set(map(str, events))
    known = [event.value for event in SUBSCRIBABLE]
    if wrong := sorted(named.difference(known)):
        raise MemoryInputError("events", f"{wrong[0][:64]!r} is not one of {', '.join(known)}")
    if not named:
        raise MemoryInputError("events", "must not be empty")
    return tuple(event for event in known if event in named)


def _new_secret() -> str:
    return SECRET_PREFIX + b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
