"""What the ledger's values refuse, and what they never show."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from support.ledger_records import COMPANY, make_journal_entry, make_record

from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.ledger.agents import AgentSpec
from memcore.ledger.journal import JournalEntry
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun
from memcore.models.memory import ConsolidationInterval

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_memories", 0),
        ("max_memories", 2_000_000_001),
        ("retention_days", 0),
        ("retention_overrides", {"working": 0}),
        ("retention_overrides", {"nonsense": 1}),
        ("level", "nonsense"),
        ("interval", "sometimes"),
        ("agent_id", " "),
        ("role", "x" * 257),
        ("department", "a\x00b"),
        ("nonsense", 1),
    ],
)
def test_a_bad_setting_of_an_agent_is_named(field: str, value: object) -> None:
    given: dict[str, Any] = {"company": "acme", "agent_id": "ada", field: value}
    with pytest.raises(MemoryInputError, match=f"^{field}"):
        AgentSpec(**given)


def test_one_instant_written_in_two_zones_is_one_run() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=-7)))
    here = NewRun(company="acme", agent_id="ada", planned_at=NOON)
    assert NewRun(company="acme", agent_id="ada", planned_at=there).run_id == here.run_id
    assert NewRun(company="acme", agent_id="bob", planned_at=NOON).run_id != here.run_id
    undo = NewRun(company="acme", agent_id="ada", kind="undo", undo_of="r", planned_at=NOON)
    assert undo.run_id != here.run_id
    assert NewRun(run_id="given", company="acme", agent_id="ada", planned_at=NOON).run_id == "given"


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("undo_of", {"undo_of": "r"}),
        ("undo_of", {"kind": "undo"}),
        ("planned_at", {"planned_at": NOON.replace(tzinfo=None)}),
        ("kind", {"kind": "other"}),
    ],
)
def test_a_run_that_makes_no_sense_is_refused(field: str, change: dict[str, Any]) -> None:
    with pytest.raises(MemoryInputError, match=f"^{field}"):
        NewRun(**{"company": "acme", "agent_id": "ada", "planned_at": NOON, **change})


def _of_another_agent() -> JournalEntry:
    outsider = (make_record("m", agent_id="bob"),)
    return JournalEntry(
        booking_id="b", run_id="r", company=COMPANY, agent_id="ada", seq=0, reason="retention", outgoing=outsider
    )


@pytest.mark.parametrize(
    "build",
    [
        lambda: make_journal_entry("b", outgoing=("m", "m")),
        lambda: make_journal_entry("b", incoming=("m",), outgoing=("m",)),
        _of_another_agent,
    ],
)
def test_a_entry_that_could_not_be_undone_is_refused(build: Callable[[], JournalEntry]) -> None:
    with pytest.raises(MemoryInputError, match="booking"):
        build()


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "mysql://h/d", "postgresql+psycopg2://h/d", "rubbish"]
)
def test_a_url_that_several_processes_cannot_share_is_refused_when_it_is_wired(url: str) -> None:
    with pytest.raises(MemoryConfigError, match=r"^ledger: "):
        Ledger.open(LedgerUrls(ledger=url, journal="sqlite:///journal.db"))


def test_no_password_is_shown() -> None:
    urls = LedgerUrls(ledger="mysql://me:hush@host/db", journal="rubbish:hush")
    assert "hush" not in repr(urls)
    with pytest.raises(MemoryConfigError) as caught:
        Ledger.open(urls)
    assert "hush" not in str(caught.value)


def test_opening_touches_no_database() -> None:
    urls = LedgerUrls(ledger="postgresql://127.0.0.1:1/none", journal="sqlite:////no/such/folder/journal.db")
    Ledger.open(urls).close()


def test_the_interval_of_an_agent_may_be_given_back_to_the_company() -> None:
    assert "interval" in AgentSpec(company="acme", agent_id="ada", interval=None).model_fields_set
    spec = AgentSpec(company="acme", agent_id="ada", interval=ConsolidationInterval.NEVER)
    assert spec.model_fields_set == {"company", "agent_id", "interval"}
