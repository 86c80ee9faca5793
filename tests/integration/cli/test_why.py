"""Why a memory is there or gone, asked on the command line."""

import json
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from support.command_line import CommandLine
from support.memories import new_agent
from support.running_stack import StackAddress

#: Old enough to be merged, and young enough to be kept by the rule that ``add`` sets.
OLD = datetime.now(UTC) - timedelta(days=60)


@pytest.fixture(scope="module")
def maintenance_run(stack: StackAddress) -> tuple[str, str]:
    """An agent whose memories were merged, and the run that did it."""
    memtend, agent = CommandLine(home=stack.home), new_agent()
    memtend.ok("agents", "add", agent, "--interval", "never", "--retain", "working=1")
    lines = [
        {
            "agent_id": agent,
            "category": "episodic",
            "content": f"the pump of {agent} has part number seven{'!' * number}",
            "created_at": (OLD + timedelta(hours=number)).isoformat(),
        }
        for number in range(5)
    ]
    memtend.ok("import", "-", stdin="\n".join(map(json.dumps, lines)).encode())
    run = memtend.ok("maintain", agent, "--allow-large", "--json").value
    assert run["state"] == "done"
    return agent, run["run_id"]


def test_a_run_names_its_summaries_with_their_originals(memtend: CommandLine, maintenance_run: tuple[str, str]) -> None:
    shown = memtend.ok("runs", "show", maintenance_run[1], "--json").value
    ((summary_id, originals),) = shown["summaries"].items()
    assert len(originals) == 5
    plain = memtend.ok("runs", "show", maintenance_run[1]).out
    assert f"summary {summary_id} of 5 memories" in plain
    assert all(each in plain for each in originals)


def test_a_summary_is_followed_to_its_originals_and_back(
    memtend: CommandLine, maintenance_run: tuple[str, str]
) -> None:
    agent, run_id = maintenance_run
    ((summary_id, originals),) = memtend.ok("runs", "show", run_id, "--json").value["summaries"].items()

    memory_history = memtend.ok("why", summary_id, "--json").value

    assert (memory_history["agent_id"], memory_history["originals"]) == (agent, originals)
    assert {each["text"] for each in memory_history["memories"]} == {None}
    tree = memtend.ok("why", summary_id).out
    assert f"{summary_id}  live: made by run {run_id} at" in tree
    assert f"created by run {run_id} (maintenance, manual): it stands for others" in tree
    assert all(f"{each}  replaced by summary {summary_id}" in tree for each in originals)
    assert "full text in the " in tree
    assert "part number" not in tree
    assert "has part number seven" in memtend.ok("why", summary_id, "--text").out
    back = memtend.ok("why", originals[0], "--json").value
    assert back["summaries"] == [summary_id]
    assert f"{summary_id}  live" in memtend.ok("why", originals[0]).out


def test_an_old_version_names_the_one_that_is_there_now(memtend: CommandLine) -> None:
    agent = new_agent()
    old = memtend.ok("store", agent, "the desk is in hall 1", "--json").value["id"]
    new = memtend.ok("update", agent, old, "--content", "the desk is in hall 2", "--json").value["id"]
    tree = memtend.ok("why", old).out
    assert f"{old}  replaced by version {new}, by run" in tree
    assert f"{new}  live: made by run" in tree
    assert f"{old}  replaced by version {new}" in memtend.ok("why", new).out


def unwrapped(tree: str) -> str:
    return " ".join(tree.replace("│", " ").split())


def test_an_undo_is_told(memtend: CommandLine, maintenance_run: tuple[str, str]) -> None:
    _, run_id = maintenance_run
    ((summary_id, originals),) = memtend.ok("runs", "show", run_id, "--json").value["summaries"].items()
    undo = memtend.ok("runs", "undo", run_id, "--json").value
    shown = memtend.ok("why", originals[0]).out
    assert f"live: brought back by run {undo['run_id']} at" in shown
    assert f"restored by run {undo['run_id']} (undo, manual, of run {run_id})" in shown
    assert f"run {run_id} was taken back" in memtend.ok("why", summary_id).out
    again = memtend.ok("runs", "undo", undo["run_id"], "--json").value
    assert memtend.ok("why", originals[0], "--json").value["memories"][0]["state"] == "replaced"
    assert f"run {run_id} counts again" in unwrapped(memtend.ok("why", originals[0]).out)
    memtend.ok("runs", "undo", again["run_id"])
    explained = unwrapped(memtend.ok("why", originals[0]).out)
    assert f"of run {again['run_id']}, which undid run {undo['run_id']}, which undid run {run_id})" in explained


def test_a_memory_that_no_run_has_moved_is_found_with_its_agent(memtend: CommandLine) -> None:
    agent = new_agent()
    stored = memtend.ok("store", agent, "a fact that nobody has touched", "--json").value
    alone = memtend("why", stored["id"])
    assert (alone.code, alone.out) == (1, "")
    assert alone.err == (
        "memtend: memory_id: names no memory that a run has moved in the days that are known (memory.records); "
        "name its agent, to look for it in the store\n"
    )
    assert "an agent stored it, and no run has moved it" in memtend.ok("why", stored["id"], "--agent", agent).out


def test_an_unknown_id_and_another_agents_memory_are_one_sentence(
    memtend: CommandLine, maintenance_run: tuple[str, str]
) -> None:
    ((summary_id, _),) = memtend.ok("runs", "show", maintenance_run[1], "--json").value["summaries"].items()
    for words in (
        (str(uuid.uuid4()),),
        ("nonsense",),
        ("nonsense", "--agent", maintenance_run[0]),
        (summary_id, "--agent", new_agent()),
    ):
        answer = memtend("why", *words)
        assert (answer.code, answer.out) == (1, "")
        assert answer.err.count("\n") == 1
        assert answer.err.startswith("memtend: memory_id: names no memory")
