"""The organisation's facts from the command line."""

import uuid
from datetime import UTC, datetime

import pytest
from support.command_line import CommandLine
from support.running_stack import wait_until


def word() -> str:
    """Return a word that no other test writes: all share one stack."""
    return f"w{uuid.uuid4().hex}"


def test_a_person_writes_finds_revises_and_retracts_a_fact(memtend: CommandLine) -> None:
    tea, cake = word(), word()
    fact_id = memtend.ok("org", "write", f"{tea} at four", "--by", "Grace", "--tag", "kitchen", "--json").value["id"]
    fact = memtend.ok("org", "search", tea, "--json").value[0]
    assert (fact["id"], fact["tags"], fact["category"]) == (fact_id, ["kitchen"], "convention")
    assert fact["author"] == {"is_human": True, "name": "Grace"}
    assert fact_id in {each["id"] for each in memtend.ok("org", "list", "--limit", "256", "--json").value}
    assert tea in memtend.ok("org", "list", "--limit", "256").out

    then = datetime.now(UTC).isoformat()
    memtend.ok("org", "write", f"{cake} at five", "--by", "Linus", "--fact-id", fact_id)
    assert tea not in memtend.ok("org", "search", tea, "--json").out
    memtend.ok("org", "retract", fact_id, "--by", "Grace")
    assert cake not in memtend.ok("org", "search", cake, "--json").out

    shown = memtend.ok("org", "show", fact_id, "--json").value
    assert (shown["version"], shown["text"], shown["retracted_at"] is None) == (3, f"{cake} at five", False)
    assert [(line["version"], line["operation"], line["author"]) for line in shown["log"]] == [
        (1, "publish", "Grace"),
        (2, "publish", "Linus"),
        (3, "retract", "Grace"),
    ]
    lines = memtend.ok("org", "log", fact_id, "--json").value
    assert [line["version"] for line in lines] == [3, 2, 1]
    assert [line["version"] for line in memtend.ok("org", "log", fact_id, "--at", then, "--json").value] == [1]
    (old,) = [each for each in memtend.ok("org", "list", "--at", then, "--json").value if each["id"] == fact_id]
    assert old["text"] == f"{tea} at four"
    assert "Linus" in memtend.ok("org", "log", fact_id).out
    assert "retract by Grace" in memtend.ok("org", "show", fact_id).out


@pytest.mark.slow(because="the sweep of a real stack comes every fifteen seconds")
def test_the_sweep_lets_meaning_find_what_was_written(memtend: CommandLine) -> None:
    text = "Physicians must wash their hands before surgery"
    fact_id = memtend.ok("org", "write", text, "--by", "Grace", "--json").value["id"]

    def is_found() -> bool:
        facts = memtend.ok("org", "search", "doctor hygiene in hospital", "--min-evidence", "0", "--json").value
        return any(fact["id"] == fact_id for fact in facts)

    wait_until(is_found, what="the sweep shows the fact")
    memtend.ok("org", "retract", fact_id, "--by", "Grace")
    assert not is_found()


def test_the_audit_tells_what_people_did(memtend: CommandLine) -> None:
    name = word()
    fact_id = memtend.ok("org", "write", "tea at four", "--by", name, "--json").value["id"]
    memtend.ok("org", "retract", fact_id, "--by", name)
    lines = memtend.ok("audit", "--actor", name, "--json").value
    assert [(line["action"], line["subject"], line["verdict"]) for line in lines] == [
        ("org.retract", fact_id, "done"),
        ("org.write", fact_id, "done"),
    ]
    assert {line["actor"] for line in lines} == {f"person:{name}"}
    (line,) = memtend.ok("audit", "--actor", f"person:{name}", "--action", "org.write", "--json").value
    assert line == lines[1]
    assert name in memtend.ok("audit", "--limit", "256").out
    assert "tea at four" not in memtend.ok("audit", "--actor", name).out


def test_what_is_wrong_is_said_in_one_sentence(memtend: CommandLine) -> None:
    for words, code, said in (
        (("write", " ", "--by", "Grace"), 2, "content: must not be blank"),
        (("write", "x", "--by", " "), 2, "name: must not be blank"),
        (("write", "x", "--by", "Grace", "--category", "gossip"), 2, "category: must be 'core_policy'"),
        (("write", "x", "--by", "Grace", "--fact-id", "core-policy-0"), 2, "fact_id: begins with core-policy-"),
        (("list", "--category", "gossip"), 2, "categories"),
        (("list", "--at", "2026-01-01"), 2, "at: needs a time zone"),
        (("log", "--at", "noon"), 2, "at: must be an ISO time"),
        (("search", "x", "--limit", "0"), 2, "limit: must be greater than or equal to 1"),
        (("show", "unheard-of"), 1, "'unheard-of' names no fact"),
        (("retract", "unheard-of", "--by", "Grace"), 1, "'unheard-of' names no fact"),
    ):
        answer = memtend("org", *words)
        assert (answer.code, answer.out) == (code, ""), answer
        assert said in answer.err
        assert answer.err.count("\n") == 1
