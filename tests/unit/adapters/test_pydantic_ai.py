"""MemtendToolset in an agent of pydantic-ai with its models for tests."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import Agent, ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from support.fake_memory import TOOLS, FakeMemory
from support.present import present

from memcore.adapters.pydantic_ai import MemtendToolset
from memcore.errors import MemoryConfigError, MemoryConnectionError

AGENT = "oncall"


def toolset_of(memory: FakeMemory, **how: Any) -> MemtendToolset:
    return MemtendToolset(memory, agent_id=AGENT, **{"writes": True, **how})


def scripted(*calls: ToolCallPart) -> tuple[FunctionModel, list[ModelMessage]]:
    """Return a model that makes these calls, then answers; and the list of the messages that it is sent last."""
    left, seen = list(calls), list[ModelMessage]()

    def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        seen[:] = messages
        return ModelResponse(parts=[left.pop(0) if left else TextPart("done")])

    return FunctionModel(answer), seen


def parts(messages: list[ModelMessage], kind: type[Any]) -> list[Any]:
    return [
        part for each in messages if isinstance(each, ModelRequest) for part in each.parts if isinstance(part, kind)
    ]


async def test_the_model_sees_every_tool_with_its_schema(fake: FakeMemory) -> None:
    model = TestModel(call_tools=[])
    await Agent(model, toolsets=[toolset_of(fake)]).run("hello")
    shown = present(model.last_model_request_parameters).function_tools
    assert [(each.name, each.description, each.parameters_json_schema) for each in shown] == [
        (each.name, each.description, each.parameters) for each in TOOLS
    ]


async def test_every_tool_can_be_called(fake: FakeMemory) -> None:
    result = await Agent(TestModel(), toolsets=[toolset_of(fake)]).run("hello")
    assert "add_memory" in result.output
    assert len(fake.search(AGENT)) == 1


async def test_a_call_reads_and_writes_the_agents_memories(fake: FakeMemory) -> None:
    fake.put(AGENT, "The payment queue pages at 500 messages.")
    fake.put("other", "The payment queue of another agent.")
    model, seen = scripted(
        ToolCallPart("search_memory", {"query": "payment queue"}), ToolCallPart("add_memory", {"content": "Asked."})
    )
    result = await Agent(model, toolsets=[toolset_of(fake)]).run("hello")
    assert result.output == "done"
    assert [part.content for part in parts(seen, ToolReturnPart)] == [
        "The payment queue pages at 500 messages.",
        "Kept.",
    ]


async def test_wrong_arguments_are_an_answer_that_the_model_reads(fake: FakeMemory) -> None:
    model, seen = scripted(ToolCallPart("add_memory", {"content": " "}), ToolCallPart("add_memory", {"content": "x"}))
    await Agent(model, toolsets=[toolset_of(fake)]).run("hello")
    answers = [part.content for part in parts(seen, ToolReturnPart)]
    assert answers == ["Error: content: must not be blank", "Kept."]
    assert [each.content for each in fake.search(AGENT)] == ["x"]


async def test_tools_that_change_memories_are_asked_for(fake: FakeMemory) -> None:
    model, seen = scripted(ToolCallPart("search_memory", {"query": "x"}))
    await Agent(model, toolsets=[toolset_of(fake, writes=False)]).run("hello")
    assert [part.content for part in parts(seen, ToolReturnPart)] == ["Nothing is known."]
    reading = TestModel(call_tools=[])
    await Agent(reading, toolsets=[toolset_of(fake, writes=False)]).run("hello")
    assert [each.name for each in present(reading.last_model_request_parameters).function_tools] == ["search_memory"]


def _raising(error: Exception) -> Callable[..., str]:
    def call(*_given: object, **_named: object) -> str:
        raise error

    return call


async def test_memory_that_is_away_does_not_end_the_run(fake: FakeMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake, "call_tool", _raising(MemoryConnectionError("10.0.0.7:6333 does not answer")))
    model, seen = scripted(ToolCallPart("add_memory", {"content": "x"}))
    assert (await Agent(model, toolsets=[toolset_of(fake)]).run("hello")).output == "done"
    answers = [part.content for part in parts(seen, ToolReturnPart)]
    assert answers == ["Error: memory cannot be used now (MemoryConnectionError)."]


async def test_a_wrong_configuration_ends_the_run(fake: FakeMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake, "call_tool", _raising(MemoryConfigError("memory.retrieval.strategy: is wrong")))
    model, _ = scripted(ToolCallPart("add_memory", {"content": "x"}))
    with pytest.raises(MemoryConfigError):
        await Agent(model, toolsets=[toolset_of(fake)]).run("hello")


def test_its_id_is_the_one_that_was_given(fake: FakeMemory) -> None:
    assert toolset_of(fake).id is None
    assert toolset_of(fake, toolset_id="memory").id == "memory"
