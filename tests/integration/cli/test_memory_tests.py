"""``memtend test`` beside a running stack: in this process and over HTTP, from a file to an exit code and JUnit XML."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from support.command_line import Answer, CommandLine
from support.kept_conversations import fact, keep, owner
from support.memories import new_agent
from support.running_stack import StackAddress
from support.serve_process import serve_process

from memcore.clock import utc_now
from memcore.jobs import RecordedQuery
from ops.cli.session import ledger_of

PAGE = "The payment queue pages at 500 messages."


@pytest.fixture(scope="module")
def agent(stack: StackAddress) -> str:
    """An agent that knows two things, one of them by a key, one from a tool; and a fact of Ada."""
    name = new_agent("tested")
    line = {"agent_id": name, "category": "semantic"}
    lines = [
        {**line, "content": PAGE, "key": "paging", "origin": {"channels": ["agent"]}},
        {**line, "content": "The payment queue pages at 100 messages, says a blog.", "origin": {"channels": ["tool"]}},
    ]
    CommandLine(home=stack.home).ok("import", "-", stdin="\n".join(map(json.dumps, lines)).encode())
    said = fact("memory-tests", "I live in Porto", at=utc_now(), predicate="LIVES_IN", object="Porto")
    with ledger_of(stack.settings) as ledger:
        keep(ledger, owner(name), said, company=stack.settings.company)
    return name


QUESTION = {"question": "when does the payment queue page?"}
GOOD: list[dict[str, Any]] = [
    {
        "name": "pages",
        **QUESTION,
        "finds": ["pages at 500", {"key": "paging"}],
        "order": ["at 500", {"pattern": "AT 1?? mes*blog"}],
    },
    {"name": "trusted", **QUESTION, "min_authority": "inform", "authority": "inform", "shows_not": ["blog"]},
    {"name": "short", **QUESTION, "tokens": 2_000},
    {"name": "unknown", "question": "quantum chromodynamics", "standing": "strong", "shows_nothing": True},
    {
        "name": "person",
        "question": "do I live in Porto?",
        "person": "ada",
        "facts": [{"predicate": "lives_in", "value": "Porto"}],
    },
    {"name": "before", **QUESTION, "as_of": "2020-01-01T00:00:00Z", "shows_nothing": True},
]
BAD: dict[str, Any] = {"name": "wrong", **QUESTION, "finds": ["pages at 900"], "tokens": 1}


def written(folder: Path, agent: str, tests: list[dict[str, Any]]) -> Path:
    file = folder / "oncall.yaml"
    file.write_text(yaml.safe_dump({"agent": agent, "tests": tests}))
    return file


def outcomes(answer: Answer) -> dict[str, str]:
    return {each["name"]: each["outcome"] for each in answer.value["results"]}


def test_tests_pass_or_fail_by_what_the_stack_shows(
    memtend: CommandLine, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, agent, GOOD)
    passed = memtend.ok("test", "run", str(tmp_path), "--json")
    assert outcomes(passed) == dict.fromkeys((each["name"] for each in GOOD), "passed"), passed.out
    folder = tmp_path / "memory_tests"
    folder.mkdir()
    written(folder, agent, [GOOD[0], BAD])
    monkeypatch.chdir(tmp_path)
    failed = memtend("test", "run", "--junit", "junit.xml")
    assert failed.code == 1
    assert "wrong" in failed.out
    assert "pages at 900 is not shown" in failed.out
    assert failed.out.splitlines()[-1].startswith("1 passed, 1 failed, 0 without an answer")
    assert PAGE not in failed.out
    # What came of the tests is seen where the file cannot be written.
    unwritten = memtend("test", "run", "--junit", str(folder))
    assert (unwritten.code, "cannot be written" in unwritten.err, "wrong" in unwritten.out) == (2, True, True)
    _, case = ET.parse("junit.xml").getroot()  # noqa: S314  # written above
    assert (case.get("classname"), case.get("name"), [each.tag for each in case]) == (agent, "wrong", ["failure"])


def test_the_same_over_http_with_a_key(
    memtend: CommandLine, stack: StackAddress, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, agent, [*GOOD, BAD])
    key = memtend.ok("keys", "create", new_agent("tests"), "--by", "ada", "--agent", agent).out.strip()
    other = memtend.ok("keys", "create", new_agent("other"), "--by", "ada", "--agent", "other").out.strip()
    here = memtend("test", "run", str(file), "--json")
    with serve_process(stack.home) as serve:
        monkeypatch.setenv("MEMTEND_KEY", key)
        there = memtend("test", "run", str(file), "--json", "--url", serve.url)
        monkeypatch.setenv("MEMTEND_KEY", other)
        refused = memtend("test", "run", str(file), "--url", serve.url)
    assert (here.code, there.code) == (1, 1), there
    assert outcomes(there) == outcomes(here)
    assert [each["shown"] for each in there.value["results"]] == [each["shown"] for each in here.value["results"]]
    assert there.value["results"][-1]["reasons"] == here.value["results"][-1]["reasons"]
    assert refused.code == 2
    assert "RemoteRefusedError" in refused.out


def test_what_cannot_be_run_is_no_failure(memtend: CommandLine, agent: str, tmp_path: Path) -> None:
    file = written(tmp_path, agent, GOOD[:1])
    away = memtend("test", "run", str(file), "--url", "http://127.0.0.1:1")
    assert (away.code, away.out.splitlines()[-1][:40]) == (2, "0 passed, 0 failed, 1 without an answer,")
    stopped = CommandLine(home=tmp_path / "no-stack")("test", "run", str(file))
    assert (stopped.code, "nothing runs at" in stopped.err) == (2, True)
    wrong = memtend("test", "run", str(written(tmp_path, agent, [{"name": "n"}])))
    assert (wrong.code, "oncall.yaml, test 'n', question: is missing" in wrong.err) == (2, True)
    assert memtend("test", "run", str(tmp_path / "missing")).code == 2


def test_recorded_questions_become_tests_that_pass_today(
    memtend: CommandLine, stack: StackAddress, agent: str, tmp_path: Path
) -> None:
    questions = ("when does the payment queue page?", "quantum chromodynamics", "which queue pages at 500?")
    with ledger_of(stack.settings) as ledger:
        asked = [
            RecordedQuery(agent_id=agent, question=question, memory_ids=("x",), asked_at=utc_now())
            for question in questions
        ]
        ledger.recorded_queries.record(stack.settings.company, asked)
    file = tmp_path / "new" / "tests.yaml"
    facts = memtend.ok("test", "record", str(file), "--agent", agent, "--json").value
    assert facts == {"file": str(file), "tests": 2, "found_nothing": 1}
    assert "pages at 500" in file.read_text()
    assert memtend.ok("test", "run", str(file), "--json").value["passed"] == 2
    before = file.read_bytes()
    again = memtend("test", "record", str(file), "--agent", agent)
    assert (again.code, "is there: name another" in again.err, file.read_bytes()) == (2, True, before)
    few = tmp_path / "few.yaml"
    assert memtend.ok("test", "record", str(few), "--agent", agent, "--limit", "1", "--json").value["tests"] <= 1
    beneath = memtend("test", "record", str(few / "under" / "tests.yaml"), "--agent", agent)
    assert (beneath.code, "cannot be written (Not a directory)" in beneath.err) == (2, True), beneath
    nobody = memtend("test", "record", str(tmp_path / "none.yaml"), "--agent", new_agent())
    assert (nobody.code, "is recorded" in nobody.err, (tmp_path / "none.yaml").exists()) == (1, True, False)


@pytest.mark.slow(because="a thousand questions")
def test_a_thousand_tests_take_less_than_a_minute(memtend: CommandLine, tmp_path: Path) -> None:
    many = new_agent("many")
    texts = [f"Team {number * 7} is paged when queue {number} holds {number * 13} messages." for number in range(50)]
    lines = [{"agent_id": many, "category": "semantic", "content": text} for text in texts]
    memtend.ok("import", "-", stdin="\n".join(map(json.dumps, lines)).encode())
    tests = [
        {
            "name": f"{number}",
            "question": f"which team is paged for queue {number % 50}?",
            "finds": [texts[number % 50]],
        }
        for number in range(1_000)
    ]
    report = memtend.ok("test", "run", str(written(tmp_path, many, tests)), "--json").value
    assert (report["passed"], report["failed"], report["errors"]) == (1_000, 0, 0)
    assert report["seconds"] < 60  # quiet: 5


def test_tests_are_registered_listed_and_removed(stack: StackAddress, agent: str, tmp_path: Path) -> None:
    memtend, file = CommandLine(home=stack.home), str(written(tmp_path, agent, GOOD))
    given = memtend.ok("test", "register", file, "--by", "grace", "--reason", "they matter", "--json").value
    assert given == {"registered": 6, "changed": 6}
    assert memtend.ok("test", "register", file, "--json").value == {"registered": 6, "changed": 0}
    listed = memtend.ok("test", "list", "--agent", agent, "--json").value
    assert [each["name"] for each in listed] == sorted(each["name"] for each in GOOD)
    assert listed[1]["test"] == {**listed[1]["test"], "question": GOOD[0]["question"]}
    refused = memtend("test", "remove", "--agent", agent, "none")
    assert (refused.code, "'none' is no test of" in refused.err) == (1, True)
    assert memtend("test", "remove", "--agent", agent).code == 2
    assert memtend.ok("test", "remove", "--agent", agent, "pages", "short", "--json").value == {"removed": 2}
    assert memtend.ok("test", "remove", "--agent", agent, "--all", "--json").value == {"removed": 4}
    assert memtend.ok("test", "list", "--agent", agent, "--json").value == []
