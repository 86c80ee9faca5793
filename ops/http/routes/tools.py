"""Tools of agents, for engines that call them over HTTP: their definitions, and a call as a model asks for it."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from pydantic import Field

from memcore.errors import MemoryNotFoundError
from memcore.ledger.access.keys import Verb
from memcore.models.base import Frozen
from memcore.models.execution import ToolDefinition
from memcore.models.memory import MAX_KEY_CHARS, require_agent_id
from memcore.retrieval.strategies.tools import ERROR
from ops.http.access import CurrentCaller
from ops.http.context import Service
from ops.http.problems import MemoryForbiddenError

router = APIRouter(prefix="/v1/agents/{agent_id}", tags=["tools"])


class ToolList(Frozen):
    """The tools that the key may call for the agent."""

    tools: tuple[ToolDefinition, ...]


class ToolCall(Frozen):
    """A call as a model asks for it.

    Attributes:
        name: of the tool.
        arguments: as the tool's schema says.
    """

    name: str = Field(min_length=1, max_length=64)
    arguments: dict[str, Any] = Field(default_factory=dict)


class ToolAnswer(Frozen):
    """What the model is shown.

    Attributes:
        text: memories stand in fences; of a call that failed, a sentence that begins with ``Error:``.
        is_error: whether the call failed.
    """

    text: str
    is_error: bool


async def tools_of(
    agent_id: Annotated[str, Path(min_length=1, max_length=MAX_KEY_CHARS, description="The agent's id.")],
    caller: CurrentCaller,
    service: Service,
) -> tuple[ToolDefinition, ...]:
    """Return the tools that the key may call for the agent; a dependency."""
    if not caller.sees(require_agent_id(agent_id)):
        raise MemoryForbiddenError("the key is not for this agent")
    if not caller.verbs & {Verb.READ, Verb.WRITE}:
        raise MemoryForbiddenError(f"the key is not for the verb {Verb.READ}")
    known = await service.engine.tools(writes=True)
    return tuple(each for each in known if (Verb.READ if each.read_only else Verb.WRITE) in caller.verbs)


#: The tools that the key may call for the agent of the path.
Tools = Annotated[tuple[ToolDefinition, ...], Depends(tools_of)]


@router.get("/tools")
async def definitions(tools: Tools) -> ToolList:
    """Return the tools for the agent's model: JSON schemas, and which of them change or remove memories."""
    return ToolList(tools=tools)


@router.post("/tools")
async def call(agent_id: str, body: ToolCall, tools: Tools, service: Service) -> ToolAnswer:
    """Call a tool for the agent. A wrong argument is an answer for the model, too: its text says what to change."""
    if all(each.name != body.name for each in tools):
        raise MemoryNotFoundError("name: names no tool that the key may call")
    text = await service.engine.call_tool(agent_id, body.name, body.arguments, writes=True)
    return ToolAnswer(text=text, is_error=text.startswith(ERROR))
