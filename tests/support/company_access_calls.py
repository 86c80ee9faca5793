"""Calls and views of a company's keys, repeated requests and distrusts; see test_companies."""

from collections.abc import Callable
from datetime import timedelta

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ids import new_id
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import Confirmation, done_by
from memcore.models.approval import ApprovalState, Decision
from memcore.models.distrust import DistrustRule
from memcore.models.memory_test import MemoryTest, NamedMemory, Outcome
from memcore.models.origin import Authority, Raised
from support.ledger_records import COMPANY, StoppedClock
from support.proposals import proposal

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


def _distrust(ledger: Ledger) -> str:
    """Return the first company's distrust; made where there is none."""
    found = ledger.distrusts.list(COMPANY)
    return found[0].distrust_id if found else ledger.distrusts.add(COMPANY, _RULE, _WORD).distrust_id


def _raised(ledger: Ledger, company: str) -> object:
    """Raise a memory by an approval that the first company has."""
    if ledger.approvals.get(COMPANY, _APPROVAL) is None:
        ledger.approvals.file(COMPANY, _APPROVAL, proposal(), lasts=timedelta(days=14))
        ledger.approvals.decide(COMPANY, _APPROVAL, ApprovalState.APPROVED, Decision(by="ada"))
    found = Raised(to=Authority.INFORM, approval_id=_APPROVAL, digest="d")
    return ledger.raised.add(company, found, agent_id="ada", memory_id="m")


def _test(company: str) -> MemoryTest:
    """Return a test with the same name for each company."""
    finds = (NamedMemory(text=f"text of {company}"),)
    return MemoryTest(name="one", agent="ada", question="which?", finds=finds)


def _known(call: Callable[[], object]) -> object:
    try:
        return call()
    except MemoryNotFoundError as refused:
        return str(refused)


_APPROVAL, _NOTE = "of a memory", done_by("grace", "memory_tests.register", "ada")
_RULE = DistrustRule(source="crawler")
_WORD = Confirmation(actor="grace", confirm=True, reason="no")

#: What a company has before another calls.
BEGUN = ("distrusts.add", "distrusts.reach", "raised.add", "memory_tests.register")

WRITES: dict[str, Call] = {
    "distrusts.add": lambda ledger, _, c: ledger.distrusts.add(c, _RULE, _WORD),
    "distrusts.reach": lambda ledger, _, c: ledger.distrusts.reach(c, _distrust(ledger), "ada", [f"memory of {c}"]),
    "distrusts.complete": lambda ledger, _, c: _known(lambda: ledger.distrusts.complete(c, _distrust(ledger))),
    "distrusts.lift": lambda ledger, _, c: _known(lambda: ledger.distrusts.lift(c, _distrust(ledger), _WORD)),
    "raised.add": lambda ledger, _, c: _raised(ledger, c),
    "memory_tests.register": lambda ledger, _, c: ledger.memory_tests.register(c, [_test(c)], notes=[_NOTE]),
    "memory_tests.keep": lambda ledger, _, c: ledger.memory_tests.keep(
        c,
        [
            each.model_copy(update={"outcome": Outcome.FAILED, "run_id": c})
            for each in ledger.memory_tests.list(COMPANY)
        ],
    ),
    "memory_tests.failed_of": lambda ledger, _, c: ledger.memory_tests.failed_of(c),
    "memory_tests.remove": lambda ledger, _, c: ledger.memory_tests.remove(c, "ada", None, note=_NOTE),
    "raised.remove": lambda ledger, _, c: ledger.raised.remove(c, _APPROVAL),
    "api_keys.create": lambda ledger, _, c: ledger.api_keys.create(c, name=new_id(), verbs=["read"]),
    "api_keys.revoke": _revoked,
    "idempotency.claim": lambda ledger, _, c: _claimed(ledger, c, f"request of {c}"),
    "idempotency.record": lambda ledger, _, c: ledger.idempotency.record(c, "key", "first", f"said to {c}".encode()),
    "idempotency.expire": lambda ledger, clock, c: ledger.idempotency.expire(c, before=clock() + timedelta(days=400)),
}

VIEWS: dict[str, Call] = {
    "memory_tests.due": lambda ledger, clock, c: ledger.memory_tests.due(
        c, "ada", before=clock() + timedelta(days=400)
    ),
    "memory_tests.list": lambda ledger, _, c: ledger.memory_tests.list(c),
    "api_keys.list": lambda ledger, _, c: ledger.api_keys.list(c),
    "distrusts.list": lambda ledger, _, c: ledger.distrusts.list(c),
    "distrusts.in_force": lambda ledger, _, c: ledger.distrusts.in_force(c),
    "distrusts.find": lambda ledger, _, c: ledger.distrusts.find(c, _distrust(ledger)),
    "distrusts.get": lambda ledger, _, c: _known(lambda: ledger.distrusts.get(c, _distrust(ledger))),
    "distrusts.reached": lambda ledger, _, c: ledger.distrusts.reached(c, _distrust(ledger)),
    "distrusts.all_reached": lambda ledger, _, c: ledger.distrusts.all_reached(c, [_distrust(ledger)]),
}
