"""The tools of operators: what one is, the guardrail before the destructive ones, and the toolset of a session."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from mcp import types

from memcore.ledger.organization.audit import Confirmation
from memcore.models.approval import MAX_REASON_CHARS
from memcore.models.base import ValidatedModel
from memcore.models.origin import OPERATOR, Writer, writing_as
from memcore.retrieval.strategies.arguments import arguments_of
from memcore.retrieval.strategies.tools import named
from memcore.telemetry.events import Event
from memcore.untrusted_text import untrusted_content_directive, without_secrets
from ops.mcp.results import TAG_RESULT, fenced_json, text_result

if TYPE_CHECKING:
    from memcore.service import MemoryService

#: What a host puts before a model that may call these tools.
INSTRUCTIONS = (
    "Operation of memtend: fine-tune runs, maintenance runs, approvals, dead letters. A destructive tool takes "
    "confirm: true and a reason, which the audit keeps; ask a person before you call one. "
    + untrusted_content_directive(TAG_RESULT)
)

#: What a key must be allowed to do, as on the same paths of HTTP; the words are those of `memtend keys create`.
VerbName = Literal["read", "maintain", "approve", "admin"]

#: What a tool returns: facts for the result, JSON values all.
Facts = Mapping[str, Any]

#: The two arguments of every destructive tool. The session, and no argument, says who acts.
_GUARDRAIL: dict[str, Any] = {
    "confirm": {"type": "boolean", "const": True, "description": "Literally true."},
    "reason": {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_REASON_CHARS,
        "description": "Why; kept in the audit.",
    },
}

_log = logging.getLogger(__name__)


class NoArguments(ValidatedModel):
    """The arguments of a tool that takes none."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """What a destructive tool has done, and to what; ``target_id`` is None where there was nothing to do."""

    facts: Facts
    target_id: str | None


@dataclass(frozen=True, kw_only=True)
class PlainTool:
    """A tool that reads, or starts what can simply be stopped."""

    is_destructive: ClassVar[bool] = False

    name: str
    description: str
    verb: VerbName
    arguments: type[ValidatedModel]
    run: Callable[["MemoryService", Any], Awaitable[Facts]]
    is_read_only: bool = True
    is_idempotent: bool = True


@dataclass(frozen=True, kw_only=True)
class DestructiveTool:
    """A tool that a person must mean: it takes ``confirm`` and ``reason`` beside its arguments."""

    is_destructive: ClassVar[bool] = True
    is_read_only: ClassVar[bool] = False

    name: str
    description: str
    verb: VerbName
    arguments: type[ValidatedModel]
    run: Callable[["MemoryService", Any, Confirmation], Awaitable[Done]]
    is_idempotent: bool = False


OperatorTool = PlainTool | DestructiveTool

#: A function that carries out a tool: its name and docstring are the tool's, as is the type of its second argument.
_Run = TypeVar("_Run", bound=Callable[..., Awaitable[Any]])


class ToolList(list[OperatorTool]):
    """Tools, each declared on the function that carries it out."""

    def plain(self, verb: VerbName, *, is_read_only: bool = True, is_idempotent: bool = True) -> Callable[[_Run], _Run]:
        """Declare a PlainTool."""
        return self._declare(PlainTool, verb=verb, is_read_only=is_read_only, is_idempotent=is_idempotent)

    def destructive(self, verb: VerbName, *, is_idempotent: bool = False) -> Callable[[_Run], _Run]:
        """Declare a DestructiveTool."""
        return self._declare(DestructiveTool, verb=verb, is_idempotent=is_idempotent)

    def _declare(self, kind: type[OperatorTool], **fields: Any) -> Callable[[_Run], _Run]:
        def declare(run: _Run) -> _Run:
            _, arguments, *_ = run.__annotations__.values()
            self.append(kind(name=run.__name__, description=run.__doc__ or "", arguments=arguments, run=run, **fields))
            return run

        return declare


@dataclass(frozen=True, kw_only=True)
class OperatorToolset:
    """The operator tools of one session.

    Args:
        service: of the session's company.
        actor: who acts, from the session: the key's name, or the operating system's user.
        verbs: what the session may do; tools beyond it are neither listed nor callable.
        available: all tools.
        writer: who reads and writes: by it a key's channel and least authority bind these tools, too.
    """

    service: "MemoryService"
    actor: str
    available: Iterable[OperatorTool]
    verbs: frozenset[str] = frozenset({"read", "maintain", "approve", "admin"})
    writer: Writer = OPERATOR
    _by_name: dict[str, OperatorTool] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        named = {tool.name: tool for tool in self.available if tool.verb in self.verbs}
        object.__setattr__(self, "_by_name", named)

    def tools(self) -> tuple[types.Tool, ...]:
        """Return the tools that the session may call."""
        return tuple(map(_shown, self._by_name.values()))

    async def call(self, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Carry out a call. Raises MemoryError; MemoryInputError before anything is done."""
        # The SDK carries out calls in a task of its own, which knows nothing of the request's writer.
        with writing_as(self.writer):
            return await self._call(name, arguments)

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        tool = self._by_name[name]
        guardrail = {key: value for key, value in arguments.items() if tool.is_destructive and key in _GUARDRAIL}
        own = {key: value for key, value in arguments.items() if key not in guardrail}
        given, passed_over = arguments_of(tool.arguments, own, is_strict=not tool.is_read_only)
        asked = tool.arguments.model_validate(given)
        if isinstance(tool, PlainTool):
            facts = await tool.run(self.service, asked)
            note = {"passed_over": named(passed_over)} if passed_over else {}
            return text_result(fenced_json({**facts, **note}))
        confirmation = Confirmation.model_validate({**guardrail, "actor": self.actor})
        done = await tool.run(self.service, asked, confirmation)
        if done.target_id is not None:
            executed = {
                "tool": name,
                "company": self.service.company,
                "actor": confirmation.actor,
                "reason": without_secrets(confirmation.reason),
                "target_id": done.target_id,
            }
            _log.warning(Event.MCP_ADMIN_OP_EXECUTED, extra=executed)
        return text_result(fenced_json(done.facts))


def _shown(tool: OperatorTool) -> types.Tool:
    schema = tool.arguments.model_json_schema()
    properties = {name: _plain(each) for name, each in schema.get("properties", {}).items()}
    required = list(schema.get("required", ()))
    if tool.is_destructive:
        properties |= _GUARDRAIL
        required += _GUARDRAIL
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema={
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
            **({"$defs": schema["$defs"]} if "$defs" in schema else {}),
        },
        annotations=types.ToolAnnotations(
            read_only_hint=tool.is_read_only,
            destructive_hint=tool.is_destructive,
            idempotent_hint=tool.is_idempotent,
            open_world_hint=False,
        ),
    )


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a field without a title and without null, which some hosts refuse: what is not said is left out."""
    options = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    own = {key: value for key, value in schema.items() if key != "title" and (key, value) != ("default", None)}
    return {**options[0], **{key: value for key, value in own.items() if key != "anyOf"}} if len(options) == 1 else own
