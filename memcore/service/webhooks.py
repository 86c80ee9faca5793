"""Webhooks: the addresses that are told of a company's events, the log of deliveries, and sending them again."""

from typing import Annotated, Self

from pydantic import Field

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.access.keys import Verb
from memcore.ledger.organization.audit import AuditNote, done_by
from memcore.ledger.webhooks.deliveries import MAX_PAGE, Delivery
from memcore.ledger.webhooks.endpoints import NewWebhookEndpoint, WebhookEndpoint, WebhookView
from memcore.ledger.work_items import WorkState
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime, Key
from memcore.models.webhook import WebhookEventType
from memcore.service.operation import Named, operation
from memcore.service.resources import CompanyPart, ServiceResources, check_page
from memcore.webhooks.destination import MAX_URL_CHARS, Destination

Url = Annotated[
    str, Field(min_length=1, max_length=MAX_URL_CHARS, description="Where events are sent, by POST; https.")
]
Events = Annotated[
    tuple[WebhookEventType, ...],
    Field(min_length=1, max_length=len(WebhookEventType), description="What it is told of."),
]

_ONE = "/webhooks/{name}"


class NewWebhook(Frozen):
    """A webhook that was just made or rotated.

    Attributes:
        secret: whsec_..., with which the receiver verifies what it gets; it is never shown again.
    """

    webhook: WebhookView
    secret: str = Field(repr=False)

    @classmethod
    def of(cls, made: NewWebhookEndpoint) -> Self:
        """Return a webhook with its secret."""
        return cls(webhook=WebhookView.of(made.endpoint), secret=made.secret)


class DeliveryInfo(Frozen):
    """A delivery as an API shows it: without its body.

    Attributes:
        event_id: what the receiver gets as webhook-id.
        state: available, waiting or leased while it is on its way; done, failed.
        failures: tries that failed.
        status: the status that the last try was answered with; None without an answer.
        error: what was wrong with the last try.
        next_try_at: when an open one is tried again.
    """

    delivery_id: str
    webhook: str
    event: WebhookEventType
    event_id: str
    agent_id: str | None
    state: WorkState
    failures: int
    status: int | None
    error: str | None
    announced_at: BoundedTime
    tried_at: BoundedTime | None
    next_try_at: BoundedTime | None
    finished_at: BoundedTime | None

    @classmethod
    def of(cls, delivery: Delivery) -> Self:
        """Return what is shown of a delivery."""
        shown = delivery.model_dump(include=set(cls.model_fields))
        is_waiting = delivery.state in {WorkState.AVAILABLE, WorkState.WAITING}
        next_try = delivery.dispatch_after if is_waiting else None
        # One that ended without a try, since its webhook was disabled, says so in its reason.
        shown["error"] = delivery.error or (delivery.reason if delivery.state is WorkState.FAILED else None)
        return cls(**shown, webhook=delivery.endpoint, next_try_at=next_try)


