"""The execution trace of an agent's task, as any engine can report it; and chat messages."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from memcore.models.base import Frozen, NotBlankStr, is_unsaid
from memcore.models.memory import BoundedTime, Key, NotBlankText

#: Most turns of a trace; an agent that takes more is reported in parts.
MAX_TURNS = 10_000

#: Longest title of a task, in characters.
MAX_TITLE_CHARS = 512

#: Longest description of a task and longest error message, in characters; a log belongs into the steps.
MAX_NOTE_CHARS = 16_384

#: A text that trajectories keep too, and that evolvers read by the ten thousand.
Note = Annotated[NotBlankText, StringConstraints(max_length=MAX_NOTE_CHARS)]


class TerminationReason(StrEnum):
    """Why a task ended."""

    COMPLETED = "completed"
    ERROR = "error"
    TIMEOUT = "timeout"
    BUDGET_EXHAUSTED = "budget_exhausted"
    MAX_TURNS = "max_turns"
    STAGNATION = "stagnation"
    CANCELLED = "cancelled"
    SHUTDOWN = "shutdown"
    DEFERRED = "parked"

    @property
    def is_success(self) -> bool:
        """Whether the task did what it was to do."""
        return self is TerminationReason.COMPLETED

    @property
    def is_interruption(self) -> bool:
        """Whether somebody stopped the task or put it off: that says nothing about how it was done."""
        return self in {TerminationReason.CANCELLED, TerminationReason.SHUTDOWN, TerminationReason.DEFERRED}


#: The name of an argument as schemas write it, so that no text of a conversation passes for one.
ArgumentName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")]

#: The type of an argument, in the words of JSON Schema.
ArgumentType = Literal["string", "number", "integer", "boolean", "array", "object", "null"]

#: Most arguments of one call, and most calls of different forms that are kept of one execution.
MAX_ARGUMENTS = 32
MAX_SIGNATURES = 64


class Turn(Frozen):
    """One turn: the tokens read and written, and the names of the tools called, in order, one for each call.

    ``arguments`` may say the type of each argument of each call, by name; values are never told.
    """

    tokens: int = Field(default=0, ge=0, le=2**53)
    tools: tuple[Key, ...] = ()
    arguments: tuple[Annotated[dict[ArgumentName, ArgumentType], Field(max_length=MAX_ARGUMENTS)], ...] = Field(
        default=(), exclude_if=is_unsaid
    )

    @model_validator(mode="after")
    def _of_each_call(self) -> Self:
        if self.arguments and len(self.arguments) != len(self.tools):
            raise ValueError(f"arguments: are those of {len(self.arguments)} calls; tools has {len(self.tools)}")
        return self


class Recovery(Frozen):
    """What the engine did about a failure.

    Attributes:
        strategy: the engine's own word for it, such as ``retry`` or ``reassign``.
        is_recovered: whether the task went on well after it.
        can_reassign: whether another agent may be given the task.
        max_retries: how often the engine would have tried in all; None when it has no such limit.
        missing_capability: what the agent would have needed, if the engine knows.
    """

    strategy: Key
    is_recovered: bool = False
    can_reassign: bool = False
    max_retries: int | None = Field(default=None, ge=0, le=2**31 - 1)
    missing_capability: Key | None = None


class ExecutionTrace(Frozen):
    """One execution of a task; hand it to ``MemoryClient.distill``. As JSON it has at most 1 MiB.

    Attributes:
        task_title: in a few words, what the task was; the description says it in full.
        task_type: the engine's own kind of task.
        error_message: what was reported, of a failure.
        error_category: the engine's own kind of failure; traces of one category are compared with each other.
        recovery: what was done about a failure; None when nothing was.
        retries: attempts before this one.
        quality: what a check thought of the result, 0 to 10; None when nobody looked.
        prompt: what the agent was asked, exactly; the title and the description stand for it when left out.
        output: what it answered, exactly; how the task ended stands for it when left out.
        feedback: what a check said of the answer.
        steps: the reasoning between, in order.
    """

    task_id: Key
    task_title: Annotated[NotBlankStr, StringConstraints(max_length=MAX_TITLE_CHARS)]
    task_description: Note | None = None
    task_type: Key | None = None
    turns: tuple[Turn, ...] = Field(default=(), max_length=MAX_TURNS)
    termination_reason: TerminationReason
    error_message: Note | None = None
    error_category: Key | None = None
    recovery: Recovery | None = None
    retries: int = Field(default=0, ge=0, le=2**31 - 1)
    quality: float | None = Field(default=None, ge=0.0, le=10.0)
    prompt: NotBlankText | None = None
    output: NotBlankText | None = None
    feedback: NotBlankText | None = None
    steps: tuple[NotBlankText, ...] = ()
    started_at: BoundedTime | None = None
    ended_at: BoundedTime

    @model_validator(mode="after")
    def _ordered_times(self) -> Self:
        if self.started_at is not None and self.ended_at < self.started_at:
            raise ValueError("ended_at: lies before started_at")
        return self

    @property
    def tools(self) -> tuple[str, ...]:
        """Every tool called, in order, one name for each call."""
        return tuple(tool for turn in self.turns for tool in turn.tools)

    @property
    def signatures(self) -> tuple[str, ...]:
        """The calls whose arguments are known as ``tool(name: type)``, each form once, in the order of the calls."""
        calls = (call for turn in self.turns for call in zip(turn.tools, turn.arguments, strict=False))
        forms = (f"{tool}({', '.join(f'{name}: {kind}' for name, kind in given.items())})" for tool, given in calls)
        return tuple(dict.fromkeys(forms))[:MAX_SIGNATURES]

    @property
    def tokens(self) -> int:
        """Tokens of all turns."""
        return sum(turn.tokens for turn in self.turns)

    @property
    def failure(self) -> str | None:
        """The failure's category: the engine's own, or else the reason, ``unknown`` for errors; None of a success."""
        if self.termination_reason.is_success:
            return None
        unnamed = "unknown" if self.termination_reason is TerminationReason.ERROR else str(self.termination_reason)
        return self.error_category or unnamed


class MessageRole(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"


class ChatMessage(Frozen):
    """A message to put between the system prompt and the task."""

    role: MessageRole
    content: NotBlankText


class PreparedMessages(tuple[ChatMessage, ...]):  # noqa: SLOT001  # an attribute of its own
    """The messages of a prompt, as a tuple.

    ``degraded`` names what did not answer while they were made: ``store``, ``ledger``, ``embedder``, or a part of
    retrieval. The last message says so too, for the model.
    """

    degraded: tuple[str, ...] = ()

    @classmethod
    def of(cls, messages: Iterable[ChatMessage], *, degraded: Iterable[str] = ()) -> Self:
        """Return the messages, each part named once."""
        made = cls(messages)
        made.degraded = tuple(dict.fromkeys(str(each) for each in degraded))
        return made


def prompt(instructions: str, data: str) -> tuple[ChatMessage, ...]:
    """Return the messages of a question to a model: the instructions as the system's, the data as the user's."""
    system = ChatMessage(role=MessageRole.SYSTEM, content=instructions)
    return (system, ChatMessage(role=MessageRole.USER, content=data))


class ToolDefinition(Frozen):
    """A tool that an agent may call; ``description`` tells the model when, ``parameters`` is a JSON schema.

    Attributes:
        read_only: whether it changes no memory.
        destructive: whether it takes a memory away or changes one, rather than adding one.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    description: NotBlankStr
    parameters: dict[str, Any]
    read_only: bool = False
    destructive: bool = False

    def as_openai(self) -> dict[str, Any]:
        """Return it as a function of OpenAI's chat API, for ``tools=[...]``."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def as_mcp(self) -> dict[str, Any]:
        """Return it as a tool of the Model Context Protocol, with its hints."""
        hints = {"readOnlyHint": self.read_only, "destructiveHint": self.destructive, "openWorldHint": False}
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.parameters,
            "annotations": hints,
        }
