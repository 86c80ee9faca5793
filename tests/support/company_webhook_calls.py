"""Calls and views of a company's webhooks and their deliveries; see test_companies."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from memcore.errors import LeaseLostError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.ledger import Ledger
from memcore.ledger.work_items import WorkState
from support.ledger_records import COMPANY, StoppedClock
from support.webhook_world import HOOK, add_hook, happened, noted

Call = Callable[[Ledger, StoppedClock, str], object]

URL = "https://hooks.example/in"


def _heard(say: Callable[[], object]) -> object:
    try:
        return say()
    except (LeaseLostError, MemoryInputError, MemoryNotFoundError) as refused:
        return str(refused)


def _held(ledger: Ledger) -> tuple[str, str]:
    """Return the key and the token of the first company's delivery."""
    found = next(each for each in ledger.deliveries.page(COMPANY) if each.token)
    return found.delivery_id, found.token or ""


def _claimed(ledger: Ledger, _: StoppedClock, company: str) -> object:
    """Aim at the first company's delivery; its own claims the newest."""
    newest = ledger.deliveries.page(COMPANY)[0]
    return ledger.deliveries.claim(company, newest.delivery_id, lease=timedelta(days=1))


def _of_hook(name: str) -> Call:
    return lambda ledger, _, c: _heard(lambda: getattr(ledger.webhooks, name)(c, HOOK, note=noted(name)))


def _of_delivery(name: str, **values: Any) -> Call:
    return lambda ledger, _, c: _heard(lambda: getattr(ledger.deliveries, name)(c, *_held(ledger), **values))


WRITES: dict[str, Call] = {
    "webhooks.add": lambda ledger, _, c: _heard(lambda: add_hook(ledger, URL, company=c).endpoint.name),
    "webhooks.announce": lambda ledger, _, c: happened(ledger, company=c),
    **{f"webhooks.{name}": _of_hook(name) for name in ("disable", "enable", "ping", "remove", "rotate")},
    "deliveries.claim": _claimed,
    "deliveries.renew": _of_delivery("renew", lease=timedelta(days=1)),
    "deliveries.release": _of_delivery("release"),
    "deliveries.wait": _of_delivery("wait", until=timedelta(days=1), reason="why"),
    "deliveries.fail": _of_delivery("fail", reason="no"),
    "deliveries.succeed": _of_delivery("succeed", status=200),
    "deliveries.postpone": _of_delivery("postpone", status=500, error="no", after=timedelta(days=1)),
    "deliveries.give_up": _of_delivery("give_up", status=410, error="no", disable="gone"),
    "deliveries.replay": lambda ledger, _, c: _heard(
        lambda: ledger.deliveries.replay(c, _held(ledger)[0], note=noted("replay"))
    ),
    "deliveries.replay_failed": lambda ledger, _, c: ledger.deliveries.replay_failed(c, note=noted("replay")),
    "deliveries.expire": lambda ledger, clock, c: ledger.deliveries.expire(c, before=clock() + timedelta(days=400)),
}

VIEWS: dict[str, Call] = {
    "webhooks.list": lambda ledger, _, c: ledger.webhooks.list(c),
    "webhooks.get": lambda ledger, _, c: _heard(lambda: ledger.webhooks.get(c, HOOK)),
    "webhooks.signing": lambda ledger, _, c: ledger.webhooks.signing(c, HOOK),
    "deliveries.get": lambda ledger, _, c: ledger.deliveries.get(c, _held(ledger)[0]),
    "deliveries.item": lambda ledger, _, c: _heard(lambda: ledger.deliveries.item(c, _held(ledger)[0])),
    "deliveries.load": lambda ledger, _, c: ledger.deliveries.load(c, HOOK),
    "deliveries.page": lambda ledger, _, c: [
        *ledger.deliveries.page(c), *ledger.deliveries.page(c, state=WorkState.LEASED, endpoint=HOOK),
    ],
}  # fmt: skip

#: What the first company has done before.
BEGUN = ("webhooks.add", "webhooks.announce", "deliveries.claim")
