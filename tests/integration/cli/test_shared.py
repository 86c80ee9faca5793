from commands import CommandLine
from memories import new_agent


def test_what_one_agent_publishes_is_found_listed_and_retracted(memtend: CommandLine) -> None:
    agent = new_agent("teller")
    published = memtend.ok("shared", "publish", agent, "The lift is out of order", "--tag", "house", "--json").value
    again = memtend.ok("shared", "publish", agent, "The lift is out of order", "--json").value
    assert again == published

    (found,) = memtend.ok("shared", "search", "lift", "--json").value
    assert (found["id"], found["agent_id"]) == (published["id"], agent)
    assert found["metadata"]["tags"] == ["house"]
    assert "The lift is out of order" in memtend.ok("shared", "search").out
    assert memtend.ok("shared", "search", "--exclude-agent", agent, "--json").value == []
    assert memtend.ok("search", agent, "--json").value == []

    refused = memtend("shared", "retract", new_agent("thief"), published["id"])
    assert (refused.code, refused.out) == (1, "")
    assert published["id"] in refused.err
    memtend.ok("shared", "retract", agent, published["id"])
    assert memtend.ok("shared", "search", "lift", "--json").value == []

    first, second = memtend.ok("shared", "list", "--json").value[-2:]
    assert [each["kind"] for each in (first, second)] == ["publish", "retract"]
    assert first["text"] == "The lift is out of order"
    assert first["id"] == second["id"] == published["id"]
    at_first = memtend.ok("shared", "search", "--version", str(first["version"]), "--json").value
    assert [each["id"] for each in at_first] == [published["id"]]
    assert memtend.ok("shared", "list", "--after", str(first["version"]), "--json").value == [second]


def test_a_version_that_is_not_there_yet_is_refused(memtend: CommandLine) -> None:
    answer = memtend("shared", "search", "--version", "1000000")
    assert answer.code == 2
    assert "version: is 1000000" in answer.err
