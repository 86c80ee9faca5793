"""Webhooks: the addresses that are told of a company's events, the log of deliveries, and sending them again."""

from collections.abc import Collection
from typing import Self

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.organization.audit import AuditNote, done_by
from memcore.ledger.webhooks.deliveries import MAX_PAGE, Delivery
from memcore.ledger.webhooks.endpoints import NewWebhookEndpoint, WebhookEndpoint
from memcore.ledger.work_items import WorkState
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime
from memcore.models.webhook import WebhookEventType
from memcore.service.resources import ServiceResources
from memcore.webhooks.destination import Destination


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


class WebhookOperations:
    """Changes a company's webhooks, and reads and repeats their deliveries.

    Every call raises MemoryConnectionError; those that name a webhook MemoryNotFoundError. ``by`` and ``reason`` go
    into the audit.
    """

    def __init__(self, resources: ServiceResources) -> None:
        self._resources = resources
        self._endpoints = resources.ledger.webhooks
        self._deliveries = resources.ledger.deliveries
        self._company = resources.company

    async def add(
        self,
        url: str,
        events: Collection[WebhookEventType | str],
        *,
        name: str | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> NewWebhookEndpoint:
        """Add a webhook, and return it with the secret that verifies what it gets; that is never shown again.

        The name is that of its host when left out. Raises MemoryInputError when the address may not be reached, the
        name is taken or an event does not exist.
        """
        checked = Destination.of(url, private_hosts=self._resources.settings.webhook_private_hosts)
        name = checked.host.replace(":", "-") if name is None else name
        return await self._resources.run(
            self._endpoints.add,
            self._company,
            name,
            url=url,
            events=events,
            note=_note(by, "add", name, reason),
        )

    async def list(self) -> tuple[WebhookEndpoint, ...]:
        """Return the company's webhooks by name."""
        return await self._resources.run(self._endpoints.list, self._company)

    async def get(self, name: str) -> WebhookEndpoint:
        """Return a webhook."""
        return await self._resources.run(self._endpoints.get, self._company, name)

    async def remove(self, name: str, *, by: str | None = None, reason: str | None = None) -> None:
        """Remove a webhook with its deliveries, also those on their way."""
        await self._resources.run(self._endpoints.remove, self._company, name, note=_note(by, "remove", name, reason))

    async def enable(self, name: str, *, by: str | None = None, reason: str | None = None) -> WebhookEndpoint:
        """Let a webhook be told of what happens from now on; ``replay_failed`` sends what it missed on its way."""
        return await self._resources.run(
            self._endpoints.enable, self._company, name, note=_note(by, "enable", name, reason)
        )

    async def disable(self, name: str, *, by: str | None = None, reason: str | None = None) -> WebhookEndpoint:
        """Let a webhook be told of nothing more; what is on its way fails."""
        return await self._resources.run(
            self._endpoints.disable, self._company, name, note=_note(by, "disable", name, reason)
        )

    async def rotate(self, name: str, *, by: str | None = None, reason: str | None = None) -> NewWebhookEndpoint:
        """Return a webhook with a new secret; the one before is good for another 24 hours."""
        return await self._resources.run(
            self._endpoints.rotate, self._company, name, note=_note(by, "rotate", name, reason)
        )

    async def test(self, name: str, *, by: str | None = None, reason: str | None = None) -> DeliveryInfo:
        """Send a ping to a webhook, and return its delivery, which ``delivery`` shows once it has been tried.

        Raises MemoryInputError when the webhook is disabled.
        """
        delivery_id = await self._resources.run(
            self._endpoints.ping, self._company, name, note=_note(by, "test", name, reason)
        )
        await self._resources.dispatch([await self._resources.run(self._deliveries.item, self._company, delivery_id)])
        return await self.delivery(delivery_id)

    async def delivery(self, delivery_id: str) -> DeliveryInfo:
        """Return a delivery. Raises MemoryNotFoundError."""
        found = await self._resources.run(self._deliveries.get, self._company, delivery_id)
        if found is None:
            raise MemoryNotFoundError(
                f"delivery_id: {delivery_id!r} names no delivery; see `memtend webhooks deliveries`"
            )
        return DeliveryInfo.of(found)

    async def deliveries(
        self, *, name: str | None = None, state: WorkState | None = None, limit: int = 20
    ) -> tuple[DeliveryInfo, ...]:
        """Return 1 to 256 deliveries, newest first, of all webhooks or of one. Raises MemoryInputError."""
        if not 1 <= limit <= MAX_PAGE:
            raise MemoryInputError("limit", f"must be 1 to {MAX_PAGE}")
        if name is not None:
            await self.get(name)
        found = await self._resources.run(self._deliveries.page, self._company, endpoint=name, state=state, limit=limit)
        return tuple(map(DeliveryInfo.of, found))

    async def replay(self, delivery_id: str, *, by: str | None = None, reason: str | None = None) -> DeliveryInfo:
        """Send a delivery that has ended again, under the same webhook-id.

        Raises MemoryNotFoundError; MemoryInputError when it is on its way, or its webhook is disabled.
        """
        note = _note(by, "replay", delivery_id, reason)
        item = await self._resources.run(self._deliveries.replay, self._company, delivery_id, note=note)
        await self._resources.dispatch([item])
        return await self.delivery(delivery_id)

    async def replay_failed(self, *, name: str | None = None, by: str | None = None, reason: str | None = None) -> int:
        """Send the newest thousand failed deliveries again, of all enabled webhooks or of one; return how many."""
        if name is not None:
            await self.get(name)
        note = _note(by, "replay", name or "all", reason)
        items = await self._resources.run(self._deliveries.replay_failed, self._company, endpoint=name, note=note)
        await self._resources.dispatch(items)
        return len(items)


def _note(by: str | None, action: str, subject: str, reason: str | None) -> AuditNote:
    return done_by(by, f"webhooks.{action}", subject, reason=reason)
