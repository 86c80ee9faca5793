"""Levels and their ends on a running stack: through client, broker, worker, store, journal, and back."""

import asyncio

import pytest
from support.command_line import CommandLine
from support.memories import new_agent
from support.running_stack import StackAddress, wait_until

from memcore import AsyncMemoryClient, JobState, MemoryCategory, MemoryClient, MemoryStoreRequest, Scope
from memcore.errors import MemoryInputError


def texts(memtend: CommandLine, agent: str, *words: str) -> set[str]:
    return {row["text"] for row in memtend.ok("search", agent, *words, "--json").value}


def test_a_session_ends_in_search_and_in_the_journal_and_an_undo_brings_it_back(memtend: CommandLine) -> None:
    agent = new_agent()
    memtend.ok("agents", "add", agent, "--level", "session")
    memtend.ok("store", agent, "The harbour opens at six", "--session", "mon")
    memtend.ok("store", agent, "The harbour closes at nine", "--session", "tue")

    run = memtend.ok("end", "session", agent, "mon", "--json").value

    assert (run["kind"], run["scope_id"], run["state"], run["counts"]) == ("end_session", "mon", "done", {"ended": 1})
    assert texts(memtend, agent, "harbour") == {"The harbour closes at nine"}
    (journal_entry,) = memtend.ok("runs", "show", run["run_id"], "--json").value["bookings"]
    assert (journal_entry["reason"], len(journal_entry["removed"])) == ("ended", 1)

    memtend.ok("runs", "undo", run["run_id"])

    assert texts(memtend, agent, "harbour") == {"The harbour opens at six", "The harbour closes at nine"}


def test_projects_and_tasks_end_too(memtend: CommandLine) -> None:
    agent = new_agent()
    memtend.ok("agents", "add", agent, "--level", "project")
    memtend.ok("store", agent, "The bridge has two lanes", "--project", "bridge", "--task", "survey")
    memtend.ok(
        "store", agent, "Measuring pier four", "--category", "working", "--project", "bridge", "--task", "survey"
    )

    assert memtend.ok("end", "task", agent, "survey", "--json").value["counts"] == {"ended": 1}
    assert texts(memtend, agent) == {"The bridge has two lanes"}
    assert "end_project" in memtend.ok("end", "project", agent, "bridge").out
    assert texts(memtend, agent) == set()


def test_an_end_waits_while_maintenance_is_paused(memtend: CommandLine) -> None:
    agent = new_agent()
    memtend.ok("agents", "add", agent, "--level", "session")
    memtend.ok("store", agent, "Noted in passing", "--session", "s")
    memtend.ok("agents", "pause", agent)

    asked = memtend.ok("end", "session", agent, "s", "--json")

    assert "paused" in asked.err
    run_id = asked.value["run_id"]
    wait_until(lambda: memtend("runs", "show", run_id, "--json").code == 0, what="the run's row")
    assert texts(memtend, agent) == {"Noted in passing"}
    memtend.ok("agents", "resume", agent)
    wait_until(lambda: texts(memtend, agent) == set(), what="the end")


def test_an_agent_of_level_none_keeps_nothing_and_says_so(memtend: CommandLine, stack: StackAddress) -> None:
    agent = new_agent()
    memtend.ok("agents", "add", agent, "--level", "none")

    answer = memtend("store", agent, "Nobody will remember this")

    assert answer.code == 1
    assert "nothing was stored: level none" in answer.err
    assert texts(memtend, agent) == set()
    with MemoryClient.from_settings(stack.settings) as client:
        request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="Nor this")
        receipt = client.store(agent, request)
        (status,) = client.wait(receipt.job_ids, timeout_seconds=600)
    assert status.state is JobState.SKIPPED
    assert status.reason == "level none: no memories are kept for this agent"


def test_a_memory_that_would_never_end_is_kept_aside_until_somebody_decides(memtend: CommandLine) -> None:
    agent = new_agent()
    memtend.ok("agents", "add", agent, "--level", "session")

    answer = memtend("store", agent, "The key lies under the mat")

    assert answer.code == 1
    assert "session_id is missing" in answer.err
    (letter,) = [row for row in memtend.ok("dead", "list", "--json").value if "session_id" in row["reason"]]
    memtend.ok("agents", "set", agent, "--level", "persistent")
    memtend.ok("dead", "replay", letter["job_id"])
    wait_until(lambda: texts(memtend, agent) == {"The key lies under the mat"}, what="the replayed memory")


def test_the_company_says_session_and_the_client_refuses_what_names_none(
    memtend: CommandLine, stack: StackAddress
) -> None:
    agent, stayer = new_agent(), new_agent()
    memtend.ok("agents", "add", stayer, "--level", "persistent")
    policy = stack.home / "of-sessions.yaml"
    policy.write_text("memory: {level: session}")
    settings = stack.settings.model_copy(update={"policy_path": policy})
    request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="Said once")

    async def talk() -> None:
        async with AsyncMemoryClient.from_settings(settings) as client:
            with pytest.raises(MemoryInputError, match="session_id: is missing"):
                await client.store(agent, request)
            receipts = [
                await client.store(agent, request, scope=Scope(session_id="s")),
                await client.store(stayer, request),
            ]
            async for status in client.wait([job for each in receipts for job in each.job_ids], timeout_seconds=600):
                assert status.state is JobState.DONE
            end = await client.end_session(agent, "s")
            ended.extend([status.facts async for status in client.wait([end.job_id], timeout_seconds=600)])

    ended: list[dict[str, int]] = []
    asyncio.run(talk())
    assert ended == [{"ended": 0}], "this stack's policy says persistent, and the agent has no level of its own"
