"""Calls and views of a company's active collection; see test_companies."""

from collections.abc import Callable
from datetime import timedelta

from memcore.errors import LeaseLostError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.collections import ReindexKind, ReindexStage
from memcore.ledger.ledger import Ledger
from support.active_collections import served
from support.ledger_records import COMPANY, StoppedClock

AGENT = "ada"
DAY = timedelta(days=1)

Call = Callable[[Ledger, StoppedClock, str], object]


def _version(ledger: Ledger, company: str) -> int:
    found = ledger.collection_pointers.get(company)
    return 0 if found is None else found.version


def _aimed(ledger: Ledger, call: Callable[[str, str], object]) -> object:
    """Aim at the first company's reindex, with its token."""
    found = ledger.reindexes.last(COMPANY)
    try:
        return call(*(("none", "none") if found is None else (found.reindex_id, found.token or "nobody's")))
    except (LeaseLostError, MemoryNotFoundError) as refused:
        return str(refused)


def _begun(ledger: Ledger, company: str) -> object:
    version = _version(ledger, company)
    target = served("the other collection")
    try:
        return ledger.collection_pointers.begin(
            company, version=version, target=target, kind=ReindexKind.FORWARD, total=1
        )
    except MemoryInputError as refused:
        return str(refused)


#: Calls that write.
WRITES: dict[str, Call] = {
    "collection_pointers.adopt": lambda ledger, _, c: ledger.collection_pointers.adopt(c, served(f"memories of {c}")),
    "collection_pointers.begin": lambda ledger, _, c: _begun(ledger, c),
    "collection_pointers.freeze": lambda ledger, _, c: ledger.collection_pointers.freeze(
        c, version=_version(ledger, c), lasts=DAY
    ),
    "collection_pointers.unfreeze": lambda ledger, _, c: ledger.collection_pointers.unfreeze(
        c, version=_version(ledger, c)
    ),
    "collection_pointers.switch": lambda ledger, _, c: ledger.collection_pointers.switch(
        c, version=_version(ledger, c), settles=DAY
    ),
    "collection_pointers.settle": lambda ledger, _, c: ledger.collection_pointers.settle(
        c, version=_version(ledger, c)
    ),
    "collection_pointers.cancel": lambda ledger, _, c: ledger.collection_pointers.cancel(
        c, version=_version(ledger, c)
    ),
    "collection_pointers.forget_previous": lambda ledger, _, c: ledger.collection_pointers.forget_previous(
        c, version=_version(ledger, c)
    ),
    "reindexes.claim": lambda ledger, _, c: _aimed(ledger, lambda key, _: ledger.reindexes.claim(c, key, lease=-DAY)),
    "reindexes.renew": lambda ledger, _, c: _aimed(
        ledger, lambda key, token: ledger.reindexes.renew(c, key, token, lease=DAY)
    ),
    "reindexes.advance": lambda ledger, _, c: _aimed(
        ledger,
        lambda key, token: ledger.reindexes.advance(
            c, key, token, stage=ReindexStage.CATCHING_UP, cursor=None, looked_at=9
        ),
    ),
    "reindexes.fail": lambda ledger, _, c: _aimed(
        ledger, lambda key, token: ledger.reindexes.fail(c, key, token, "no")
    ),
    "reindexes.release": lambda ledger, _, c: _aimed(
        ledger, lambda key, token: ledger.reindexes.release(c, key, token)
    ),
    "reindexes.wait": lambda ledger, clock, c: _aimed(
        ledger, lambda key, token: ledger.reindexes.wait(c, key, token, until=clock(), reason="no")
    ),
    "reindex_marks.mark": lambda ledger, _, c: ledger.reindex_marks.mark(c, [AGENT]),
    "reindex_marks.take": lambda ledger, _, c: ledger.reindex_marks.take(c, "token", limit=9),
    "reindex_marks.compared": lambda ledger, _, c: ledger.reindex_marks.compared(c, "token", [AGENT]),
}

#: Calls that read.
VIEWS: dict[str, Call] = {
    "collection_pointers.get": lambda ledger, _, c: ledger.collection_pointers.get(c),
    "reindexes.last": lambda ledger, _, c: ledger.reindexes.last(c),
    "reindexes.get": lambda ledger, _, c: _aimed(ledger, lambda key, _: ledger.reindexes.get(c, key)),
    "reindexes.item": lambda ledger, _, c: _aimed(ledger, lambda key, _: ledger.reindexes.item(c, key)),
    "reindex_marks.count": lambda ledger, _, c: ledger.reindex_marks.count(c),
    "reindex_marks.counts": lambda ledger, _, c: ledger.reindex_marks.counts(
        c, version=_version(ledger, c), owners=[AGENT]
    ),
}
