"""What the proposer is told of an execution: never a word of a conversation."""

import re
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from memcore.frozen import Frozen, NotBlankStr
from memcore.models import StoredKey
from memcore.procedural.error_text import sanitised

#: Longest title and longest description of a task, in characters; what is longer is refused, not cut.
TITLE_CHARS = 512
DESCRIPTION_CHARS = 20_000

#: Most tool calls of one execution, and the longest name of a tool, in characters.
MAX_TOOL_CALLS = 100_000
TOOL_CHARS = 128

#: The beginning of a call that is the tool's name, and no argument.
_NAME = re.compile(r"[\w .:/@-]+")


def _name(call: object) -> object:
    if not isinstance(call, str):
        return call
    found = _NAME.match(call.strip())
    return found[0][:TOOL_CHARS] if found is not None else "unnamed"


def _clean(message: object) -> object:
    return sanitised(message) or None if isinstance(message, str) else message


#: A tool's name; of a call with arguments, what stands before them.
ToolName = Annotated[NotBlankStr, BeforeValidator(_name)]


class FailureAnalysisPayload(Frozen):
    """A failure as the proposer sees it.

    Attributes:
        task_id: the task; the model is not told.
        task_title: its title.
        task_description: what was to be done; None when the title says it.
        task_type: what kind of task.
        error_message: what went wrong; made one line of at most 200 characters without what looks secret.
        strategy_type: how the failure was recovered from.
        termination_reason: why the execution ended.
        turn_count: turns of the agent.
        tool_calls_made: names of the tools in the order of their calls, each as often as it was called.
        retry_count: tries after the first; at most max_retries.
        max_retries: how many there might be; None for no limit.
        can_reassign: whether another agent may take the task.
        error_category: what kind of error.
        missing_capability: what the agent could not do, if that was the reason.
    """

    task_id: StoredKey
    task_title: Annotated[NotBlankStr, StringConstraints(max_length=TITLE_CHARS)]
    task_description: Annotated[NotBlankStr, StringConstraints(max_length=DESCRIPTION_CHARS)] | None = None
    task_type: StoredKey | None = None
    error_message: Annotated[NotBlankStr | None, BeforeValidator(_clean)] = None
    strategy_type: StoredKey | None = None
    termination_reason: StoredKey
    turn_count: int = Field(ge=0)
    tool_calls_made: tuple[ToolName, ...] = Field(default=(), max_length=MAX_TOOL_CALLS)
    retry_count: int = Field(default=0, ge=0)
    max_retries: int | None = Field(default=None, ge=0)
    can_reassign: bool = False
    error_category: StoredKey = "unknown"
    missing_capability: StoredKey | None = None

    @model_validator(mode="after")
    def _within_retries(self) -> Self:
        if self.max_retries is not None and self.retry_count > self.max_retries:
            raise ValueError(f"retry_count: is {self.retry_count}; the limit is max_retries, {self.max_retries}")
        return self


class SuccessPayload(Frozen):
    """A success as the proposer sees it: how many turns it took, and which tools.

    Attributes:
        task_id: the task; the model is not told.
        turn_count: turns of the agent.
        tool_calls_made: names of the tools in the order of their calls, each as often as it was called.
    """

    task_id: StoredKey
    turn_count: int = Field(ge=0)
    tool_calls_made: tuple[ToolName, ...] = Field(default=(), max_length=MAX_TOOL_CALLS)
