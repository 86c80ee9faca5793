"""MemtendSession beside the SDK's own session, and both parts in a run with a scripted model."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, Runner, Session, SQLiteSession, Usage, UserError, set_tracing_disabled
from agents.memory import SessionSettings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from support.fake_memory import AnyMemory, FakeClock, FakeMemory

from memcore.adapters.openai_agents import MemtendSession, memory_tools
from memcore.errors import MemoryConfigError, MemoryConnectionError, MemoryInputError

AGENT = "oncall"


def session_of(memory: AnyMemory, name: str = "thread-1", **how: Any) -> MemtendSession:
    return MemtendSession(name, memory=memory, agent_id=AGENT, clock=memory.clock, **how)


def said(text: Any, role: str = "user") -> Any:
    return {"role": role, "content": text}


def test_it_is_a_session_of_the_sdk(memory: AnyMemory) -> None:
    assert isinstance(session_of(memory), Session)


@pytest.mark.parametrize(
    "item",
    [
        said("hello"),
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi", "annotations": []}]},
        {"type": "function_call", "call_id": "1", "name": "search", "arguments": '{"query": "x"}'},
        {"type": "function_call_output", "call_id": "1", "output": "y" * 9_000},
        {"type": "function_call_output", "call_id": "1", "output": '"\\\n' * 60_000},
        said(" "),
        said("\0 \ud800 é"),
        {},
    ],
    ids=["text", "parts", "call", "large", "several memories", "blank", "odd characters", "empty"],
)
async def test_any_item_comes_back_exactly(memory: AnyMemory, item: Any) -> None:
    session = session_of(memory)
    await session.add_items([said("before"), item])
    assert await session.get_items() == [said("before"), item]
    assert await session_of(memory).pop_item() == item
    assert await session.get_items() == [said("before")]


@pytest.mark.parametrize(
    ("limit", "default", "texts"),
    [
        (None, None, ["a", "b", "c"]),
        (2, None, ["b", "c"]),
        (None, 1, ["c"]),
        (3, 1, ["a", "b", "c"]),
        (9, None, ["a", "b", "c"]),
        (0, None, []),
        (-1, None, ["a", "b", "c"]),
    ],
)
async def test_a_limit_keeps_the_last(
    memory: AnyMemory, limit: int | None, default: int | None, texts: list[str]
) -> None:
    session = session_of(memory, session_settings=SessionSettings(limit=default))
    await session.add_items([said(text) for text in "abc"])
    assert [item["content"] for item in await session.get_items(limit)] == texts  # type: ignore[typeddict-item]  # messages


async def test_what_another_caller_takes_meanwhile_is_not_given_twice(
    memory: AnyMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, other = session_of(memory), session_of(memory)
    await session.add_items([said("first"), said("last")])
    popped: list[Any] = []
    read = MemtendSession._read

    def read_late(self: MemtendSession) -> Any:
        found = read(self)
        if self is session:
            popped.append(other._pop())
        return found

    monkeypatch.setattr(MemtendSession, "_read", read_late)
    assert await session.pop_item() == said("first")
    assert popped == [said("last")]
    assert await session.pop_item() is None


async def test_sessions_agents_and_other_memories_are_apart(memory: AnyMemory) -> None:
    first, second = session_of(memory, "a"), session_of(memory, "b")
    other = MemtendSession("a", memory=memory, agent_id="other", clock=memory.clock)
    memory.put(AGENT, "A memory.")
    for session in (first, second, other):
        await session.add_items([said(session.session_id)])
    await first.clear_session()
    assert await first.get_items() == []
    assert await first.pop_item() is None
    assert await second.get_items() == [said("b")]
    assert await other.get_items() == [said("a")]
    assert len(memory.search(AGENT)) == 2


async def test_order_is_kept_when_the_clock_goes_back(memory: AnyMemory, clock: FakeClock) -> None:
    session = session_of(memory)
    await session.add_items([said("1"), said("2")])
    clock.move(hours=-1)
    await session.add_items([said("3")])
    again = session_of(memory)
    await again.get_items()
    await again.add_items([said("4")])
    assert [item["content"] for item in await again.get_items()] == ["1", "2", "3", "4"]  # type: ignore[typeddict-item]  # messages


async def test_what_several_add_at_once_is_all_kept(memory: AnyMemory) -> None:
    session = session_of(memory)
    await asyncio.gather(*(session.add_items([said(f"{n}a"), said(f"{n}b")]) for n in range(8)))
    texts = [item["content"] for item in await session.get_items()]  # type: ignore[typeddict-item]  # messages
    assert len(texts) == 16
    assert all(texts[texts.index(f"{n}a") + 1] == f"{n}b" for n in range(8))


async def test_an_item_that_was_not_written_whole_is_left_out(memory: AnyMemory) -> None:
    session = session_of(memory)
    await session.add_items([said("x" * 200_000), said("whole")])
    entry = next(each for each in memory.entries if each.attributes.get("part") == 2)
    memory.forget(AGENT, entry.id)
    assert await session.get_items() == [said("whole")]


async def test_what_is_no_json_is_refused_and_nothing_is_written(memory: AnyMemory) -> None:
    session = session_of(memory)
    with pytest.raises(MemoryInputError):
        await session.add_items([said("fine"), said({1, 2})])
    assert memory.entries == []
    with pytest.raises(MemoryInputError, match="session_id"):
        session_of(memory, "x" * 300)


CALLS = st.one_of(
    st.tuples(st.just("add"), st.lists(st.builds(said, st.text(max_size=4)), max_size=3)),
    st.tuples(st.just("pop"), st.none()),
    st.tuples(st.just("get"), st.one_of(st.none(), st.integers(0, 5))),
    st.tuples(st.sampled_from(["clear", "get", "add"]), st.just([said("x")])),
)


@given(st.lists(CALLS, max_size=12))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_calls_give_what_the_sdks_own_session_gives(calls: list[tuple[str, Any]]) -> None:
    async def results(session: Session) -> list[Any]:
        found: list[Any] = []
        for name, given_ in calls:
            match name:
                case "add":
                    await session.add_items(given_)
                case "pop":
                    found.append(await session.pop_item())
                case "get":
                    found.append(await session.get_items(given_ if isinstance(given_, int) else None))
                case "clear":
                    await session.clear_session()
        return found

    theirs = SQLiteSession("s")
    try:
        assert asyncio.run(results(session_of(FakeMemory()))) == asyncio.run(results(theirs))
    finally:
        theirs.close()


class Scripted(Model):
    """Answers each request with the next of its outputs, and keeps what it was sent."""

    def __init__(self, *outputs: Any) -> None:
        self.outputs = list(outputs)
        self.inputs: list[Any] = []

    async def get_response(self, *_given: Any, **named: Any) -> ModelResponse:
        self.inputs.append(json.loads(json.dumps(named["input"])))
        return ModelResponse(output=[self.outputs.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *_given: Any, **_named: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def message(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[content])


def call(name: str, arguments: str, call_id: str = "1") -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(type="function_call", call_id=call_id, name=name, arguments=arguments)


@pytest.fixture(autouse=True)
def _no_tracing() -> None:
    set_tracing_disabled(True)


async def test_a_run_sees_what_was_said_in_the_run_before(memory: AnyMemory) -> None:
    model = Scripted(message("noted"), message("blue"))
    agent = Agent(name="helper", model=model)
    await Runner.run(agent, "My colour is blue.", session=session_of(memory))
    result = await Runner.run(agent, "Which is it?", session=session_of(memory))
    assert result.final_output == "blue"
    assert [item["content"] for item in model.inputs[1] if item.get("role") == "user"] == [
        "My colour is blue.",
        "Which is it?",
    ]
    assert "user: My colour is blue." in [each.content for each in memory.search(AGENT)]


async def test_a_model_calls_the_tools(fake: FakeMemory) -> None:
    fake.put(AGENT, "The payment queue pages at 500 messages.")
    model = Scripted(
        call("search_memory", '{"query": "payment queue"}'),
        call("add_memory", '{"content": "Asked about paging."}', "2"),
        message("at 500"),
    )
    agent = Agent(name="helper", model=model, tools=memory_tools(fake, agent_id=AGENT, writes=True))
    result = await Runner.run(agent, "When does payments page?")
    assert result.final_output == "at 500"
    outputs = [item["output"] for item in model.inputs[-1] if item.get("type") == "function_call_output"]
    assert outputs == ["The payment queue pages at 500 messages.", "Kept."]
    assert "Asked about paging." in [each.content for each in fake.search(AGENT)]


def _away(*_given: object, **_named: object) -> str:
    raise MemoryConnectionError("10.0.0.7:6333 does not answer")


@pytest.mark.parametrize(
    ("arguments", "answer", "reply"),
    [
        ('{"content": " "}', None, "Error: content: must not be blank"),
        ("[]", None, "Error: the arguments must be a JSON object."),
        ("{", None, "Error: the arguments must be a JSON object."),
        ('{"content": "x"}', _away, "Error: memory cannot be used now (MemoryConnectionError)."),
    ],
)
async def test_what_goes_wrong_is_said_to_the_model(
    fake: FakeMemory,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    answer: Callable[..., str] | None,
    reply: str,
) -> None:
    if answer is not None:
        monkeypatch.setattr(fake, "call_tool", answer)
    model = Scripted(call("add_memory", arguments), message("sorry"))
    agent = Agent(name="helper", model=model, tools=memory_tools(fake, agent_id=AGENT, writes=True))
    assert (await Runner.run(agent, "Keep it.")).final_output == "sorry"
    assert model.inputs[-1][-1]["output"] == reply


def test_tools_that_change_memories_are_asked_for(fake: FakeMemory) -> None:
    assert [tool.name for tool in memory_tools(fake, agent_id=AGENT)] == ["search_memory"]


async def test_a_wrong_configuration_ends_the_run(fake: FakeMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    def call_tool(*_given: object, **_named: object) -> str:
        raise MemoryConfigError("memory.retrieval.strategy: is wrong")

    monkeypatch.setattr(fake, "call_tool", call_tool)
    model = Scripted(call("search_memory", "{}"), message("sorry"))
    with pytest.raises(UserError, match="strategy: is wrong"):
        await Runner.run(Agent(name="helper", model=model, tools=memory_tools(fake, agent_id=AGENT)), "Find it.")
