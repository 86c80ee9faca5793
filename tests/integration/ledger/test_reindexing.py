"""The row that serves, the reindex, and the marks: what two processes at once may and may not do."""

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from support.active_collections import served
from support.ledger_records import COMPANY, StoppedClock
from support.present import present

from memcore.errors import LeaseLostError, MemoryInputError
from memcore.jobs import ReindexPayload
from memcore.ledger.collections import CollectionPointer, Phase, Reindex, ReindexKind, ReindexStage
from memcore.ledger.ledger import Ledger
from memcore.ledger.work_items import WorkState

if TYPE_CHECKING:
    from collections.abc import Callable

OLD, NEW = served("old"), served("new", embedder="minilm", generation=2)
LEASE = timedelta(seconds=45)


def begun(ledger: Ledger) -> CollectionPointer:
    first = ledger.collection_pointers.adopt(COMPANY, OLD)
    return ledger.collection_pointers.begin(
        COMPANY, version=first.version, target=NEW, kind=ReindexKind.FORWARD, total=7
    )


def test_the_first_word_about_what_serves_stands(ledger: Ledger) -> None:
    assert ledger.collection_pointers.get(COMPANY) is None
    first = ledger.collection_pointers.adopt(COMPANY, OLD)
    assert ledger.collection_pointers.adopt(COMPANY, NEW) == first == ledger.collection_pointers.get(COMPANY)
    assert (first.current, first.target, first.previous, first.phase) == (OLD, None, None, None)


def test_a_switch_changes_everything_in_one_row(ledger: Ledger) -> None:
    pointer = begun(ledger)
    frozen = present(ledger.collection_pointers.freeze(COMPANY, version=pointer.version, lasts=LEASE))
    switched = present(ledger.collection_pointers.switch(COMPANY, version=frozen.version, settles=LEASE))
    assert (switched.current, switched.target, switched.previous) == (NEW, None, OLD)
    reindex = present(ledger.reindexes.last(COMPANY))
    assert reindex.stage is ReindexStage.SETTLING
    settled = present(ledger.collection_pointers.settle(COMPANY, version=switched.version))
    assert (settled.phase, settled.version) == (None, 5)
    reindex = present(ledger.reindexes.last(COMPANY))
    assert (reindex.stage, reindex.fraction) == (ReindexStage.DONE, 1.0)


def test_whoever_decided_on_an_older_row_changes_nothing(ledger: Ledger) -> None:
    pointer = begun(ledger)
    version = pointer.version
    frozen = present(ledger.collection_pointers.freeze(COMPANY, version=version, lasts=LEASE))
    assert ledger.collection_pointers.freeze(COMPANY, version=version, lasts=LEASE) is None
    assert ledger.collection_pointers.cancel(COMPANY, version=version) is None
    thawed = present(ledger.collection_pointers.unfreeze(COMPANY, version=frozen.version))
    # A worker that stopped the writes, and was taken for dead, may not switch.
    assert ledger.collection_pointers.switch(COMPANY, version=frozen.version, settles=LEASE) is None
    assert ledger.collection_pointers.settle(COMPANY, version=thawed.version) is None
    with pytest.raises(MemoryInputError, match="another one is under way"):
        ledger.collection_pointers.begin(COMPANY, version=thawed.version, target=NEW, kind=ReindexKind.FORWARD, total=1)


def test_writes_wait_until_a_time(ledger: Ledger, clock: StoppedClock) -> None:
    pointer = begun(ledger)
    frozen = present(ledger.collection_pointers.freeze(COMPANY, version=pointer.version, lasts=LEASE))
    assert not pointer.is_closed(clock())
    assert frozen.is_closed(clock())
    assert not frozen.is_overdue(clock())
    clock.advance(LEASE)
    assert not frozen.is_closed(clock())
    assert frozen.is_overdue(clock())
    switched = present(ledger.collection_pointers.switch(COMPANY, version=frozen.version, settles=LEASE))
    assert (switched.phase, switched.is_closed(clock())) == (Phase.SETTLING, True)
    clock.advance(LEASE)
    assert (switched.is_closed(clock()), switched.is_overdue(clock())) == (False, False)


def claimed(ledger: Ledger) -> tuple[Reindex, str]:
    """Return the reindex as a worker has it, and its token."""
    last = ledger.reindexes.last(COMPANY)
    found = present(last and ledger.reindexes.claim(COMPANY, last.reindex_id, lease=LEASE))
    return found, present(found.token)


