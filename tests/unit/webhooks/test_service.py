"""Deliveries: tried again until they are accepted, given up after a day and a half, and never in each other's way."""

import threading
from datetime import timedelta

import pytest
from support.ledger_records import COMPANY, StoppedClock
from support.webhook_server import Listener
from support.webhook_world import HOOK, WebhookWorld, add_hook, happened, noted

from examples.webhooks.verify import verify
from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.jobs import Dead, Deferred, Done, Skipped
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.ledger import Ledger
from memcore.ledger.webhooks.deliveries import KEPT_FOR
from memcore.ledger.webhooks.endpoints import MAX_ENDPOINTS, OLD_SECRET_LASTS, EndpointState
from memcore.ledger.work_items import WorkState
from memcore.models.webhook import WebhookEventType
from memcore.webhooks.service import AT_ONCE, BACK_OFF, BUSY_DELAY, FAILS_FOR, JITTER

SECOND = timedelta(seconds=1)


def test_an_event_is_delivered_signed_and_once(world: WebhookWorld) -> None:
    secret = world.ledger.webhooks.rotate(COMPANY, HOOK, note=noted("rotate")).secret
    assert happened(world.ledger) == 1
    assert world.work() == 1
    (headers, body), data = world.listener.requests[0], {"agent_id": "ada", "tokens": 5}
    assert world.listener.heard == [
        {"type": "budget.spent", "timestamp": world.clock().isoformat(), "data": data},
    ]
    assert verify(headers, body, secret, now=world.clock().timestamp())
    assert not verify(headers, body, secret.swapcase(), now=world.clock().timestamp())
    assert headers["content-type"] == "application/json"
    done = world.only()
    assert (done.state, done.status, done.error, headers["webhook-id"]) == (WorkState.DONE, 204, None, done.event_id)
    world.clock.advance(timedelta(days=2))
    assert world.work() == 0


def test_pauses_grow_until_a_delivery_has_failed(world: WebhookWorld) -> None:
    world.listener.status = 503
    happened(world.ledger)
    for failures, pause in enumerate(BACK_OFF, 1):
        assert world.work() == 1
        tried = world.only()
        assert (tried.state, tried.failures, tried.status) == (WorkState.WAITING, failures, 503)
        assert tried.dispatch_after == world.clock() + pause
        world.clock.advance(pause - SECOND)
        assert world.work() == 0
        world.clock.advance(SECOND)
    assert world.work() == 1
    failed = world.only()
    assert (failed.state, failed.failures) == (WorkState.FAILED, len(BACK_OFF) + 1)
    ids = {headers["webhook-id"] for headers, _ in world.listener.requests}
    assert (len(ids), len(world.listener.requests)) == (1, len(BACK_OFF) + 1)
    # Each try says when it was made: a receiver refuses old ones.
    assert len({headers["webhook-timestamp"] for headers, _ in world.listener.requests}) == len(BACK_OFF) + 1

    world.listener.status = 200
    world.ledger.deliveries.replay(COMPANY, failed.delivery_id, note=noted("replay"))
    assert world.work() == 1
    assert world.only().state is WorkState.DONE
    assert world.ledger.webhooks.get(COMPANY, HOOK).failing_since is None


def test_pauses_are_drawn_out_by_chance_and_by_the_receiver(ledger: Ledger, world: WebhookWorld) -> None:
    late = WebhookWorld(ledger, world.clock, world.listener, draw=lambda: 1.0)
    world.listener.status = 500
    happened(ledger)
    late.work()
    assert world.only().dispatch_after == world.clock() + BACK_OFF[0] * (1 + JITTER)


def test_a_receiver_that_is_gone_is_disabled_and_that_is_audited(world: WebhookWorld) -> None:
    world.listener.status = 410
    happened(world.ledger)
    (delivery_id,) = world.due()
    assert isinstance(world.deliver(delivery_id), Dead)
    hook = world.ledger.webhooks.get(COMPANY, HOOK)
    assert (hook.state, world.only().state) == (EndpointState.DISABLED, WorkState.FAILED)
    assert hook.reason is not None
    assert "410" in hook.reason
    line = world.ledger.audit.page(COMPANY, action="webhooks.disable")[0]
    assert (line.actor, line.subject, line.reason) == ("memtend", HOOK, hook.reason)
    assert happened(world.ledger) == 0
    with pytest.raises(MemoryInputError, match="disabled"):
        world.ledger.deliveries.replay(COMPANY, delivery_id, note=noted("replay"))
    assert world.ledger.deliveries.replay_failed(COMPANY, note=noted("replay")) == ()
    assert [each.name for each in world.ledger.webhooks.in_trouble()] == [HOOK]

    world.listener.status = 204
    world.ledger.webhooks.enable(COMPANY, HOOK, note=noted("enable"))
    assert world.ledger.webhooks.in_trouble() == ()
    assert [item.key for item in world.ledger.deliveries.replay_failed(COMPANY, note=noted("replay"))] == [delivery_id]
    assert world.work() == 1
    assert world.only().state is WorkState.DONE


