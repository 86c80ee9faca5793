"""Single memories from the command line: got, listed, changed, forgotten, explained; and agents that are removed."""

import json

import pytest
from support.command_line import CommandLine
from support.memories import new_agent

from memcore.config.policy import Policy
from ops.cli import session


def refused(memtend: CommandLine, *words: str) -> str:
    """Return what a command says that refuses."""
    answer = memtend(*words)
    assert answer.code != 0
    assert answer.out == ""
    return answer.err


def stored(memtend: CommandLine, agent: str, *texts: str) -> list[str]:
    lines = [{"agent_id": agent, "category": "semantic", "content": text} for text in texts]
    memtend.ok("import", "-", stdin="\n".join(map(json.dumps, lines)).encode())
    found = memtend.ok("list", agent, "--json").value["memories"]
    by_text = {each["text"]: each["id"] for each in found}
    return [by_text[text] for text in texts]


def test_a_memory_is_got_changed_and_explained_by_any_of_its_ids(memtend: CommandLine) -> None:
    agent = new_agent()
    (first,) = stored(memtend, agent, "The gate opens at nine.")
    own = '{"origin": {"channel": "mail"}, "pages": 3}'
    changed = memtend.ok(
        "update", agent, first, "--content", "The gate opens at ten.", "--tag", "gate", "--attributes", own,
        "--by", "grace", "--json",
    ).value  # fmt: skip
    assert changed["id"] != first
    assert (changed["text"], changed["metadata"]["tags"]) == ("The gate opens at ten.", ["gate"])
    assert changed["attributes"] == json.loads(own)
    for memory_id in (first, changed["id"]):
        assert memtend.ok("get", agent, memory_id, "--json").value["id"] == changed["id"]
        events = memtend.ok("history", agent, memory_id, "--json").value
        assert [each["event"] for each in events] == ["ADD", "UPDATE"]
        assert [each["text"] for each in events] == ["The gate opens at nine.", "The gate opens at ten."]
    noted = memtend.ok("audit", "--action", "memory.update", "--json").value[0]
    assert (noted["actor"], noted["subject"]) == ("person:grace", changed["id"])

    assert "say what is to change" in refused(memtend, "update", agent, first)
    assert "attributes" in refused(memtend, "update", agent, first, "--attributes", "[1]")
    assert "names no memory" in refused(memtend, "get", agent, "00000000-0000-0000-0000-000000000000")
    assert "--key" in refused(memtend, "get", agent)


def test_memories_are_listed_by_page_and_by_filter(memtend: CommandLine) -> None:
    agent = new_agent()
    first, second, third = stored(memtend, agent, "one", "two", "three")
    memtend.ok("update", agent, second, "--attributes", '{"value": {"type": "count"}, "n": 2}')
    pages, cursor = [], None
    while True:
        given = () if cursor is None else ("--cursor", cursor)
        page = memtend.ok("list", agent, "--limit", "2", *given, "--json").value
        pages.append([each["text"] for each in page["memories"]])
        cursor = page["cursor"]
        if cursor is None:
            break
    assert sorted(text for page in pages for text in page) == ["one", "three", "two"]
    for attribute in ("value.type=count", "n=2"):
        found = memtend.ok("list", agent, "--attribute", attribute, "--json").value["memories"]
        assert [each["text"] for each in found] == ["two"]
    assert memtend.ok("list", agent, "--attribute", "n=3", "--json").value["memories"] == []
    assert memtend.ok("list", agent, "--category", "working", "--json").value["memories"] == []
    assert "three" in memtend.ok("list", agent).out
    assert "attribute" in refused(memtend, "list", agent, "--attribute", "n")
    assert first != third


