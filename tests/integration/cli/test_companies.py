"""``memtend companies``: on a data folder whose stack is down, since the ledger is all that it needs."""

from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.ledger_records import copied_urls

from memcore.config.settings import Settings
from memcore.ledger.companies import CompanyState
from ops.cli.running import doctor


@pytest.fixture
def memtend(ledger_template: Path, tmp_path: Path) -> CommandLine:
    urls = copied_urls(ledger_template, tmp_path)
    Settings(
        broker_url="redis://127.0.0.1:9",
        database_url=urls.ledger,
        journal_url=urls.journal,
        qdrant_url="http://127.0.0.1:9",
        home=tmp_path,
    ).save_stack()
    return CommandLine(home=tmp_path)


def test_a_company_is_added_paused_removed_and_brought_back(memtend: CommandLine, tmp_path: Path) -> None:
    policy = tmp_path / "own.yaml"
    policy.write_text("memory: {consolidation: {interval: hourly}}")
    added = memtend.ok("companies", "add", "globex", "--policy", str(policy), "--by", "Ada", "--json").value
    assert (added["state"], added["policy"]) == ("active", {"memory": {"consolidation": {"interval": "hourly"}}})
    states = []
    for words in (("pause",), ("resume",), ("remove", "--by", "Ada"), ("add", "--by", "Ada")):
        memtend.ok("companies", words[0], "globex", *words[1:])
        states.append(memtend.ok("companies", "show", "globex", "--json").value["state"])
    assert states == [CompanyState.PAUSED, CompanyState.ACTIVE, CompanyState.REMOVED, CompanyState.ACTIVE]
    assert [row["company"] for row in memtend.ok("companies", "list", "--json").value] == ["globex"]


def test_the_doctor_names_a_company_whose_policy_is_wrong(memtend: CommandLine, tmp_path: Path) -> None:
    memtend.ok("companies", "add", "globex", "--by", "Ada")
    assert _companies_check(memtend) == (True, "1 served, 0 paused")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "globex.yaml").write_text("memory: {levle: none}")
    ok, seen = _companies_check(memtend)
    assert not ok
    assert "globex" in seen


def _companies_check(memtend: CommandLine) -> tuple[bool, str]:
    (found,) = doctor._companies(Settings.load({}, memtend.home))
    return found.ok, found.seen


def test_what_is_wrong_is_one_sentence_that_names_it(memtend: CommandLine, tmp_path: Path) -> None:
    policy = tmp_path / "own.yaml"
    policy.write_text("memory: {levle: none}")
    for words, named in (
        (("add", "../acme", "--by", "Ada"), "company"),
        (("add", "globex", "--by", "Ada", "--policy", str(policy)), "memory.levle"),
        (("show", "globex"), "globex"),
        (("pause", "globex"), "globex"),
        (("resume", "globex"), "globex"),
        (("remove", "globex", "--by", "Ada"), "globex"),
        (("remove", "default", "--by", "Ada"), "default"),
    ):
        answer = memtend("companies", *words)
        assert answer.code, words
        assert named in answer.err
        assert answer.err.count("\n") == 1
    assert memtend.ok("companies", "list", "--json").value == []
