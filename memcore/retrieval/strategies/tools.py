"""Tools that agents call: one definition for every interface, checked arguments, errors as text, results in fences."""

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, Field, ValidationError

from memcore.errors import (
    MemoryCapabilityError,
    MemoryConflictError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
    MemoryNotFoundError,
)
from memcore.models.base import UNSEEN, Frozen, NotBlankStr
from memcore.models.execution import ToolDefinition
from memcore.models.memory import MAX_KEY_CHARS, MemoryCategory, require_agent_id
from memcore.retrieval.formatting import BETWEEN_MEMORIES, memory_blocks
from memcore.retrieval.protocol import ScoredMemory, fatal_in
from memcore.retrieval.strategies.arguments import arguments_of
from memcore.telemetry.events import Event
from memcore.untrusted_text import REFERENCE_DIRECTIVE, TAG_MEMORY_ENTRY, escaped, untrusted_content_directive

#: What every error begins with.
ERROR = "Error:"

#: The answer where memory cannot be reached, which another call may change.
UNAVAILABLE = f"{ERROR} memory is temporarily unavailable; go on without it, or try again later."

_UNEXPECTED = f"{ERROR} unexpected error; go on without this tool."

#: Most tokens of a tool's results, by the estimator of the strategy.
RESULT_TOKENS = 4_000

#: Tokens of a memory's id in its tag, which the packing does not count.
ID_TOKENS = 13

#: Longest question, in characters; the embedder reads no more of one.
MAX_QUERY_CHARS = 4_000

#: Most arguments in a JSON text, in bytes: a memory of the largest size, each byte of it escaped.
_MAX_ARGUMENTS = 1_048_576

#: Most unknown names that an answer repeats, and the longest each, in characters.
_NAMED, _NAMED_CHARS = 5, 40

#: Most problems that an answer about wrong arguments names.
_PROBLEMS = 3

_log = logging.getLogger(__name__)


class ToolRefusedError(Exception):
    """The call is refused for a reason that the agent is given: one sentence, without a word of any memory."""


class UnavailableError(Exception):
    """Nothing was found, and a part of the search failed."""