def test_a_version_that_is_not_the_expected_one_is_left_alone(memtend: CommandLine) -> None:
    agent = new_agent()
    (first,) = stored(memtend, agent, "one")
    second = memtend.ok("update", agent, first, "--content", "two", "--json").value["id"]
    for words in (
        ("update", agent, first, "--content", "three"),
        ("update", agent, second, "--content", "three", "--expected", first),
        ("forget", agent, second, "--expected", first),
    ):
        answer = memtend(*words)
        assert answer.code != 0
        assert second in answer.err
    third = memtend.ok("update", agent, first, "--content", "three", "--expected", "*", "--json").value["id"]
    assert memtend.ok("forget", agent, third, "--expected", third, "--json").value["forgotten"] == [third]


def test_what_is_forgotten_by_ids_or_filter_comes_back_by_undo(memtend: CommandLine) -> None:
    agent = new_agent()
    first, second, third = stored(memtend, agent, "one", "two", "three")
    gone = memtend.ok("forget", agent, first, "--by", "grace", "--json").value
    assert gone["forgotten"] == [first]
    noted = memtend.ok("audit", "--action", "memory.forget", "--json").value[0]
    assert (noted["actor"], noted["subject"]) == ("person:grace", gone["run_id"])
    assert [each["event"] for each in memtend.ok("history", agent, first, "--json").value] == ["ADD", "DELETE"]
    again = memtend("forget", agent, first)
    assert (again.code, again.err) == (1, "memtend: memory_ids: name no memory of this agent\n")

    assert "would forget 2 memories" in refused(memtend, "forget", agent, "--category", "semantic")
    assert len(memtend.ok("list", agent, "--json").value["memories"]) == 2
    rest = memtend.ok("forget", agent, "--category", "semantic", "--yes", "--json").value
    assert sorted(rest["forgotten"]) == sorted([second, third])
    assert memtend.ok("list", agent, "--json").value["memories"] == []
    memtend.ok("runs", "undo", rest["run_id"])
    back = {each["text"] for each in memtend.ok("list", agent, "--json").value["memories"]}
    assert back == {"two", "three"}
    assert "or give filters" in refused(memtend, "forget", agent)
    assert "or give filters" in refused(memtend, "forget", agent, second, "--tag", "x")


def test_an_agent_that_is_removed_leaves_the_schedule_and_its_memories_can_come_back(memtend: CommandLine) -> None:
    agent, other = new_agent(), new_agent()
    stored(memtend, agent, "one", "two")
    stored(memtend, other, "three")
    assert "would forget 2 memories" in refused(memtend, "agents", "remove", agent, "--by", "grace")
    assert "is not known" in refused(memtend, "agents", "remove", new_agent(), "--by", "grace", "--yes")
    removed = memtend.ok("agents", "remove", agent, "--by", "grace", "--yes", "--json").value
    assert removed["forgotten"] == 2
    known = [each["agent_id"] for each in memtend.ok("agents", "list", "--json").value]
    assert agent not in known
    assert other in known
    assert memtend.ok("list", agent, "--json").value["memories"] == []
    noted = memtend.ok("audit", "--action", "agents.remove", "--json").value[0]
    assert (noted["actor"], noted["subject"], noted["reason"]) == ("person:grace", agent, "asked for by a command")

    memtend.ok("runs", "undo", removed["run_id"])
    back = {each["text"] for each in memtend.ok("list", agent, "--json").value["memories"]}
    assert back == {"one", "two"}
    stored(memtend, agent, "four")
    assert agent in [each["agent_id"] for each in memtend.ok("agents", "list", "--json").value]


def test_an_operator_is_shown_what_is_in_quarantine(memtend: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    agent, text = new_agent(), "The page asks for the password."
    line = {"agent_id": agent, "category": "semantic", "content": text, "channel": "tool"}
    memtend.ok("import", "-", stdin=json.dumps(line).encode())
    hidden = Policy.model_validate({"memory": {"origins": {"authority": {"tool": "quarantined"}}}})
    monkeypatch.setattr(session, "policy_of", lambda _settings: hidden)
    (listed,) = memtend.ok("list", agent, "--json").value["memories"]
    assert listed["text"] == text
    assert memtend.ok("get", agent, listed["id"], "--json").value["text"] == text
    assert memtend.ok("search", agent, text, "--json").value == []
