"""The archive: part of the decision to delete, whole, findable by words in any script, and nobody else's."""

import asyncio
import dataclasses
from datetime import datetime, timedelta

import pytest
from support.ledger_records import COMPANY, StoppedClock, archived_by, make_journal_entry, make_record, same_record
from support.present import present

from memcore.errors import MemoryInputError
from memcore.ledger.journal import EntryReason, JournalEntry
from memcore.ledger.ledger import Ledger
from memcore.maintenance.archival_store import expire_archive
from memcore.models.archival import ArchivalMode
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryQuery
from memcore.records import MemoryRecord

EXTRACTIVE, ABSTRACTIVE = ArchivalMode.EXTRACTIVE, ArchivalMode.ABSTRACTIVE


def archiving(journal_entry: JournalEntry, *memory_ids: str, mode: ArchivalMode = EXTRACTIVE) -> JournalEntry:
    return dataclasses.replace(journal_entry, archived=dict.fromkeys(memory_ids, mode), vector_space="here")


def remembered(number: int, content: str, **changes: object) -> MemoryRecord:
    record = make_record(f"m{number}")
    at = record.entry.created_at - timedelta(days=200 - number)
    return dataclasses.replace(
        record, entry=record.entry.model_copy(update={"content": content, "created_at": at, **changes})
    )


def put(ledger: Ledger, *records: MemoryRecord) -> list[str]:
    at = StoppedClock().now
    return [ledger.archive.put(COMPANY, record, mode=EXTRACTIVE, archived_at=at) for record in records]


def found(ledger: Ledger, **query: object) -> list[str]:
    return [each.original_id for each in ledger.archive.search(COMPANY, "ada", MemoryQuery.model_validate(query))]


def expired(ledger: Ledger, *, returned_before: datetime, before: datetime | None = None) -> int:
    return asyncio.run(
        expire_archive(ledger.archive, None, company=COMPANY, returned_before=returned_before, before=before)
    )


def test_what_a_entry_archives_is_there_once_it_is_prepared_to_the_last_bit(
    ledger: Ledger, clock: StoppedClock
) -> None:
    journal_entry = make_journal_entry("b", incoming=("s",), outgoing=("m", "n"))
    ledger.journal.prepare(archiving(journal_entry, "m", mode=ABSTRACTIVE))
    ledger.journal.prepare(archiving(journal_entry, "m", mode=ABSTRACTIVE))
    ledger.journal.settle("b")

    archived = present(ledger.archive.find(COMPANY, "ada", "m"))
    assert same_record(archived.record, journal_entry.outgoing[0])
    assert (archived.mode, archived.run_id, archived.vector_space) == (ABSTRACTIVE, "run", "here")
    assert archived.returned_at is None
    assert archived.entry.archived_at == clock()
    assert ledger.archive.count(COMPANY, "ada") == 1
    assert ledger.archive.find(COMPANY, "ada", "n") is None
    (line,) = archived_by(ledger, "run")
    assert (line.original_id, line.archival_id, line.mode) == ("m", archived.archival_id, ABSTRACTIVE)
    assert ledger.archive.archived_by("run") == 1
    by_its_own_id = present(ledger.archive.find(COMPANY, "ada", line.archival_id))
    assert by_its_own_id.original_id == "m"


def test_a_entry_that_is_refused_archives_nothing(ledger: Ledger) -> None:
    ledger.journal.prepare(make_journal_entry("b", outgoing=("z",)))
    with pytest.raises(MemoryInputError, match="seq"):
        ledger.journal.prepare(archiving(make_journal_entry("other", outgoing=("m",)), "m"))
    with pytest.raises(MemoryInputError, match="does not go out"):
        archiving(make_journal_entry("third", incoming=("s",), outgoing=("m",)), "s")
    assert ledger.archive.count(COMPANY, "ada") == 0


def test_what_was_not_removed_after_all_is_not_archived(ledger: Ledger) -> None:
    ledger.journal.prepare(archiving(make_journal_entry("b", outgoing=("m", "n")), "m", "n"))
    ledger.journal.settle("b", missing_out={"n"})
    assert [line.original_id for line in archived_by(ledger, "run")] == ["m"]
    assert found(ledger) == ["m"]
    assert found(ledger, text="n") == []


def test_what_came_back_is_out_no_longer_and_out_again_once_that_is_undone(ledger: Ledger) -> None:
    ledger.journal.prepare(archiving(make_journal_entry("b0", outgoing=("m", "n")), "m", "n"))
    ledger.journal.settle("b0")
    back = make_journal_entry("b1", run_id="undo", incoming=("m", "n"), incoming_kind="restored", reason="undone")
    ledger.journal.prepare(dataclasses.replace(back, reverses="b0"))
    assert found(ledger) == ["m", "n"]
    ledger.journal.settle("b1", missing_in={"n"})

    assert found(ledger) == ["n"]
    assert ledger.archive.count(COMPANY, "ada") == 1
    returned = present(ledger.archive.find(COMPANY, "ada", "m"))
    assert returned.returned_at is not None
    assert ledger.archive.archived_by("run") == 2

    again = make_journal_entry("b2", run_id="undo of undo", outgoing=("m",), reason="undone")
    ledger.journal.prepare(dataclasses.replace(again, reverses="b1"))
    ledger.journal.settle("b2")
    assert found(ledger) == ["m", "n"]