def test_one_worker_has_it_until_its_lease_ends(ledger: Ledger, clock: StoppedClock) -> None:
    begun(ledger)
    rows = ledger.reindexes
    reindex, token = claimed(ledger)
    key = reindex.reindex_id
    assert rows.claim(COMPANY, key, lease=LEASE) is None
    saved = rows.advance(COMPANY, key, token, stage=ReindexStage.COPYING, cursor="7", looked_at=4)
    assert (saved.cursor, saved.looked_at, round(saved.fraction, 3)) == ("7", 4, 0.514)

    clock.advance(LEASE)
    again, fresh = claimed(ledger)
    assert (again.cursor, fresh != token) == ("7", True)
    late: list[Callable[[], object]] = [
        lambda: rows.renew(COMPANY, key, token, lease=LEASE),
        lambda: rows.advance(COMPANY, key, token, stage=ReindexStage.CATCHING_UP, cursor=None),
        lambda: rows.release(COMPANY, key, token),
    ]
    for lost in late:
        with pytest.raises(LeaseLostError):
            lost()
    rows.release(COMPANY, key, fresh, reason="MemoryStoreError")
    assert rows.last(COMPANY) == again.model_copy(
        update={"state": "available", "token": None, "reason": "MemoryStoreError"}
    )
    assert claimed(ledger)[0].reason is None


def test_a_cancelled_reindex_leaves_its_worker_nothing(ledger: Ledger) -> None:
    pointer = begun(ledger)
    reindex, token = claimed(ledger)
    ledger.reindex_marks.mark(COMPANY, ["ada"])
    cancelled = present(ledger.collection_pointers.cancel(COMPANY, version=pointer.version))
    assert (cancelled.target, cancelled.phase) == (None, None)
    with pytest.raises(LeaseLostError, match="is dismissed"):
        ledger.reindexes.renew(COMPANY, reindex.reindex_id, token, lease=LEASE)
    assert ledger.reindexes.claim(COMPANY, reindex.reindex_id, lease=LEASE) is None
    assert ledger.reindex_marks.count(COMPANY) == 0
    begun(ledger)
    again = claimed(ledger)[0]
    assert again.reindex_id != reindex.reindex_id
    assert [item.key for item in ledger.work.open(COMPANY, ReindexPayload.task)] == [again.reindex_id]


@pytest.mark.parametrize("is_held", [True, False])
def test_a_reindex_that_has_settled_is_done_whoever_has_it_by_then(ledger: Ledger, is_held: bool) -> None:
    pointer = begun(ledger)
    if is_held:
        claimed(ledger)
    frozen = present(ledger.collection_pointers.freeze(COMPANY, version=pointer.version, lasts=LEASE))
    switched = present(ledger.collection_pointers.switch(COMPANY, version=frozen.version, settles=LEASE))
    assert ledger.collection_pointers.settle(COMPANY, version=switched.version) is not None
    reindex = present(ledger.reindexes.last(COMPANY))
    assert (reindex.state, reindex.stage, reindex.token) == (WorkState.DONE, ReindexStage.DONE, None)
    assert ledger.work.open(COMPANY, ReindexPayload.task) == ()


def test_a_write_counts_while_its_mark_stands_and_nobody_has_begun_to_compare(ledger: Ledger) -> None:
    version = begun(ledger).version
    marks = ledger.reindex_marks
    marks.mark(COMPANY, ["ada", "bob"])
    assert marks.counts(COMPANY, version=version, owners=["ada", "bob"])
    assert not marks.counts(COMPANY, version=version - 1, owners=["ada"])
    assert not marks.counts(COMPANY, version=version, owners=["carol"])

    assert marks.take(COMPANY, "worker", limit=1) == ("ada",)
    assert not marks.counts(COMPANY, version=version, owners=["ada"])
    marks.mark(COMPANY, ["ada"])
    assert marks.counts(COMPANY, version=version, owners=["ada"])
    marks.compared(COMPANY, "worker", ["ada"])
    assert marks.count(COMPANY) == 2, "what was marked anew stays to be compared"


def test_what_a_dead_worker_had_begun_to_compare_comes_again(ledger: Ledger) -> None:
    begun(ledger)
    marks = ledger.reindex_marks
    marks.mark(COMPANY, ["ada", "bob"])
    assert marks.take(COMPANY, "dead", limit=9) == ("ada", "bob")
    assert marks.take(COMPANY, "dead", limit=9) == ()
    assert marks.take(COMPANY, "next", limit=9) == ("ada", "bob")
    marks.compared(COMPANY, "dead", ["ada", "bob"])
    assert marks.count(COMPANY) == 2
    marks.compared(COMPANY, "next", ["ada", "bob"])
    assert marks.count(COMPANY) == 0
