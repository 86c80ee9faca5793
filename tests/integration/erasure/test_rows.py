"""Every table that names an agent loses the agent's rows and no others, on SQLite and on PostgreSQL."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from sqlalchemy import event
from support.erasable_rows import erased_tables, fill, rows_of
from support.fault_injection import Crash
from support.ledger_records import COMPANY, StoppedClock, make_journal_entry, make_record
from support.memories import DAWN
from support.store_items import item

from memcore.backends.protocol import ORGANISATION
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryInputError
from memcore.jobs import StorePayload
from memcore.ledger.dead_letters import NewDeadLetter
from memcore.ledger.erasure.decisions import JOURNAL, LEDGER, Erased, ErasureScope
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import Confirmation
from memcore.models.archival import ArchivalMode
from memcore.models.memory import SHARED_OWNER, propagated_tag
from memcore.records import MemoryRecord

SCOPE = ErasureScope(company=COMPANY, agent_id="ada", tag="propagated:ada")
TABLES = {table.name for _, table in erased_tables()}
WORD = Confirmation(actor="grace", confirm=True, reason="ada asked for it")


@pytest.fixture
def ledger(urls: LedgerUrls) -> Iterator[Ledger]:
    opened = Ledger.open(urls, clock=StoppedClock())
    yield opened
    opened.close()


def test_all_rows_of_the_agent_go_and_those_of_others_stay(ledger: Ledger) -> None:
    for agent_id in ("ada", "bob"):
        fill(ledger, agent_id)
    assert rows_of(ledger, "ada") == rows_of(ledger, "bob") == TABLES
    counts = ledger.erasable.count(SCOPE)
    assert {name for name, count in counts.items() if count == 1} == TABLES
    ledger.erasable.delete(SCOPE)
    assert rows_of(ledger, "ada") == set()
    assert rows_of(ledger, "bob") == TABLES
    assert not any(ledger.erasable.count(SCOPE).values())


def test_all_rows_of_a_person_go_and_the_agent_stays(ledger: Ledger) -> None:
    scope = SCOPE.model_copy(update={"subject": "user:p"})
    fill(ledger, "ada")
    ledger.erasable.delete(scope)
    people = {name for name, each in LEDGER.items() if isinstance(each, Erased) and each.person}
    people |= {name for name, each in JOURNAL.items() if isinstance(each, Erased) and each.person}
    # Memories of the agent that are not the person's stay, and the work of this fill is no conversation's.
    others = {"archive", "archive_terms", "archive_tags", "booking_records", "consolidation_groups", "memory_keys"}
    assert others <= people
    assert rows_of(ledger, "ada") == TABLES - people | others | {"work_items"}


@pytest.mark.parametrize("at", range(0, len(TABLES), 5))
def test_a_crash_between_any_two_tables_goes_on(ledger: Ledger, at: int) -> None:
    for agent_id in ("ada", "bob"):
        fill(ledger, agent_id)
    seen = 0

    def crash(*_given: object) -> None:
        nonlocal seen
        seen += 1
        if seen > at:
            raise Crash

    engines = [each.engine() for each in ledger._databases]
    for engine in engines:
        event.listen(engine, "before_cursor_execute", crash)
    with pytest.raises(Crash):
        ledger.erasable.delete(SCOPE)
    for engine in engines:
        event.remove(engine, "before_cursor_execute", crash)
    ledger.erasable.delete(SCOPE)
    assert rows_of(ledger, "ada") == set()
    assert rows_of(ledger, "bob") == TABLES


def tagged(record: MemoryRecord, tag: str) -> MemoryRecord:
    metadata = record.entry.metadata.model_copy(update={"tags": (tag,)})
    return replace(record, entry=record.entry.model_copy(update={"metadata": metadata}))


@pytest.mark.parametrize("agent_id", ["ada", "köln", "東京", 'a"b\\c', "🦊"])
def test_copies_of_its_lessons_go_from_others_journals_and_archives(ledger: Ledger, agent_id: str) -> None:
    scope = SCOPE.model_copy(update={"agent_id": agent_id, "tag": propagated_tag(agent_id)})
    copy = tagged(make_record("copy", agent_id="bob"), scope.tag)
    other = tagged(make_record("other", agent_id="bob"), f"{scope.tag}-2")
    written = make_journal_entry("b-1", agent_id="bob")
    ledger.journal.prepare(replace(written, outgoing=(copy, other)))
    for each in (copy, other):
        ledger.archive.put(COMPANY, each, mode=ArchivalMode.EXTRACTIVE, archived_at=DAWN)
    assert ledger.erasable.memory_ids(scope) == {"copy"}
    ledger.erasable.delete(scope)
    assert ledger.erasable.memory_ids(scope) == frozenset()
    (left,) = ledger.journal.open_of(COMPANY, "bob")
    assert left.outgoing_ids == {"other"}
    assert ledger.archive.count(COMPANY, "bob") == 1


@pytest.mark.parametrize("agent_id", ["ada", "köln", "東京"])
@pytest.mark.parametrize("is_escaped", [True, False])
def test_a_message_that_none_can_read_goes_with_the_agent_that_it_names(
    ledger: Ledger, agent_id: str, is_escaped: bool
) -> None:
    message = json.dumps({"agent_id": agent_id}, ensure_ascii=is_escaped)[:-1].encode()
    letter = NewDeadLetter.unreadable([message], company=COMPANY, queue="memory.store", reason="broken")
    raw = letter.model_copy(update={"job_id": "raw", "payload": message.decode()})
    for each in (letter, raw):
        ledger.dead_letters.put(each)
    scope = SCOPE.model_copy(update={"agent_id": agent_id})
    assert ledger.erasable.letters.find(scope) == {letter.job_id: None, "raw": None}


def test_a_dead_letter_of_several_agents_keeps_the_others_memories(ledger: Ledger) -> None:
    mixed = StorePayload(company=COMPANY, items=(item("hers"), item("his", agent_id="bob")))
    own = StorePayload(company=COMPANY, items=(item("hers"),))
    for job_id, payload in (("mixed", mixed), ("own", own)):
        letter = NewDeadLetter(
            job_id=job_id,
            company=COMPANY,
            job=payload.task,
            queue="memory.store",
            payload=payload.model_dump_json(),
            reason="tired",
            attempts=1,
        )
        ledger.dead_letters.put(letter)
    ledger.erasable.letters.erase(SCOPE)
    (left,) = ledger.dead_letters.list(COMPANY)
    assert [each.agent_id for each in StorePayload.model_validate_json(left.payload).items] == ["bob"]
    assert ledger.erasable.letters.find(SCOPE) == {}


@pytest.mark.parametrize("owner", [SHARED_OWNER, ORGANISATION])
def test_what_all_agents_share_is_no_agent_and_is_not_erased(ledger: Ledger, owner: str) -> None:
    with pytest.raises(MemoryInputError, match="agent_id"):
        ledger.erasures.request(COMPANY, owner, confirmation=WORD)
    assert ledger.erasures.page(COMPANY) == ()


def test_an_agent_is_barred_while_its_erasure_is_open_and_asked_for_once(ledger: Ledger) -> None:
    asked = ledger.erasures.request(COMPANY, "ada", confirmation=WORD)
    again = ledger.erasures.request(COMPANY, "ada", confirmation=WORD)
    assert again.erasure_id == asked.erasure_id
    person = ledger.erasures.request(COMPANY, "bob", confirmation=WORD, subject="user:p")
    assert person.erasure_id != asked.erasure_id
    assert ledger.erasures.watch(COMPANY, ["ada", "bob"]).barred == {"ada"}
    assert [line.action for line in ledger.audit.page(COMPANY)].count("erase.agent") == 1


def test_a_key_is_made_once_and_those_of_files_are_taken_over(ledger: Ledger) -> None:
    assert ledger.signing_keys.all() == ()
    key = ledger.signing_keys.signing()
    assert len(key) == 32
    assert ledger.signing_keys.signing() == key
    older = b"o" * 32
    assert ledger.signing_keys.signing(older=older) == key
    assert sorted(ledger.signing_keys.all()) == sorted((key, older))


def test_the_key_of_a_file_goes_on_signing(ledger: Ledger) -> None:
    first, second = b"1" * 32, b"2" * 32
    assert ledger.signing_keys.signing(older=first) == first
    assert ledger.signing_keys.signing(older=second) == ledger.signing_keys.signing() == first
    assert sorted(ledger.signing_keys.all()) == [first, second]
