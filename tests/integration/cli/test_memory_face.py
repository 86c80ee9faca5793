"""Memory and AsyncMemory beside a running stack: what one stores over the queue, the other finds."""

import asyncio

import pytest
from support.command_line import CommandLine
from support.execution_traces import trace
from support.job_contexts import keeping_questions
from support.memories import new_agent
from support.running_stack import StackAddress, wait_until

from memcore import AsyncMemory, Memory, Policy


def test_given_a_running_stack_when_a_text_is_stored_then_it_is_found_and_prepared(
    stack: StackAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTEND_HOME", str(stack.home))
    agent = new_agent("face")

    with Memory.from_environment() as memory:
        receipt = memory.store(agent, "The payment queue pages at 500 messages.", tags=["payments"])
        bulk = memory.store_many(agent, ["Deploys are frozen on Fridays.", "The printer jams on Mondays."])
        ended = memory.wait([*receipt.job_ids, *bulk.job_ids])
        assert [status.state for status in ended] == ["done", "done"]

        found = memory.search(agent, "when does payments page?", limit=1)
        assert [entry.id for entry in found] == list(receipt.memory_ids)
        assert memory.search(agent, tags=["payments"]) == (memory.get(agent, receipt.memory_ids[0]),)
        assert memory.search(agent, "quantum chromodynamics") == ()
        messages = memory.prepare(agent, "when does payments page?", token_budget=400)
        assert "pages at 500 messages" in messages[-1].content

        distilled = memory.distill(agent, trace("t-1"))
        assert distilled is not None
        assert [status.state for status in memory.wait(distilled)] == ["done"]
        assert memory.get(agent, distilled.trace_id) is not None

    async def engine() -> None:
        async with AsyncMemory.from_environment() as later:
            again = await later.store(agent, "The payment queue pages at 500 messages.")
            assert again.memory_ids == receipt.memory_ids
            assert [status.state for status in await later.wait(again)] == ["done"]
            (same,) = await later.search(agent, "when does payments page?", limit=1)
            assert same.id == found[0].id

    asyncio.run(engine())


def test_given_a_policy_that_keeps_questions_when_an_agent_asks_then_a_person_sees_and_deletes_them(
    stack: StackAddress, memtend: CommandLine
) -> None:
    agent, settings = new_agent("asks"), stack.settings
    without = new_agent("is not recorded")
    own_policy = stack.home / "policies" / f"{settings.company}.yaml"

    def questions(agent: str) -> list[str]:
        return [each["question"] for each in memtend.ok("agents", "questions", agent, "--json").value]

    def ask(agent: str, policy: Policy) -> None:
        with Memory.from_settings(settings, policy) as memory:
            memory.wait(memory.store(agent, "The payment queue pages at 500 messages."))
            for question in ("when does payments page?", "quantum chromodynamics"):
                memory.search(agent, question)
            memory.prepare(agent, "which queue pages at 500 messages?", token_budget=400)

    def asked_again() -> bool:
        # Workers look at a policy every few seconds; until then they keep no question.
        ask(without, Policy())
        ask(agent, keeping_questions())
        return bool(questions(agent))

    own_policy.parent.mkdir(exist_ok=True)
    own_policy.write_text("memory: {retrieval: {record_queries: true}}")
    try:
        wait_until(asked_again, what="the questions")
        assert set(questions(agent)) == {"when does payments page?", "which queue pages at 500 messages?"}
        assert "when does payments page?" in memtend.ok("agents", "questions", agent).out
        assert memtend.ok("agents", "questions", agent, "--forget", "--json").value == {"deleted": 2}
        assert questions(without) == []
    finally:
        own_policy.unlink()
