"""One try: to the address that was checked, within its time, with nothing kept of the answer but its status."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from support.ledger_records import COMPANY
from support.webhook_world import HOOK, LOOPBACK, WebhookWorld, happened

from memcore.ledger.webhooks.deliveries import Delivery
from memcore.ledger.webhooks.endpoints import SigningEndpoint
from memcore.webhooks.sender import Tried, TryError, WebhookSender


def _given(world: WebhookWorld, **changed: object) -> tuple[Delivery, SigningEndpoint]:
    happened(world.ledger)
    found = world.ledger.webhooks.signing(COMPANY, HOOK)
    assert found is not None
    return world.only(), found.model_copy(update=changed)


def _tried(world: WebhookWorld, sender: WebhookSender, **changed: object) -> Tried:
    return asyncio.run(sender.send(*_given(world, **changed)))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_is_followed(world: WebhookWorld, status: int) -> None:
    world.listener.status = status
    assert _tried(world, world.service.sender) == Tried(status=status, error=TryError.STATUS)
    assert len(world.listener.requests) == 1


def test_a_long_answer_is_not_read(world: WebhookWorld) -> None:
    world.listener.status, world.listener.content = 200, b"x" * 5_000_000
    assert _tried(world, world.service.sender) == Tried(status=200)


def test_a_receiver_that_hangs_costs_no_more_than_its_time(world: WebhookWorld) -> None:
    world.listener.goes_on.clear()
    sender = WebhookSender(LOOPBACK, timeout=timedelta(seconds=0.2))
    assert _tried(world, sender) == Tried(error=TryError.TIMEOUT)
    assert len(world.listener.requests) == 1


def test_a_name_that_leads_to_this_machine_is_refused(world: WebhookWorld) -> None:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    sender = WebhookSender((), resolve=resolve)
    url = world.listener.url.replace("http://127.0.0.1", "https://rebound.example")
    assert _tried(world, sender, url=url) == Tried(error=TryError.ADDRESS)
    assert world.listener.requests == []


def test_a_url_that_is_no_longer_allowed_is_refused(world: WebhookWorld) -> None:
    assert _tried(world, WebhookSender(())) == Tried(error=TryError.URL)
    assert world.listener.requests == []


def test_a_name_is_looked_up_once_and_its_address_is_used(world: WebhookWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    # It would take the request elsewhere, and look the name up itself.
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")

    async def resolve(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    sender = WebhookSender(["localhost"], resolve=resolve)
    url = world.listener.url.replace("127.0.0.1", "localhost")
    assert _tried(world, sender, url=url) == Tried(status=204)
    assert asked == ["localhost"]
    assert world.listener.requests[0][0]["host"].startswith("localhost:")


def test_the_second_address_is_tried_where_nobody_listens_at_the_first(world: WebhookWorld) -> None:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return ["::1", "127.0.0.1"]

    sender = WebhookSender(["localhost"], resolve=resolve)
    url = world.listener.url.replace("127.0.0.1", "localhost")
    assert _tried(world, sender, url=url) == Tried(status=204)


@pytest.mark.parametrize(
    ("error", "problem"),
    [(OSError("no such host"), TryError.LOOKUP), (UnicodeError("label too long"), TryError.LOOKUP)],
    ids=["unknown", "wrong"],
)
def test_a_host_that_is_not_found_is_a_failure(world: WebhookWorld, error: Exception, problem: TryError) -> None:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        raise error

    assert _tried(world, WebhookSender(LOOPBACK, resolve=resolve)) == Tried(error=problem)


def test_a_port_where_nobody_listens_is_a_failure(world: WebhookWorld) -> None:
    assert _tried(world, world.service.sender, url="http://127.0.0.1:1/") == Tried(error=TryError.CONNECTION)
