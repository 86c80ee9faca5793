"""Conversation memory beside a running stack: turns over the queue, mem0's add, records that stand apart."""

import pytest
from support.command_line import CommandLine
from support.memories import new_agent
from support.running_stack import StackAddress, wait_until

from memcore import Memory


def test_given_a_stack_when_an_engine_records_a_crisis_and_feedback_then_they_stand_apart_from_memory(
    stack: StackAddress, monkeypatch: pytest.MonkeyPatch, memtend: CommandLine
) -> None:
    monkeypatch.setenv("MEMTEND_HOME", str(stack.home))
    agent = new_agent("records")
    with Memory.from_environment() as memory:
        client = memory.client
        crisis = client.record_crisis(
            agent, session_id="s-1", user_id="mira", level="high", path="model", action="showed the hotline"
        )
        feedback = client.record_feedback(
            agent, session_id="s-1", user_id="mira", label="helpful", source="person", comment="thank you"
        )
        assert [each.state for each in memory.wait([crisis.job_id, feedback.job_id])] == ["done", "done"]
        memory.set_recall(agent, False, user_id="mira")  # noqa: FBT003  # a toggle, by the name of the call
        assert memory.load_turn(agent, "hotline", user_id="mira").entries() == ()
    shown = memtend.ok("conversation", "crises", "--agent", agent, "--json").value
    assert [each["action"] for each in shown] == ["showed the hotline"]
    shown = memtend.ok("conversation", "feedback", "--agent", agent, "--json").value
    assert [each["comment"] for each in shown] == ["thank you"]


def test_given_no_model_when_messages_are_added_then_they_are_kept_and_the_call_says_that_none_was_asked(
    stack: StackAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTEND_HOME", str(stack.home))
    agent = new_agent("adds")
    with Memory.from_environment() as memory:
        with pytest.raises(TimeoutError, match="no model"):
            memory.add("I live in Oslo.", agent_id=agent, user_id="mira", timeout_seconds=0.2)
        wait_until(
            lambda: memory.conversation_status(agent, user_id="mira").waiting_turns == 1, what="the turn to be recorded"
        )
