from typing import Any

from support.command_line import CommandLine
from support.memories import new_agent


def test_what_one_agent_publishes_is_found_listed_and_retracted(memtend: CommandLine) -> None:
    agent = new_agent("teller")
    published = memtend.ok("shared", "publish", agent, "The lift is out of order", "--tag", "house", "--json").value
    again = memtend.ok("shared", "publish", agent, "The lift is out of order", "--json").value
    assert again == published

    def ours(*argv: str) -> list[dict[str, Any]]:
        # The stack is other tests' too, and approvals publish there.
        return [each for each in memtend.ok("shared", *argv, "--json").value if each["agent_id"] == agent]

    (found,) = ours("search", "lift")
    assert (found["id"], found["agent_id"]) == (published["id"], agent)
    assert found["metadata"]["tags"] == ["house"]
    assert "The lift is out of order" in memtend.ok("shared", "search").out
    assert ours("search", "--exclude-agent", agent) == []
    assert memtend.ok("search", agent, "--json").value == []

    refused = memtend("shared", "retract", new_agent("thief"), published["id"])
    assert (refused.code, refused.out) == (1, "")
    assert published["id"] in refused.err
    memtend.ok("shared", "retract", agent, published["id"])
    assert ours("search", "lift") == []

    first, second = ours("list")
    assert [each["kind"] for each in (first, second)] == ["publish", "retract"]
    assert first["text"] == "The lift is out of order"
    assert first["id"] == second["id"] == published["id"]
    at_first = ours("search", "--version", str(first["version"]))
    assert [each["id"] for each in at_first] == [published["id"]]
    assert ours("list", "--after", str(first["version"])) == [second]


def test_a_version_that_is_not_there_yet_is_refused(memtend: CommandLine) -> None:
    answer = memtend("shared", "search", "--version", "1000000")
    assert answer.code == 2
    assert "version: is 1000000" in answer.err
