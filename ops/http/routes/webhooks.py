"""Webhooks: who is told of a company's events, and what became of each delivery."""

from typing import Annotated, Self

from fastapi import APIRouter, Query
from pydantic import Field, model_validator

from memcore.errors import MemoryInputError
from memcore.ledger.access.keys import Verb
from memcore.ledger.webhooks.deliveries import MAX_PAGE
from memcore.ledger.webhooks.endpoints import EndpointState, NewWebhookEndpoint, WebhookEndpoint
from memcore.ledger.work_items import WorkState
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime, Key, StoredKey
from memcore.models.webhook import WebhookEventType
from memcore.service.webhooks import DeliveryInfo
from memcore.webhooks.destination import MAX_URL_CHARS
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.http.operators import Named, PathId, ReasonBody, company_wide

router = APIRouter(prefix="/v1", tags=["webhooks"], dependencies=[company_wide(Verb.ADMIN)])


class WebhookView(Frozen):
    """A webhook, without its secret.

    Attributes:
        events: what it is told of.
        reason: why it is disabled, where no person did it.
        failing_since: since when no delivery has succeeded; null while the last one did.
    """

    name: str
    url: str
    events: tuple[WebhookEventType, ...]
    state: EndpointState
    reason: str | None
    failing_since: BoundedTime | None
    created_at: BoundedTime
    changed_at: BoundedTime

    @classmethod
    def of(cls, endpoint: WebhookEndpoint) -> Self:
        """Return what is shown of a webhook."""
        return cls(**endpoint.model_dump(include=set(cls.model_fields)))


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


class WebhookPage(Frozen):
    """The company's webhooks by name."""

    items: tuple[WebhookView, ...]


class DeliveryPage(Frozen):
    """Deliveries, newest first."""

    items: tuple[DeliveryInfo, ...]


class WebhookBody(ReasonBody):
    """A webhook to add.

    Attributes:
        url: where events are sent, by POST; https.
        events: what it is told of.
        name: what it is called; the name of its host when left out.
    """

    url: Annotated[str, Field(min_length=1, max_length=MAX_URL_CHARS)]
    events: Annotated[tuple[WebhookEventType, ...], Field(min_length=1, max_length=len(WebhookEventType))]
    name: Key | None = None


class ReplayBody(ReasonBody):
    """Which deliveries are sent again.

    Attributes:
        delivery_id: this one, which has ended.
        failed: the newest thousand that failed, instead.
        webhook: with failed: of this webhook alone.
    """

    delivery_id: StoredKey | None = None
    failed: bool = False
    webhook: Key | None = None

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if (self.delivery_id is None) != self.failed:
            raise MemoryInputError("delivery_id", "name a delivery, or say failed")
        return self


class DeliveriesReplayed(Frozen):
    """How many deliveries are sent again."""

    replayed: int


@router.post("/webhooks", status_code=201)
async def add(body: WebhookBody, caller: CurrentCaller, service: Service) -> NewWebhook:
    """Add a webhook, and return it with its secret."""
    made = await service.webhooks.add(body.url, body.events, name=body.name, by=caller.name, reason=body.reason)
    return NewWebhook.of(made)


@router.get("/webhooks")
async def list_webhooks(service: Service) -> WebhookPage:
    """Return the webhooks: what each is told of, and which are failing or disabled."""
    return WebhookPage(items=tuple(map(WebhookView.of, await service.webhooks.list())))


@router.get("/webhooks/{name}")
async def get_webhook(name: PathId, service: Service) -> WebhookView:
    """Return one webhook."""
    return WebhookView.of(await service.webhooks.get(name))


@router.delete("/webhooks/{name}")
async def remove(name: PathId, body: ReasonBody, caller: CurrentCaller, service: Service) -> WebhookView:
    """Remove a webhook with its deliveries, also those on their way, and return what it was."""
    found = await service.webhooks.get(name)
    await service.webhooks.remove(name, by=caller.name, reason=body.reason)
    return WebhookView.of(found)


@router.post("/webhooks/{name}/enable")
async def enable(name: PathId, body: ReasonBody, caller: CurrentCaller, service: Service) -> WebhookView:
    """Let a webhook be told of what happens from now on."""
    return WebhookView.of(await service.webhooks.enable(name, by=caller.name, reason=body.reason))


@router.post("/webhooks/{name}/disable")
async def disable(name: PathId, body: ReasonBody, caller: CurrentCaller, service: Service) -> WebhookView:
    """Let a webhook be told of nothing more; what is on its way fails."""
    return WebhookView.of(await service.webhooks.disable(name, by=caller.name, reason=body.reason))


@router.post("/webhooks/{name}/rotate")
async def rotate(name: PathId, body: ReasonBody, caller: CurrentCaller, service: Service) -> NewWebhook:
    """Return a webhook with a new secret; the one before signs too for 24 hours."""
    return NewWebhook.of(await service.webhooks.rotate(name, by=caller.name, reason=body.reason))


@router.post("/webhooks/{name}/test", status_code=202)
async def test(name: PathId, body: ReasonBody, caller: CurrentCaller, service: Service) -> DeliveryInfo:
    """Send a ping, and return its delivery."""
    return await service.webhooks.test(name, by=caller.name, reason=body.reason)


@router.get("/webhook-deliveries")
async def list_deliveries(
    service: Service,
    webhook: Named | None = None,
    state: WorkState | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 20,
) -> DeliveryPage:
    """Return deliveries, newest first."""
    return DeliveryPage(items=await service.webhooks.deliveries(name=webhook, state=state, limit=limit))


@router.get("/webhook-deliveries/{delivery_id}")
async def get_delivery(delivery_id: PathId, service: Service) -> DeliveryInfo:
    """Return one delivery: what was answered, and when it is tried again."""
    return await service.webhooks.delivery(delivery_id)


@router.post("/webhook-deliveries:replay", status_code=202)
async def replay(body: ReplayBody, caller: CurrentCaller, service: Service) -> DeliveriesReplayed:
    """Send deliveries again, under the same webhook-id."""
    if body.delivery_id is None:
        sent = await service.webhooks.replay_failed(name=body.webhook, by=caller.name, reason=body.reason)
    else:
        await service.webhooks.replay(body.delivery_id, by=caller.name, reason=body.reason)
        sent = 1
    return DeliveriesReplayed(replayed=sent)