def _unicode(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode text") from None
    return text


#: What an agent looks for.
Query = Annotated[NotBlankStr, Field(max_length=MAX_QUERY_CHARS), AfterValidator(_unicode)]

#: The id of a memory as results show it.
MemoryId = Annotated[NotBlankStr, Field(max_length=MAX_KEY_CHARS), AfterValidator(_unicode)]

#: Categories by name; unknown ones are named in the answer, and left out.
CategoryNames = Annotated[
    tuple[str, ...],
    Field(
        max_length=32, json_schema_extra={"items": {"type": "string", "enum": [str(each) for each in MemoryCategory]}}
    ),
]

#: The least authority of what is shown.
LeastAuthority = Annotated[
    Literal["instruct", "inform", "reference"] | None,
    Field(description="Only what is trusted this much: instruct, of a person; inform, of agents too; reference, all."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool: what agents see of it, the form of its arguments, and what it does."""

    definition: ToolDefinition
    arguments: type[Frozen]
    run: Callable[[str, Any], Awaitable[str]]


def tool(
    name: str,
    description: str,
    arguments: type[Frozen],
    run: Callable[[str, Any], Awaitable[str]],
    *,
    read_only: bool = False,
    destructive: bool = False,
) -> Tool:
    """Return a tool whose JSON schema is that of its arguments."""
    definition = ToolDefinition(
        name=name,
        description=description,
        parameters=_plain(arguments.model_json_schema()),
        read_only=read_only,
        destructive=destructive,
    )
    return Tool(definition=definition, arguments=arguments, run=run)


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in the words that every model's API knows: no titles, no defaults of null."""
    properties = {
        name: {
            key: value for key, value in _inlined(each).items() if key != "title" and (key, value) != ("default", None)
        }
        for name, each in cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {})).items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(schema.get("required", ())),
        "additionalProperties": False,
    }


def _inlined(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a property without the choice of null, which some APIs refuse: it is left out instead."""
    options = [each for each in given.get("anyOf", ()) if each.get("type") != "null"]
    rest = {key: value for key, value in given.items() if key != "anyOf"}
    return {**options[0], **rest} if len(options) == 1 else dict(given)


class AgentTools:
    """The tools of one strategy or server: definitions and calls. Raises ValueError for a name given twice.

    ``call`` never raises for a memory's sake: what goes wrong becomes a text that begins with ``Error:``.
    Python's own MemoryError and RecursionError pass.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        given = tuple(tools)
        self._tools = {each.definition.name: each for each in given}
        if len(self._tools) != len(given):
            raise ValueError("two tools have one name")

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return what agents see of the tools."""
        return tuple(each.definition for each in self._tools.values())

    def only(self, names: Iterable[str]) -> "AgentTools":
        """Return those of these names, in this object's order."""
        wanted = frozenset(names)
        return AgentTools(each for name, each in self._tools.items() if name in wanted)

    def __add__(self, other: "AgentTools") -> "AgentTools":
        more = (each for name, each in other._tools.items() if name not in self._tools)
        return AgentTools((*self._tools.values(), *more))

    async def call(self, agent_id: str, name: str, arguments: Mapping[str, Any] | str | None = None) -> str:
        """Call a tool for an agent and return its answer; arguments are a mapping, or the JSON text of a model.

        Raises MemoryInputError for what is no agent's id: that is no mistake of the model's.
        """
        require_agent_id(agent_id)
        called = self._tools.get(name)
        if called is None:
            return f"{ERROR} there is no tool of this name; the tools are {', '.join(self._tools)}."
        try:
            given, passed_over = arguments_of(
                called.arguments, _mapping(arguments), is_strict=called.definition.destructive
            )
            answer = await called.run(agent_id, called.arguments.model_validate(given))
        except Exception as error:  # noqa: BLE001  # whatever fails, an agent goes on: see _error_text
            return _error_text(error, tool_name=name, agent_id=agent_id)
        _log.debug(Event.MEMORY_TOOL_CALLED, extra={"tool": name, "agent_id": agent_id})
        return f"{answer}\n\nArguments that were passed over: {named(passed_over)}." if passed_over else answer


class OfTools:
    """What the strategies that give an agent tools have in common."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = AgentTools(tools)

    @property
    def tools(self) -> AgentTools:
        """The strategy's tools."""
        return self._tools

    def get_tool_definitions(self) -> tuple[ToolDefinition, ...]:
        return self._tools.definitions()

    async def handle_tool_call(self, agent_id: str, tool_name: str, arguments: Any) -> str:
        """Return the answer of a tool; an error is a text that begins with ``Error:``."""
        return await self._tools.call(agent_id, tool_name, arguments)


def _mapping(arguments: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    if isinstance(arguments, str):
        arguments = _parsed(arguments)
    if not isinstance(arguments, Mapping | None):
        raise MemoryInputError("arguments", "must be a JSON object")
    return {str(name): value for name, value in (arguments or {}).items()}


def _parsed(text: str) -> Mapping[str, Any]:
    if len(text) > _MAX_ARGUMENTS:
        raise MemoryInputError("arguments", f"have more than {_MAX_ARGUMENTS} characters")
    try:
        given = json.loads(text or "{}")
    except (ValueError, RecursionError):
        raise MemoryInputError("arguments", "must be a JSON object") from None
    if not isinstance(given, dict):
        raise MemoryInputError("arguments", "must be a JSON object")
    return cast("Mapping[str, Any]", given)


def _error_text(error: Exception, *, tool_name: str, agent_id: str) -> str:
    """Return what the agent reads of an error; its text only where that is about the arguments."""
    fatal = fatal_in(error)
    if fatal is not None:
        raise fatal
    match error:
        case ValidationError():
            return f"{ERROR} {'; '.join(_problems(error))}."
        case ToolRefusedError() | MemoryInputError():
            return f"{ERROR} {error}"
        case MemoryNotFoundError():
            return f"{ERROR} there is no memory with this id."
        case MemoryConflictError():
            return f"{ERROR} it was changed since you read it. Read it again, then change it."
        case MemoryCapabilityError():
            answer = f"{ERROR} the memory store of this agent cannot do this."
        case UnavailableError() | MemoryError():
            answer = UNAVAILABLE
        case _:
            answer = _UNEXPECTED
    _log.warning(
        Event.MEMORY_TOOL_FAILED, extra={"tool": tool_name, "agent_id": agent_id, "error": type(error).__name__}
    )
    return answer


def _problems(error: ValidationError) -> list[str]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [
        f"{named([str(each['loc'][0])]) if each['loc'] else 'arguments'}: {each['msg'].removeprefix('Value error, ')}"
        for each in found[:_PROBLEMS]
    ]


def named(names: Sequence[str]) -> str:
    """Return names that a model made up as they may stand in an answer: short, on one line, without a fence."""
    shown = [escaped(" ".join(UNSEEN.sub(" ", each).split()))[:_NAMED_CHARS] for each in names[:_NAMED]]
    return ", ".join(shown) + (" and more" if len(names) > _NAMED else "")


def known_categories(
    names: Sequence[str], *, of: frozenset[MemoryCategory] = frozenset(MemoryCategory)
) -> tuple[frozenset[MemoryCategory], str]:
    """Return the categories of these names, and a sentence about those that are left out, or an empty text."""
    by_name = {str(each): each for each in of}
    wanted = [name.strip().lower() for name in names]
    unknown = [given for given, name in zip(names, wanted, strict=True) if name not in by_name]
    known = frozenset(by_name[name] for name in wanted if name in by_name)
    about = f"Categories that are left out, because they cannot be searched here: {named(unknown)}." if unknown else ""
    return known, about


def shown_text(memories: Sequence[ScoredMemory], *notes: str) -> str:
    """Return an answer with memories: how many, what the fences mean, each in its fence with its id."""
    count = len(memories)
    by_date = ", of one subject the newest last" if any(each.subject_size > 1 for each in memories) else ""
    head = (
        f"{count} {'memory' if count == 1 else 'memories'} found, best first{by_date}."
        if count
        else "No memories found."
    )
    said = [head, *filter(None, notes)]
    if not memories:
        return " ".join(said)
    said.append(untrusted_content_directive(TAG_MEMORY_ENTRY))
    said += [REFERENCE_DIRECTIVE] if any(each.is_reference for each in memories) else []
    return BETWEEN_MEMORIES.join([" ".join(said), memory_blocks(memories, has_ids=True)])