class WebhookOperations(CompanyPart):
    """Changes a company's webhooks, and reads and repeats their deliveries.

    Every call raises MemoryConnectionError; those that name a webhook MemoryNotFoundError. ``by`` and ``reason`` go
    into the audit.
    """

    def __init__(self, resources: ServiceResources) -> None:
        super().__init__(resources)
        self._endpoints = resources.ledger.webhooks
        self._deliveries = resources.ledger.deliveries

    @operation("POST /webhooks", Verb.ADMIN, status=201, shows=NewWebhook)
    async def add(
        self,
        url: Url,
        events: Events,
        *,
        name: Annotated[Key | None, Field(description="The name of its host when left out.")] = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> NewWebhookEndpoint:
        """Add a webhook, and return it with the secret that verifies what it gets; that is never shown again.

        The name is that of its host when left out. Raises MemoryInputError when the address may not be reached, the
        name is taken or an event does not exist.
        """
        checked = Destination.of(url, private_hosts=self._resources.settings.webhook_private_hosts)
        name = checked.host.replace(":", "-") if name is None else name
        return await self._ask(
            self._endpoints.add,
            name,
            url=url,
            events=events,
            note=_note(by, "add", name, reason),
        )

    @operation("GET /webhooks", Verb.ADMIN, shows=WebhookView, under="items")
    async def list(self) -> tuple[WebhookEndpoint, ...]:
        """Return the company's webhooks by name: what each is told of, and which are failing or disabled."""
        return await self._ask(self._endpoints.list)

    @operation(f"GET {_ONE}", Verb.ADMIN, shows=WebhookView)
    async def get(self, name: str) -> WebhookEndpoint:
        """Return a webhook."""
        return await self._ask(self._endpoints.get, name)

    @operation(f"DELETE {_ONE}", Verb.ADMIN, shows=WebhookView)
    async def remove(self, name: str, *, by: str | None = None, reason: str | None = None) -> WebhookEndpoint:
        """Remove a webhook with its deliveries, also those on their way, and return what it was."""
        found = await self.get(name)
        await self._ask(self._endpoints.remove, name, note=_note(by, "remove", name, reason))
        return found

    @operation(f"POST {_ONE}/enable", Verb.ADMIN, shows=WebhookView)
    async def enable(self, name: str, *, by: str | None = None, reason: str | None = None) -> WebhookEndpoint:
        """Let a webhook be told of what happens from now on; a replay of what failed sends what it missed."""
        return await self._ask(self._endpoints.enable, name, note=_note(by, "enable", name, reason))

    @operation(f"POST {_ONE}/disable", Verb.ADMIN, shows=WebhookView)
    async def disable(self, name: str, *, by: str | None = None, reason: str | None = None) -> WebhookEndpoint:
        """Let a webhook be told of nothing more; what is on its way fails."""
        return await self._ask(self._endpoints.disable, name, note=_note(by, "disable", name, reason))

    @operation(f"POST {_ONE}/rotate", Verb.ADMIN, shows=NewWebhook)
    async def rotate(self, name: str, *, by: str | None = None, reason: str | None = None) -> NewWebhookEndpoint:
        """Return a webhook with a new secret; the one before is good for another 24 hours."""
        return await self._ask(self._endpoints.rotate, name, note=_note(by, "rotate", name, reason))

    @operation(f"POST {_ONE}/test", Verb.ADMIN, status=202)
    async def test(self, name: str, *, by: str | None = None, reason: str | None = None) -> DeliveryInfo:
        """Send a ping to a webhook, and return its delivery, which says what became of it once it has been tried.

        Raises MemoryInputError when the webhook is disabled.
        """
        delivery_id = await self._ask(self._endpoints.ping, name, note=_note(by, "test", name, reason))
        await self._resources.dispatch([await self._ask(self._deliveries.item, delivery_id)])
        return await self.delivery(delivery_id)

    @operation("GET /webhook-deliveries/{delivery_id}", Verb.ADMIN)
    async def delivery(self, delivery_id: str) -> DeliveryInfo:
        """Return a delivery: what was answered, and when it is tried again. Raises MemoryNotFoundError."""
        found = await self._ask(self._deliveries.get, delivery_id)
        if found is None:
            raise MemoryNotFoundError(
                f"delivery_id: {delivery_id!r} names no delivery; see `memtend webhooks deliveries`"
            )
        return DeliveryInfo.of(found)

    @operation("GET /webhook-deliveries", Verb.ADMIN, under="items")
    async def deliveries(
        self,
        *,
        webhook: Named | None = None,
        state: WorkState | None = None,
        limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 20,
    ) -> tuple[DeliveryInfo, ...]:
        """Return 1 to 256 deliveries, newest first, of all webhooks or of one. Raises MemoryInputError."""
        check_page(limit, MAX_PAGE)
        if webhook is not None:
            await self.get(webhook)
        found = await self._ask(self._deliveries.page, endpoint=webhook, state=state, limit=limit)
        return tuple(map(DeliveryInfo.of, found))

    async def replay(self, delivery_id: str, *, by: str | None = None, reason: str | None = None) -> DeliveryInfo:
        """Send a delivery that has ended again, under the same webhook-id.

        Raises MemoryNotFoundError; MemoryInputError when it is on its way, or its webhook is disabled.
        """
        note = _note(by, "replay", delivery_id, reason)
        item = await self._ask(self._deliveries.replay, delivery_id, note=note)
        await self._resources.dispatch([item])
        return await self.delivery(delivery_id)

    @operation("POST /webhook-deliveries:replay", Verb.ADMIN, status=202, under="replayed")
    async def replay_these(
        self,
        *,
        delivery_id: Annotated[Key | None, Field(description="This one, which has ended.")] = None,
        failed: Annotated[bool, Field(description="The newest thousand that failed, instead.")] = False,
        webhook: Annotated[Key | None, Field(description="With failed: of this webhook alone.")] = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> int:
        """Send deliveries again, under the same webhook-id: one that has ended, or the newest thousand that failed.

        With ``failed``, of one webhook alone or of all that are enabled. Returns how many. Raises MemoryInputError,
        MemoryNotFoundError.
        """
        if (delivery_id is None) != failed:
            raise MemoryInputError("delivery_id", "name a delivery, or say failed")
        if delivery_id is None:
            return await self.replay_failed(name=webhook, by=by, reason=reason)
        await self.replay(delivery_id, by=by, reason=reason)
        return 1

    async def replay_failed(self, *, name: str | None = None, by: str | None = None, reason: str | None = None) -> int:
        """Send the newest thousand failed deliveries again, of all enabled webhooks or of one; return how many."""
        if name is not None:
            await self.get(name)
        note = _note(by, "replay", name or "all", reason)
        items = await self._ask(self._deliveries.replay_failed, endpoint=name, note=note)
        await self._resources.dispatch(items)
        return len(items)


def _note(by: str | None, action: str, subject: str, reason: str | None) -> AuditNote:
    return done_by(by, f"webhooks.{action}", subject, reason=reason)
