"""The snippets of docs/how-to/use-with-frameworks.md run as they stand."""

import asyncio
from collections.abc import Iterator
from typing import Any, TypedDict

import httpx2
import pytest
from agents import Model, ModelResponse, Usage, set_tracing_disabled
from anthropic import Anthropic
from langgraph.graph import START, StateGraph
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from pydantic_ai.models.test import TestModel
from reference.markdown import DOCS, blocks
from support.fake_memory import FakeMemory

SNIPPETS = tuple(blocks(DOCS / "how-to" / "use-with-frameworks.md", "python"))


class State(TypedDict):
    text: str


class Answering(Model):
    async def get_response(self, *_given: Any, **_named: Any) -> ModelResponse:
        content = ResponseOutputText(text="done", type="output_text", annotations=[])
        message = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[content])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_given: Any, **_named: Any) -> Any:
        raise NotImplementedError


def run(snippet: str, **names: Any) -> dict[str, Any]:
    found = dict(names)
    exec(compile(snippet, "the page", "exec"), found)  # noqa: S102  # it is a page of this repository
    return found


def snippet(part: str) -> str:
    (found,) = [each for each in SNIPPETS if part in each]
    return found


def test_there_are_five() -> None:
    assert len(SNIPPETS) == 5


def test_langgraph(fake: FakeMemory) -> None:
    builder = StateGraph(State)
    builder.add_node("echo", lambda state: state)
    builder.add_edge(START, "echo")
    found = run(snippet("MemtendStore"), memory=fake, builder=builder)
    assert [each.key for each in found["found"]] == ["tea"]
    assert found["graph"].invoke({"text": "x"}) == {"text": "x"}


def test_langchain(fake: FakeMemory) -> None:
    fake.put("oncall", "Payments pages at 500 messages.", namespace="runbooks")
    found = run(snippet("MemtendRetriever"), memory=fake)
    assert [each.page_content for each in found["documents"]] == ["Payments pages at 500 messages."]


@pytest.fixture
def loop() -> Iterator[None]:
    """The calls that block leave the loop that they run in to the process."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield
    made.run_until_complete(made.shutdown_default_executor())
    made.close()
    asyncio.set_event_loop(None)


@pytest.mark.usefixtures("loop")
def test_openai_agents(fake: FakeMemory) -> None:
    set_tracing_disabled(True)
    assert run(snippet("MemtendSession"), memory=fake, model=Answering())["result"].final_output == "done"
    assert len(fake.search("oncall")) == 2


@pytest.mark.usefixtures("loop")
def test_pydantic_ai(fake: FakeMemory) -> None:
    found = run(snippet("MemtendToolset"), memory=fake, model=TestModel())
    assert "search_memory" in found["result"].output


def test_anthropic(fake: FakeMemory) -> None:
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "done"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    transport = httpx2.MockTransport(lambda _request: httpx2.Response(200, json=body))
    with Anthropic(api_key="x", http_client=httpx2.Client(transport=transport)) as client:
        messages = [{"role": "user", "content": "hello"}]
        found = run(snippet("MemtendMemoryTool"), memory=fake, client=client, model="m", messages=messages)
    assert found["answer"].content[0].text == "done"
