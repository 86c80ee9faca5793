"""Memory and AsyncMemory beside a running stack: what one stores over the queue, the other finds."""

import asyncio
from contextlib import closing

import pytest
from support.command_line import CommandLine
from support.execution_traces import trace
from support.job_contexts import keeping_questions
from support.kept_conversations import fact, keep, owner
from support.memories import new_agent
from support.present import present
from support.running_stack import StackAddress, wait_until

from memcore import AsyncMemory, Memory, Policy
from memcore.backends.protocol import vector_backend_of
from memcore.clock import utc_now
from memcore.ledger.conversation.memory import Embedded
from memcore.ledger.ledger import Ledger
from memcore.memory.reader import open_shared_backend


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

        distilled = present(memory.distill(agent, trace("t-1")))
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


def test_given_what_is_kept_of_a_person_when_a_turn_begins_then_it_is_loaded_by_meaning(
    stack: StackAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTEND_HOME", str(stack.home))
    settings, whose = stack.settings, owner(new_agent("face"))
    # No word of the question stands in the fact, whose vector is as near as can be.
    question, kept = "the boss yells, and all are upset", fact("f", "my manager shouts", at=utc_now())

    async def vector() -> Embedded:
        backend = present(vector_backend_of(open_shared_backend(settings, Policy())))
        await backend.connect()
        try:
            (row,) = await backend.query_vectors([question])
            return Embedded(backend.vector_space or "", row)
        finally:
            await backend.disconnect()

    with closing(Ledger.open(settings.ledger_urls)) as ledger:
        keep(ledger, whose, kept, vectors={"f": asyncio.run(vector())}, company=settings.company)

    with Memory.from_environment() as memory:
        context = memory.load_turn(whose.agent_id, question, user_id="ada")
        assert ([each.fact_id for each in context.facts], context.reasons) == (["f"], ())
        assert memory.load_turn(whose.agent_id, question, user_id="grace").facts == ()

    async def engine() -> None:
        async with AsyncMemory.from_environment() as later:
            assert await later.load_turn(whose.agent_id, question, user_id="ada") == context

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
