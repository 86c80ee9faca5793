"""``memtend companies``: on a data folder whose stack is down, since the ledger is all that it needs."""

from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.ledger_records import copied_urls

from memcore.clock import utc_now
from memcore.config.settings import Settings
from memcore.ledger.companies import CompanyState
from memcore.ledger.dead_letters import NewDeadLetter
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_usage import Caps, NewCall, Spent
from memcore.ledger.runs import NewRun
from memcore.models.memory import ConsolidationInterval
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


def test_people_see_the_work_of_every_company_and_the_doctor_names_those_with_trouble(memtend: CommandLine) -> None:
    settings = Settings.load({}, memtend.home)
    past = utc_now() - timedelta(days=2)
    for company in ("globex", "initech", "umbrella"):
        memtend.ok("companies", "add", company, "--by", "Ada")
    with closing(Ledger.open(settings.ledger_urls, clock=lambda: past)) as ledger:
        ledger.agents.register("globex", ["ada", "bob"], interval=ConsolidationInterval.DAILY)
        for company in ("globex", "initech", "umbrella"):
            ledger.runs.create(NewRun(company=company, agent_id="ada", planned_at=past))
            ledger.dead_letters.put(NewDeadLetter(job_id=company, company=company, job="j", queue="q", payload="{}",
                                                  attempts=1, reason="why"))  # fmt: skip
        ledger.companies.pause("initech")
        ledger.companies.remove("umbrella")
    rows = {row["company"]: row for row in memtend.ok("companies", "list", "--json").value}
    columns = ("agents", "late", "open", "stuck", "dead")
    assert [rows["globex"][column] for column in columns] == [2, 2, 1, 1, 1]
    assert [rows["initech"][column] for column in columns] == [0, 0, 1, 1, 1]
    found = {each.check: each for take in (doctor._maintenance, doctor._runs) for each in take(settings)}
    assert found["schedule"].seen == "2 agents late (globex: 2)"
    assert found["stuck work"].seen == "1 items that no worker takes (globex: 1)"
    assert found["dead letters"].seen == "2 jobs were given up (globex: 1, initech: 1)"
    assert "MEMTEND_COMPANY=NAME" in found["dead letters"].mend
    assert not any(found[check].ok for check in ("schedule", "stuck work", "dead letters"))
    assert memtend.ok("status", "--company", "globex", "--json").value["agents"] == 2
    assert memtend.ok("status", "--json").value["agents"] == 0
    assert "no-such" in memtend("status", "--company", "no-such").err


def test_usage_is_that_of_a_company_or_of_each(memtend: CommandLine) -> None:
    settings, most = Settings.load({}, memtend.home), Spent(prompt_tokens=1, completion_tokens=1, cost=1.0)
    memtend.ok("companies", "add", "globex", "--by", "Ada")
    with closing(Ledger.open(settings.ledger_urls)) as ledger:
        for company, calls in (("globex", 2), (settings.company, 1)):
            for number in range(calls):
                call = NewCall(company=company, agent_id="ada", purpose="a purpose", run_id=None, most=most,
                               question_id=str(number), model="stub")  # fmt: skip
                ledger.spending.reserve(call, caps=Caps())
    assert [row["calls"] for row in memtend.ok("usage", "--json").value] == [1]
    assert [row["calls"] for row in memtend.ok("usage", "--company", "globex", "--json").value] == [2]
    rows = memtend.ok("usage", "--by", "company", "--json").value
    assert [(row["company"], row["calls"]) for row in rows] == [("globex", 2), (settings.company, 1)]


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