def test_a_returned_memory_that_is_deleted_for_another_reason_stays_deleted(
    ledger: Ledger, clock: StoppedClock
) -> None:
    ledger.journal.prepare(archiving(make_journal_entry("b0", outgoing=("m",)), "m"))
    ledger.journal.settle("b0")
    ledger.journal.prepare(make_journal_entry("b1", run_id="back", incoming=("m",), incoming_kind="restored"))
    ledger.journal.settle("b1")
    ledger.journal.prepare(make_journal_entry("b2", run_id="night", outgoing=("m",), reason="retention"))
    ledger.journal.settle("b2")
    assert found(ledger) == []

    clock.advance(timedelta(days=8))
    assert expired(ledger, returned_before=clock() - timedelta(days=7)) == 1
    assert ledger.archive.find(COMPANY, "ada", "m") is None


def test_only_what_a_return_took_out_of_the_archive_goes_back_in_when_that_return_is_undone(ledger: Ledger) -> None:
    ledger.journal.prepare(archiving(make_journal_entry("b0", outgoing=("m",)), "m"))
    ledger.journal.settle("b0")
    moves = (
        make_journal_entry("b1", run_id="restore", incoming=("m",), incoming_kind="restored", reason="restored"),
        make_journal_entry("b2", run_id="night", outgoing=("m",), reason="retention"),
        dataclasses.replace(
            make_journal_entry("b3", run_id="undo", incoming=("m",), incoming_kind="restored", reason="undone"),
            reverses="b2",
        ),
        # Retention's word stands again: the archive must not hold what it took.
        dataclasses.replace(
            make_journal_entry("b4", run_id="undo of undo", outgoing=("m",), reason="undone"), reverses="b3"
        ),
    )
    for journal_entry in moves:
        ledger.journal.prepare(journal_entry)
        ledger.journal.settle(journal_entry.booking_id)
    assert found(ledger) == []
    assert ledger.archive.count(COMPANY, "ada") == 0


def test_filters_narrow_and_the_newest_come_first(ledger: Ledger) -> None:
    put(
        ledger,
        remembered(1, "one", category=MemoryCategory.SOCIAL, metadata=MemoryMetadata(tags=("a", "b"))),
        remembered(2, "two", namespace="work", metadata=MemoryMetadata(tags=("a",))),
        remembered(3, "three", namespace="nul\0", metadata=MemoryMetadata(tags=("nul\0", "a"))),
    )
    first = remembered(1, "one").entry.created_at
    day = timedelta(days=1)
    assert found(ledger) == ["m3", "m2", "m1"]
    assert found(ledger, limit=2) == ["m3", "m2"]
    assert found(ledger, categories=["social"]) == ["m1"]
    assert found(ledger, categories=[]) == []
    assert found(ledger, namespaces=["work", "default"]) == ["m2", "m1"]
    assert found(ledger, namespaces=["nul\0"], tags=["nul\0"]) == ["m3"]
    assert found(ledger, tags=["a"]) == ["m3", "m2", "m1"]
    assert found(ledger, tags=["b", "a"]) == ["m1"]
    assert found(ledger, tags=[str(number) for number in range(200)]) == []
    assert found(ledger, since=first + day) == ["m3", "m2"]
    assert found(ledger, until=first + day) == ["m1"]
    assert found(ledger, since=first, until=first + day, text="one") == ["m1"]


def test_words_find_texts_in_any_script_best_first(ledger: Ledger) -> None:
    put(
        ledger,
        remembered(1, "The deployment of the billing service failed on Friday"),
        remembered(2, "Deployments fail when the billing database migrates during the deployment"),
        remembered(3, "部署在星期五失败了"),
        remembered(4, "Café naïve \0 ends here"),
        remembered(5, "Развёртывание сервиса завершилось ошибкой"),
    )
    assert found(ledger, text="failed billing deployment") == ["m2", "m1"]
    assert found(ledger, text="星期五部署") == ["m3"]
    assert found(ledger, text="CAFÉ") == ["m4"]
    assert found(ledger, text="сервиса ошибкой") == ["m5"]
    assert found(ledger, text="billing Friday", min_relevance=0.5) == ["m1"]
    assert found(ledger, text="the of and") == []
    assert found(ledger, text="submarine") == []
    assert found(ledger, text=" ".join(f"word{number}" for number in range(40_000))) == []


def test_the_last_one_archived_answers_to_the_original_id(ledger: Ledger) -> None:
    record, at = make_record("m"), StoppedClock().now
    older = ledger.archive.put(COMPANY, record, mode=EXTRACTIVE, archived_at=at)
    newer = ledger.archive.put(COMPANY, record, mode=ABSTRACTIVE, archived_at=at + timedelta(days=1))
    assert ledger.archive.put(COMPANY, record, mode=EXTRACTIVE, archived_at=at) == older
    for asked, answer in (("m", newer), (older, older), (newer, newer)):
        archived = present(ledger.archive.find(COMPANY, "ada", asked))
        assert archived.archival_id == answer


