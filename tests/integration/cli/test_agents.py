from support.command_line import CommandLine
from support.memories import new_agent


def test_an_agent_is_added_changed_and_listed(memtend: CommandLine) -> None:
    agent = new_agent()
    added = memtend.ok(
        "agents", "add", agent, "--role", "tester", "--interval", "weekly", "--max-memories", "50",
        "--retention-days", "90", "--retain", "working=14", "--level", "project", "--json",
    ).value  # fmt: skip
    assert added["retention_overrides"] == {"working": 14}
    assert added["next_due_at"] is not None
    changed = memtend.ok("agents", "set", agent, "--department", "lab", "--json").value
    assert changed == {**added, "department": "lab"}
    listed = {each["agent_id"]: each for each in memtend.ok("agents", "list", "--json").value}
    assert listed[agent] == changed
    assert agent in memtend.ok("agents", "list").out


def test_the_first_memory_makes_its_agent_known(memtend: CommandLine) -> None:
    agent = new_agent()
    memtend.ok("store", agent, "hello")
    listed = {each["agent_id"]: each for each in memtend.ok("agents", "list", "--json").value}
    assert listed[agent]["next_due_at"] is not None
    assert listed[agent]["paused"] is False


def test_a_paused_agent_is_listed_as_such(memtend: CommandLine) -> None:
    agent = new_agent()
    memtend.ok("agents", "add", agent)
    for command, paused in (("pause", True), ("resume", False)):
        memtend.ok("agents", command, agent)
        listed = {each["agent_id"]: each for each in memtend.ok("agents", "list", "--json").value}
        assert listed[agent]["paused"] is paused
