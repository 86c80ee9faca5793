"""Calls and views of a company's keys and repeated requests; see test_companies."""

from collections.abc import Callable
from datetime import timedelta

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ids import new_id
from memcore.ledger.ledger import Ledger
from support.ledger_records import COMPANY, StoppedClock

Call = Callable[[Ledger, StoppedClock, str], object]


def _revoked(ledger: Ledger, _: StoppedClock, company: str) -> object:
    """Aim at the first company's key."""
    keys = ledger.api_keys.list(COMPANY)
    try:
        return ledger.api_keys.revoke(company, keys[0].key_id if keys else "none")
    except MemoryNotFoundError as refused:
        return str(refused)


def _claimed(ledger: Ledger, company: str, request_hash: str) -> object:
    try:
        return ledger.idempotency.claim(company, "key", "first", request_hash=request_hash)
    except MemoryInputError as refused:
        return str(refused)


WRITES: dict[str, Call] = {
    "api_keys.create": lambda ledger, _, c: ledger.api_keys.create(c, name=new_id(), verbs=["read"]),
    "api_keys.revoke": _revoked,
    "idempotency.claim": lambda ledger, _, c: _claimed(ledger, c, f"request of {c}"),
    "idempotency.record": lambda ledger, _, c: ledger.idempotency.record(c, "key", "first", f"said to {c}".encode()),
    "idempotency.expire": lambda ledger, clock, c: ledger.idempotency.expire(c, before=clock() + timedelta(days=400)),
}

VIEWS: dict[str, Call] = {"api_keys.list": lambda ledger, _, c: ledger.api_keys.list(c)}