def test_the_beginning_of_an_id_is_enough_where_no_other_begins_so(ledger: Ledger) -> None:
    at = StoppedClock().now
    one, two, other = "aaaaaaaa-1", "aaaaaaaa-2", "bbbbbbbb-1"
    for memory_id in (one, other):
        ledger.archive.put(COMPANY, make_record(memory_id), mode=EXTRACTIVE, archived_at=at)

    def named(entry_id: str) -> str | None:
        archived = ledger.archive.find(COMPANY, "ada", entry_id)
        return None if archived is None else archived.original_id

    assert (named("aaaaaaaa"), named("bbbbbbbb"), named("aaaaaaa"), named("%%%%%%%%")) == (one, other, None, None)
    ledger.archive.put(COMPANY, make_record(two), mode=EXTRACTIVE, archived_at=at)
    assert (named("aaaaaaaa"), named(one)) == (None, one)


def test_the_archive_outlives_the_journal_and_has_an_end_of_its_own(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.journal.prepare(archiving(make_journal_entry("b", outgoing=("m",)), "m"))
    ledger.journal.settle("b")
    clock.advance(timedelta(days=30))
    assert ledger.journal.expire(COMPANY, before=clock()) == 1
    archived = present(ledger.archive.find(COMPANY, "ada", "m"))
    assert same_record(archived.record, make_record("m"))

    put(ledger, *(remembered(number, "many") for number in range(700)))
    soon = clock() + timedelta(days=1)
    put(ledger, remembered(900, "mortal", expires_at=soon))
    assert expired(ledger, returned_before=clock()) == 0
    assert expired(ledger, returned_before=clock(), before=StoppedClock().now) == 0
    clock.advance(timedelta(days=1))
    assert expired(ledger, returned_before=clock()) == 1
    assert found(ledger, text="mortal") == []
    assert expired(ledger, returned_before=clock(), before=clock()) == 701
    assert ledger.archive.count(COMPANY, "ada") == 0


def test_what_cannot_be_archived_is_not_journaled_either(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> None:
        raise ArithmeticError

    journal_entry = archiving(make_journal_entry("b", outgoing=("m",)), "m")
    sent = {"m": StoppedClock().now - timedelta(days=1)}
    with monkeypatch.context() as patch:
        # The last step of archiving: everything before it has been written by then.
        patch.setattr("memcore.ledger.archive.add_new", breaks)
        with pytest.raises(ArithmeticError):
            ledger.journal.prepare(journal_entry)
    assert ledger.journal.open_of(COMPANY, "ada") == ()
    assert ledger.journal.tombstoned(sent) == frozenset()
    assert ledger.archive.find(COMPANY, "ada", "m") is None
    ledger.journal.prepare(journal_entry)
    assert ledger.archive.count(COMPANY, "ada") == 1


@pytest.mark.parametrize(("reason", "left"), [("retention", 0), ("enforced", 2)])
def test_what_a_summary_replaced_goes_with_it_once_a_rule_deleted_it_for_good(
    ledger: Ledger, clock: StoppedClock, reason: EntryReason, left: int
) -> None:
    ledger.journal.prepare(archiving(make_journal_entry("merge", incoming=("summary",), outgoing=("a", "b")), "a", "b"))
    ledger.journal.settle("merge")
    ledger.journal.prepare(make_journal_entry("rule", run_id="later", outgoing=("summary",), reason=reason))
    ledger.journal.settle("rule")
    assert ledger.archive.count(COMPANY, "ada") == 2

    ledger.journal.expire(COMPANY, before=clock.advance(timedelta(days=8)))

    assert ledger.archive.count(COMPANY, "ada") == left


@pytest.mark.parametrize(("came_back", "left"), [(False, 0), (True, 2)])
def test_what_a_summary_replaced_goes_through_any_depth_unless_one_in_between_came_back(
    ledger: Ledger, clock: StoppedClock, came_back: bool, left: int
) -> None:
    entries = [
        archiving(make_journal_entry("merge", incoming=("first",), outgoing=("a", "b")), "a", "b"),
        archiving(make_journal_entry("again", run_id="night", incoming=("second",), outgoing=("first",)), "first"),
        make_journal_entry("rule", run_id="later", outgoing=("second",), reason="retention"),
    ]
    if came_back:
        back = make_journal_entry(
            "back", run_id="back", incoming=("first",), incoming_kind="restored", reason="restored"
        )
        entries.append(back)
    for journal_entry in entries:
        ledger.journal.prepare(journal_entry)
        ledger.journal.settle(journal_entry.booking_id)

    ledger.journal.expire(COMPANY, before=clock.advance(timedelta(days=8)))

    assert ledger.archive.count(COMPANY, "ada") == left
