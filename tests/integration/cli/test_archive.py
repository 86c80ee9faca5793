"""The archive from the command line: finding what was put away, bringing it back, taking that back."""

import dataclasses
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from support.command_line import CommandLine
from support.ledger_records import make_record
from support.memories import new_agent
from support.running_stack import StackAddress

from memcore.ledger.ledger import Ledger
from memcore.models.archival import ArchivalMode
from memcore.records import MemoryRecord


@pytest.fixture
def ledger(stack: StackAddress) -> Iterator[Ledger]:
    opened = Ledger.open(stack.settings.ledger_urls)
    yield opened
    opened.close()


def put_away(ledger: Ledger, stack: StackAddress, agent: str, content: str) -> MemoryRecord:
    record = make_record(str(uuid.uuid4()), agent_id=agent, at=datetime(2026, 1, 5, tzinfo=UTC))
    record = dataclasses.replace(
        record, entry=record.entry.model_copy(update={"content": content, "namespace": "work"}), vectors=None
    )
    ledger.archive.put(
        stack.settings.company,
        record,
        mode=ArchivalMode.EXTRACTIVE,
        archived_at=record.entry.created_at + timedelta(days=1),
    )
    return record


def test_what_is_archived_is_listed_found_and_shown(memtend: CommandLine, ledger: Ledger, stack: StackAddress) -> None:
    agent = new_agent()
    first = put_away(ledger, stack, agent, "The deployment failed on Friday")
    put_away(ledger, stack, agent, "Ada likes tea")
    put_away(ledger, stack, new_agent(), "Somebody else's deployment")
    assert {each["text"] for each in memtend.ok("archive", "list", agent, "--json").value} == {
        "The deployment failed on Friday",
        "Ada likes tea",
    }
    (found,) = memtend.ok("archive", "search", agent, "failed deployments", "--namespace", "work", "--json").value
    assert found["original_id"] == first.entry.id
    assert memtend.ok("archive", "search", agent, "deployment", "--namespace", "elsewhere", "--json").value == []
    shown = memtend.ok("archive", "show", agent, found["archival_id"], "--json").value
    assert (shown["mode"], shown["returned_at"], shown["text"]) == ("extractive", None, first.entry.content)
    assert "Ada likes tea" in memtend.ok("archive", "list", agent).out


def test_a_restored_memory_is_found_again_and_the_restore_can_be_undone(
    memtend: CommandLine, ledger: Ledger, stack: StackAddress
) -> None:
    agent = new_agent()
    record = put_away(ledger, stack, agent, "The canteen closes at two")
    run = memtend.ok("archive", "restore", agent, record.entry.id, "--json").value
    assert (run["kind"], run["state"], run["counts"]) == ("restore", "done", {"restored": 1})
    (back,) = memtend.ok("search", agent, "canteen", "--json").value
    assert (back["id"], back["namespace"]) == (record.entry.id, "work")
    assert datetime.fromisoformat(back["created_at"]) == record.entry.created_at
    assert memtend.ok("archive", "list", agent, "--json").value == []
    assert memtend.ok("runs", "show", run["run_id"], "--json").value["archived"] == 0

    again = memtend.ok("archive", "restore", agent, record.entry.id, "--json").value
    assert again["state"] == "skipped"
    assert "stands in the store" in again["reason"]

    memtend.ok("runs", "undo", run["run_id"])
    assert memtend.ok("search", agent, "canteen", "--json").value == []
    assert len(memtend.ok("archive", "list", agent, "--json").value) == 1


def test_what_is_not_in_the_archive_is_said_in_one_sentence(memtend: CommandLine) -> None:
    for command in ("show", "restore"):
        failed = memtend("archive", command, new_agent(), "nothing")
        assert failed.code != 0
        assert failed.err.strip().endswith("see `memtend archive list`")
        assert "Traceback" not in failed.err