def test_a_receiver_that_fails_for_five_days_is_disabled(world: WebhookWorld) -> None:
    world.listener.status = 500
    happened(world.ledger)
    world.work()
    world.clock.advance(FAILS_FOR - SECOND)
    happened(world.ledger)
    world.work()
    assert world.ledger.webhooks.get(COMPANY, HOOK).state is EndpointState.ENABLED
    world.clock.advance(timedelta(minutes=1))
    assert world.work() == 2
    assert world.ledger.webhooks.get(COMPANY, HOOK).state is EndpointState.DISABLED
    assert {each.state for each in world.ledger.deliveries.page(COMPANY)} == {WorkState.FAILED}


def test_one_success_among_failures_keeps_a_webhook_enabled(world: WebhookWorld) -> None:
    world.listener.script = [500, 204, 500]
    for _ in range(3):
        happened(world.ledger)
        world.work()
        world.clock.advance(FAILS_FOR)
    assert world.ledger.webhooks.get(COMPANY, HOOK).state is EndpointState.ENABLED


def test_what_is_on_its_way_to_a_webhook_that_a_person_disabled_fails_unsent(world: WebhookWorld) -> None:
    happened(world.ledger)
    world.ledger.webhooks.disable(COMPANY, HOOK, note=noted("disable"))
    (delivery_id,) = world.due()
    assert isinstance(world.deliver(delivery_id), Skipped)
    assert (world.only().state, world.listener.requests) == (WorkState.FAILED, [])
    assert world.ledger.webhooks.in_trouble() == ()


def test_removing_a_webhook_removes_what_is_on_its_way(world: WebhookWorld) -> None:
    happened(world.ledger)
    (delivery_id,) = world.due()
    world.ledger.webhooks.remove(COMPANY, HOOK, note=noted("remove"))
    assert isinstance(world.deliver(delivery_id), Dead)
    assert (world.ledger.deliveries.page(COMPANY), world.listener.requests) == ((), [])
    with pytest.raises(MemoryNotFoundError):
        world.ledger.webhooks.remove(COMPANY, HOOK, note=noted("remove"))


def test_few_deliveries_of_one_webhook_are_under_way_at_once(world: WebhookWorld) -> None:
    add_hook(world.ledger, world.listener.url, name="other")
    for _ in range(AT_ONCE + 2):
        happened(world.ledger)
    by_hook = {each.delivery_id: each.endpoint for each in world.ledger.deliveries.page(COMPANY)}
    mine = sorted(key for key, name in by_hook.items() if name == HOOK)
    # Others' workers hold as many as may be; their receiver hangs.
    for held in mine[:AT_ONCE]:
        assert world.ledger.deliveries.claim(COMPANY, held, lease=LEASE_LENGTH)
    outcome = world.deliver(mine[-1])
    assert outcome == Deferred(reason="the endpoint is busy")
    postponed = world.ledger.deliveries.get(COMPANY, mine[-1])
    assert postponed is not None
    assert (postponed.attempt, postponed.failures) == (0, 0)
    assert postponed.dispatch_after is not None
    assert postponed.dispatch_after - world.clock() >= BUSY_DELAY
    assert world.listener.requests == []
    # Another webhook is not held up.
    (others, *_) = sorted(key for key, name in by_hook.items() if name == "other")
    assert isinstance(world.deliver(others), Done)
    # A worker that died holds its place for no longer than its lease.
    world.clock.advance(LEASE_LENGTH)
    assert isinstance(world.deliver(mine[-1]), Done)


def test_a_process_that_is_full_lets_a_delivery_wait_in_its_row(ledger: Ledger, world: WebhookWorld) -> None:
    slots = threading.BoundedSemaphore(1)
    full = WebhookWorld(ledger, world.clock, world.listener, slots=slots)
    happened(ledger)
    (delivery_id,) = world.due()
    with slots:
        assert full.deliver(delivery_id) == Deferred(reason="this process is busy")
    assert (world.only().state, world.only().attempt) == (WorkState.WAITING, 0)
    world.clock.advance(BUSY_DELAY)
    assert full.work() == 1
    assert world.only().state is WorkState.DONE
    # The place is free again.
    with slots:
        pass


