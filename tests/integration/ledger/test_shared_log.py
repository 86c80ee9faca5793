"""The log of shared knowledge, on each database."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from support.forked import Child, dies
from support.ledger_records import COMPANY, StoppedClock, make_fact
from support.present import present

from memcore import ids
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryInputError
from memcore.ledger.database import Database
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.shared_log import LogPosition, SharedEntry, SharedLog
from memcore.records import MemoryRecord


def test_each_line_is_a_version_and_holds_what_was_published(ledger: Ledger, clock: StoppedClock) -> None:
    log = ledger.shared_log
    assert log.standing(COMPANY) == LogPosition()

    first = log.publish(COMPANY, make_fact("the canteen closes at two"))
    second = log.publish(COMPANY, make_fact("naïve café, 日本\x00", agent_id="bob"))
    gone = present(log.retract(COMPANY, "ada", first.memory_id))
    assert [line.version for line in (first, second, gone)] == [1, 2, 3]
    assert log.lines(COMPANY) == (first, second, gone)
    assert second.record == make_fact("naïve café, 日本\x00", agent_id="bob")
    assert (gone.kind, gone.memory_id, gone.record, gone.at) == ("retract", first.memory_id, None, clock())
    assert log.lines(COMPANY, after=1, limit=1) == (second,)


def test_what_stands_is_not_published_again(ledger: Ledger) -> None:
    log = ledger.shared_log
    first = log.publish(COMPANY, make_fact("one"))
    assert log.publish(COMPANY, make_fact("one")) == first
    assert log.publish(COMPANY, make_fact("one", agent_id="bob")).version == 2


def test_what_was_retracted_is_published_under_another_id(ledger: Ledger) -> None:
    log = ledger.shared_log
    first = log.publish(COMPANY, make_fact("one"))
    log.retract(COMPANY, "ada", first.memory_id)
    again = log.publish(COMPANY, make_fact("one"))

    assert again.version == 3
    assert again.memory_id != first.memory_id
    assert present(again.record).entry.id == again.memory_id
    assert log.publish(COMPANY, make_fact("one")) == again


def test_what_has_expired_is_published_anew(ledger: Ledger, clock: StoppedClock) -> None:
    log = ledger.shared_log

    def lasting(days: int) -> MemoryRecord:
        record = make_fact("one")
        ends = clock() + timedelta(days=days)
        return replace(record, entry=record.entry.model_copy(update={"expires_at": ends}))

    first = log.publish(COMPANY, lasting(1))
    assert log.publish(COMPANY, lasting(9)) == first
    clock.advance(timedelta(days=1))
    again = log.publish(COMPANY, lasting(9))
    assert (again.version, again.memory_id == first.memory_id) == (2, False)


def test_only_the_publisher_retracts_and_only_once(ledger: Ledger) -> None:
    log = ledger.shared_log
    first = log.publish(COMPANY, make_fact("one"))
    assert log.retract(COMPANY, "bob", first.memory_id) is None
    assert log.retract("globex", "ada", first.memory_id) is None
    assert log.retract(COMPANY, "ada", ids.new_id()) is None
    assert log.standing(COMPANY).last == 1

    gone = log.retract(COMPANY, "ada", first.memory_id)
    assert log.retract(COMPANY, "ada", first.memory_id) == gone, "searches do not see it yet: it may be carried out"
    log.advance(COMPANY, 2)
    assert log.retract(COMPANY, "ada", first.memory_id) is None
    assert log.standing(COMPANY).last == 2


def test_the_head_only_moves_forward(ledger: Ledger, clock: StoppedClock) -> None:
    log, began = ledger.shared_log, clock()
    log.publish(COMPANY, make_fact("one"))
    clock.advance(timedelta(seconds=1))
    log.publish(COMPANY, make_fact("two"))
    assert log.standing(COMPANY) == LogPosition(head=0, last=2, open_since=began)
    log.advance(COMPANY, 1)
    assert log.standing(COMPANY) == LogPosition(head=1, last=2, open_since=clock())
    log.advance(COMPANY, 2)
    log.advance(COMPANY, 1)
    assert log.standing(COMPANY) == LogPosition(head=2, last=2)


def test_companies_have_logs_of_their_own(ledger: Ledger) -> None:
    log = ledger.shared_log
    log.publish(COMPANY, make_fact("one"))
    assert log.publish("globex", make_fact("one", company="globex")).version == 1
    log.advance(COMPANY, 1)
    assert log.standing("globex").head == 0
    assert len(log.lines("globex")) == 1


def test_a_name_that_no_database_keeps_writes_nothing(ledger: Ledger) -> None:
    with pytest.raises(MemoryInputError, match="agent_id"):
        ledger.shared_log.publish(COMPANY, make_fact("one", agent_id="a\x00b"))
    assert ledger.shared_log.lines(COMPANY) == ()


def test_threads_that_publish_at_once_get_a_version_each(ledger: Ledger) -> None:
    log = ledger.shared_log

    def publish(agent: int) -> list[int]:
        return [
            log.publish(COMPANY, make_fact(f"{agent}/{n % 10}", agent_id=f"agent {agent}")).version for n in range(20)
        ]

    with ThreadPoolExecutor(4) as threads:
        versions = {version for found in threads.map(publish, range(4)) for version in found}
    assert sorted(versions) == list(range(1, 41)), "each fact twice, and a version the first time"
    assert [line.version for line in log.lines(COMPANY)] == list(range(1, 41))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_processes_that_publish_and_retract_at_once_lose_nothing(urls: LedgerUrls, ledger: Ledger) -> None:
    def write(agent_id: str) -> bytes:
        log, lines = SharedLog(Database(urls.ledger, name="ledger"), clock=StoppedClock()), list[SharedEntry]()
        for number in range(10):
            lines.append(log.publish(COMPANY, make_fact(f"fact {number}", agent_id=agent_id)))
            if number % 2:
                gone = present(log.retract(COMPANY, agent_id, lines[-1].memory_id))
                lines.append(gone)
        return "".join(f"{line.version} {line.kind} {line.memory_id}\n" for line in lines).encode()

    writers = [Child(partial(write, agent_id)) for agent_id in "abc"]
    said = [line.split() for writer in writers for line in writer.said().splitlines()]
    printed = [(int(version), kind, memory_id) for version, kind, memory_id in said]
    written = [(line.version, line.kind, line.memory_id) for line in ledger.shared_log.lines(COMPANY)]
    assert sorted(printed) == written
    assert [version for version, _, _ in written] == list(range(1, 3 * 15 + 1))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_writer_that_dies_between_two_statements_leaves_a_whole_line_or_none(
    urls: LedgerUrls, ledger: Ledger
) -> None:
    def publish(database: Database) -> None:
        SharedLog(database, clock=StoppedClock()).publish(COMPANY, make_fact("killed"))

    deaths = 0
    while dies(urls.ledger, publish, before=deaths):
        deaths += 1
        assert ledger.shared_log.lines(COMPANY) == ()
        assert ledger.shared_log.standing(COMPANY).last == 0
    # The head's row, its lock, what stands, the line, the head, commit.
    assert deaths >= 6
    assert [line.version for line in ledger.shared_log.lines(COMPANY)] == [1]
