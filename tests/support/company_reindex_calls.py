"""Calls and views of a company's active collection; see test_companies."""

from collections.abc import Callable
from datetime import timedelta

from memcore.errors import MemoryInputError
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


def _token(ledger: Ledger) -> str:
    found = ledger.reindexes.get(COMPANY)
    return (found.token if found else None) or "nobody's"


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
    "reindexes.claim": lambda ledger, _, c: ledger.reindexes.claim(c, lease=-DAY),
    "reindexes.renew": lambda ledger, _, c: ledger.reindexes.renew(c, _token(ledger), lease=DAY),
    "reindexes.advance": lambda ledger, _, c: ledger.reindexes.advance(
        c, _token(ledger), stage=ReindexStage.CATCHING_UP, looked_at=9
    ),
    "reindexes.release": lambda ledger, _, c: ledger.reindexes.release(c, _token(ledger)),
    "reindexes.waiting": lambda ledger, _, c: ledger.reindexes.waiting(c, dispatched_before=-DAY),
    "reindex_marks.mark": lambda ledger, _, c: ledger.reindex_marks.mark(c, [AGENT]),
    "reindex_marks.take": lambda ledger, _, c: ledger.reindex_marks.take(c, "token", limit=9),
    "reindex_marks.compared": lambda ledger, _, c: ledger.reindex_marks.compared(c, "token", [AGENT]),
}

#: Calls that read.
VIEWS: dict[str, Call] = {
    "collection_pointers.get": lambda ledger, _, c: ledger.collection_pointers.get(c),
    "reindexes.get": lambda ledger, _, c: ledger.reindexes.get(c),
    "reindex_marks.count": lambda ledger, _, c: ledger.reindex_marks.count(c),
    "reindex_marks.counts": lambda ledger, _, c: ledger.reindex_marks.counts(
        c, version=_version(ledger, c), owners=[AGENT]
    ),
}
