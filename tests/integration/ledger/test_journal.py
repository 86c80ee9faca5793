"""The journal: decisions in full, settled once, remembered after their content is gone."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from support.ledger_records import COMPANY, StoppedClock, make_journal_entry, make_record, same_record

from examples.demo.balance import tally_of
from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.ledger import Ledger


def test_a_prepared_entry_is_read_back_to_the_last_bit(ledger: Ledger) -> None:
    ids = tuple(f"m{number}" for number in range(450))
    journal_entry = make_journal_entry("b", incoming=("summary",), outgoing=ids)
    ledger.journal.prepare(journal_entry)
    (found,) = ledger.journal.open_entries("run")
    assert found.state == "prepared"
    assert [record.entry.id for record in found.outgoing] == list(ids)
    for left, right in zip(
        journal_entry.incoming + journal_entry.outgoing, found.incoming + found.outgoing, strict=True
    ):
        assert same_record(left, right)
    assert ledger.journal.open_of(COMPANY, "ada")[0].booking_id == "b"
    assert ledger.journal.open_of(COMPANY, "bob") == ()
    assert ledger.journal.open_of("another company", "ada") == ()


def test_preparing_and_settling_again_change_nothing(ledger: Ledger, clock: StoppedClock) -> None:
    journal_entry = make_journal_entry("b", incoming=("s",), outgoing=("m",))
    for _ in range(2):
        ledger.journal.prepare(journal_entry)
    ledger.journal.settle("b")
    sent = {"m": clock()}
    clock.advance(timedelta(hours=1))
    ledger.journal.settle("b", missing_out={"m"})
    ledger.journal.prepare(journal_entry)
    assert ledger.journal.open_entries("run") == ()
    assert tally_of(ledger, COMPANY, "ada").removed == Counter("m")
    assert ledger.journal.tombstoned(sent) == {"m"}
    assert ledger.journal.tombstoned({"m": clock()}) == frozenset()


def test_a_entry_is_not_prepared_again_with_other_memories(ledger: Ledger) -> None:
    ledger.journal.prepare(make_journal_entry("b", incoming=("s",), outgoing=("m",)))
    for other in (
        make_journal_entry("b", incoming=("s",), outgoing=("m", "more")),
        make_journal_entry("b", incoming=(), outgoing=("m",)),
        make_journal_entry("b", incoming=("s",), outgoing=("m",), incoming_kind="restored"),
    ):
        with pytest.raises(MemoryInputError, match="booking_id"):
            ledger.journal.prepare(other)
    with pytest.raises(MemoryInputError, match="seq"):
        ledger.journal.prepare(make_journal_entry("other", outgoing=("z",)))
    assert ledger.journal.tombstoned(dict.fromkeys(("more", "z"), StoppedClock().now)) == frozenset()


def test_a_record_that_cannot_be_kept_whole_stops_the_entry(ledger: Ledger) -> None:
    odd = replace(make_record("odd"), extra={"when": object()})
    journal_entry = replace(make_journal_entry("b", outgoing=("m",)), outgoing=(make_record("m"), odd))
    with pytest.raises(MemoryInputError, match="extra"):
        ledger.journal.prepare(journal_entry)
    assert ledger.journal.open_entries("run") == ()
    assert ledger.journal.next_seq("run") == 0


def test_only_what_was_carried_out_counts(ledger: Ledger) -> None:
    ledger.journal.prepare(make_journal_entry("b0", incoming=("s", "t"), outgoing=("m", "n")))
    assert tally_of(ledger, COMPANY, "ada").removed == Counter()
    ledger.journal.settle("b0", missing_in={"t"}, missing_out={"n", "not in it"})
    restoring = make_journal_entry("b1", seq=1, incoming=("m",), incoming_kind="restored", outgoing=("s",))
    ledger.journal.prepare(restoring)
    ledger.journal.settle("b1")
    tally = tally_of(ledger, COMPANY, "ada")
    assert (tally.created, tally.restored, tally.removed) == (Counter("s"), Counter("m"), Counter("ms"))
    first, second = ledger.journal.journal_entries("run")
    assert first.state == "done"
    assert first.incoming_ids == {"s"}
    assert first.outgoing_ids == {"m"}
    assert second.incoming_kind == "restored"
    assert second.incoming_ids == {"m"}
    assert ledger.journal.next_seq("run") == 2
    assert tally_of(ledger, COMPANY, "bob").created == Counter()
    moves = ledger.lineage.moves(COMPANY, "ada", ["m", "n"])
    assert [(move.kind, move.settled_at is not None) for move in moves["m"]] == [("removed", True), ("restored", True)]
    assert "n" not in moves


def test_a_late_redelivery_is_told_from_a_new_store(ledger: Ledger, clock: StoppedClock) -> None:
    before = clock()
    removed_at = clock.advance(timedelta(seconds=5))
    ledger.journal.prepare(make_journal_entry("b", outgoing=tuple(f"m{number}" for number in range(1200))))
    micro = timedelta(microseconds=1)
    sent = {"m0": before, "m1": removed_at, "m2": removed_at + micro, "unknown": before}
    assert ledger.journal.tombstoned(sent) == {"m0", "m1"}
    assert len(ledger.journal.tombstoned({f"m{number}": before for number in range(1300)})) == 1200
    assert ledger.journal.tombstoned({}) == frozenset()


def test_a_restored_memory_is_dead_no_longer_and_may_die_again(ledger: Ledger, clock: StoppedClock) -> None:
    sent = {"m": clock()}
    ledger.journal.prepare(make_journal_entry("b0", outgoing=("m",)))
    ledger.journal.settle("b0")
    ledger.journal.prepare(make_journal_entry("b1", seq=1, incoming=("m",), incoming_kind="restored"))
    assert ledger.journal.tombstoned(sent) == frozenset()
    later = clock.advance(timedelta(days=1))
    ledger.journal.prepare(make_journal_entry("b2", seq=2, outgoing=("m",)))
    assert ledger.journal.tombstoned({"m": later}) == {"m"}
    ledger.journal.settle("b1")
    ledger.journal.settle("b2")
    clock.advance(timedelta(days=1))
    ledger.journal.prepare(make_journal_entry("b3", run_id="again", outgoing=("m",)))
    assert ledger.journal.tombstoned({"m": clock()}) == {"m"}


def test_held_memories_are_held_until_their_time(ledger: Ledger, clock: StoppedClock) -> None:
    day = timedelta(days=1)
    ledger.journal.hold(COMPANY, "ada", ["a", "b", "a"], until=clock() + day)
    ledger.journal.hold(COMPANY, "ada", ["b"], until=clock() + 3 * day)
    ledger.journal.hold(COMPANY, "ada", ["b", "c"], until=clock() + 2 * day)
    assert ledger.journal.protected_by_undo(COMPANY, "ada") == {"a", "b", "c"}
    assert ledger.journal.protected_by_undo(COMPANY, "bob") == frozenset()
    clock.advance(day)
    assert ledger.journal.protected_by_undo(COMPANY, "ada") == {"b", "c"}
    clock.advance(day)
    ledger.journal.hold(COMPANY, "ada", [], until=clock() + day)
    assert ledger.journal.protected_by_undo(COMPANY, "ada") == {"b"}
    with pytest.raises(MemoryInputError, match="until"):
        ledger.journal.hold(COMPANY, "ada", ["a"], until=clock().replace(tzinfo=None))


def test_expired_content_is_gone_and_its_ids_stay(ledger: Ledger, clock: StoppedClock) -> None:
    for number in range(130):
        name = f"old{number}"
        ledger.journal.prepare(
            make_journal_entry(name, run_id=name, incoming=(f"s{number}",), outgoing=(f"m{number}",))
        )
        ledger.journal.settle(name)
    ledger.journal.prepare(make_journal_entry("open", run_id="open", outgoing=("o",)))
    limit = clock.advance(timedelta(days=7))
    ledger.journal.prepare(make_journal_entry("new", run_id="new", outgoing=("n",)))
    ledger.journal.settle("new")
    before = tally_of(ledger, COMPANY, "ada")
    assert ledger.journal.undoable("old0")
    assert ledger.journal.expire("other", before=limit) == 0
    assert ledger.journal.expire(COMPANY, before=limit) == 130
    assert ledger.journal.expire(COMPANY, before=limit) == 0
    assert not ledger.journal.undoable("old0")
    assert ledger.journal.undoable("new")
    assert not ledger.journal.undoable("open")
    assert not ledger.journal.undoable("unknown")
    assert tally_of(ledger, COMPANY, "ada") == before
    assert ledger.lineage.moves(COMPANY, "ada", ["m7"])["m7"][0].settled_at is not None
    with pytest.raises(MemoryNotFoundError, match="expired"):
        list(ledger.journal.journal_entries("old0"))
    assert same_record(ledger.journal.open_entries("open")[0].outgoing[0], make_record("o"))


def test_settling_an_unknown_entry_names_it(ledger: Ledger) -> None:
    with pytest.raises(MemoryNotFoundError, match="nothing"):
        ledger.journal.settle("nothing")