def test_the_old_secret_signs_for_a_day_after_a_rotation(world: WebhookWorld) -> None:
    first = world.ledger.webhooks.rotate(COMPANY, HOOK, note=noted("rotate")).secret
    second = world.ledger.webhooks.rotate(COMPANY, HOOK, note=noted("rotate")).secret

    def accepted() -> list[bool]:
        happened(world.ledger)
        world.work()
        headers, body = world.listener.requests[-1]
        return [verify(headers, body, each, now=world.clock().timestamp()) for each in (first, second)]

    assert accepted() == [True, True]
    world.clock.advance(OLD_SECRET_LASTS)
    assert accepted() == [False, True]


def test_the_same_cause_is_announced_once(world: WebhookWorld) -> None:
    assert [happened(world.ledger, cause=cause) for cause in ("one", "one", "two")] == [1, 0, 1]
    world.work()
    assert happened(world.ledger, cause="one") == 0


def test_only_who_asked_for_an_event_is_told(ledger: Ledger, clock: StoppedClock, listener: Listener) -> None:
    add_hook(ledger, listener.url, events=[WebhookEventType.RUN_HELD])
    assert happened(ledger) == 0
    add_hook(ledger, listener.url, name="spending", events=["budget.spent", "run.held"])
    assert happened(ledger) == 1
    assert happened(ledger, company="globex") == 0
    assert WebhookWorld(ledger, clock, listener).only().endpoint == "spending"


def test_a_ping_reaches_a_webhook_whatever_it_asked_for(world: WebhookWorld) -> None:
    delivery_id = world.ledger.webhooks.ping(COMPANY, HOOK, note=noted("test"))
    assert isinstance(world.deliver(delivery_id), Done)
    assert [(each["type"], each["data"]) for each in world.listener.heard] == [("ping", {"webhook": HOOK})]
    world.ledger.webhooks.disable(COMPANY, HOOK, note=noted("disable"))
    with pytest.raises(MemoryInputError, match="disabled"):
        world.ledger.webhooks.ping(COMPANY, HOOK, note=noted("test"))


def test_what_has_ended_is_kept_for_thirty_days(world: WebhookWorld) -> None:
    happened(world.ledger)
    world.work()
    world.clock.advance(KEPT_FOR)
    happened(world.ledger)
    assert world.ledger.deliveries.expire(COMPANY, before=world.clock() - KEPT_FOR) == 0
    world.clock.advance(SECOND)
    assert world.ledger.deliveries.expire(COMPANY, before=world.clock() - KEPT_FOR) == 1
    # What is on its way never expires.
    world.clock.advance(2 * KEPT_FOR)
    assert world.ledger.deliveries.expire(COMPANY, before=world.clock()) == 0
    assert world.only().state is WorkState.AVAILABLE


@pytest.mark.parametrize(
    ("name", "events", "field"),
    [("two words", ["run.held"], "name"), ("", ["run.held"], "name"), ("a", [], "events"), ("a", ["ping"], "events"),
     ("a", ["run.hold"], "events")],
)  # fmt: skip
def test_a_webhook_of_wrong_values_is_refused(ledger: Ledger, name: str, events: list[str], field: str) -> None:
    with pytest.raises(MemoryInputError) as refused:
        add_hook(ledger, "https://example.com/", name=name, events=events)
    assert refused.value.field == field
    assert ledger.webhooks.list(COMPANY) == ()


def test_there_are_twenty_webhooks_at_most_and_names_are_taken_once(ledger: Ledger) -> None:
    for at in range(MAX_ENDPOINTS):
        add_hook(ledger, "https://example.com/", name=f"n{at}")
    with pytest.raises(MemoryInputError, match="limit"):
        add_hook(ledger, "https://example.com/", name="one-more")
    ledger.webhooks.remove(COMPANY, "n1", note=noted("remove"))
    with pytest.raises(MemoryInputError, match="taken"):
        add_hook(ledger, "https://example.com/", name="n2")
    secret = add_hook(ledger, "https://example.com/", name="n1").secret
    shown = [*ledger.webhooks.list(COMPANY), ledger.webhooks.signing(COMPANY, "n1")]
    assert secret.startswith("whsec_")
    assert not any(secret in repr(each) for each in shown)
