"""Proposes lessons: the two payloads, the prompt, and a separate model's answer; the agent itself writes none."""

import json
import logging
import re
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from memcore.config.learning import ProceduralMemoryConfig
from memcore.errors import MalformedAnswerError
from memcore.experience import clipped
from memcore.llm.grounding import Kind, ungrounded
from memcore.llm.protocol import Attribution, CompletionRequest, Model
from memcore.llm.structured import ask_structured
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.execution import MAX_SIGNATURES, ChatMessage, prompt
from memcore.models.memory import StoredKey
from memcore.procedural.records import ProposalDraft, sanitised
from memcore.telemetry.events import Event
from memcore.untrusted_text import untrusted_content_directive, wrap_untrusted

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
    """A failure as the proposer sees it; the model is not told the task's id.

    Attributes:
        error_message: made one line of at most 200 characters without what looks secret.
        strategy_type: how the failure was recovered from.
        tool_calls_made: names of the tools in the order of their calls, each as often as it was called.
        retry_count: tries after the first; at most max_retries, where there is a limit.
        can_reassign: whether another agent may take the task.
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


#: A failed attempt: what went wrong, cleaned as an error message is.
FailedAttempt = Annotated[NotBlankStr, BeforeValidator(_clean)]

#: Most failed attempts at a task that the proposer of its success sees.
MAX_FAILED_BEFORE = 5


class SuccessPayload(Frozen):
    """A success as the proposer sees it; the model is not told the task's id.

    Attributes:
        tool_calls_made: as of a failure.
        argument_shapes: calls with the names and the types of their arguments, each form once; never a value.
        failed_before: what went wrong in earlier attempts at the task, oldest first.
    """

    task_id: StoredKey
    turn_count: int = Field(ge=0)
    tool_calls_made: tuple[ToolName, ...] = Field(default=(), max_length=MAX_TOOL_CALLS)
    argument_shapes: tuple[NotBlankStr, ...] = Field(default=(), max_length=MAX_SIGNATURES)
    failed_before: tuple[FailedAttempt, ...] = Field(default=(), max_length=MAX_FAILED_BEFORE)


#: The fence around each fact of an execution.
TAG_FACT = "execution-fact"

#: Most characters of each fact that the model reads; what is longer keeps its beginning and its end.
FACT_CHARS = 4_000

_FORM = f"""\
Answer with one JSON object of these keys and nothing else:
"discovery": one sentence by which the lesson is found, at most 600 characters.
"condition": when it applies. "action": what to do then. "rationale": why. At most 2000 characters each.
"execution_steps": how, in order, at most 50 short steps.
"confidence": from 0 to 1, how sure you are that it helps the next time.
"tags": at most 20 short labels of what it is about.
Make it of use for other tasks of this kind: no names of people, no secrets, nothing that only this task knows.
Say nothing that does not follow from the facts; where they say little, be less sure.
{untrusted_content_directive(TAG_FACT)}"""

_FAILURE = f"""\
You look at the failed task of an AI agent, which is another than you, and write down the lesson for the next time:
when something like this is met, what to do.
{_FORM}"""

_SUCCESS = f"""\
You look at a task that an AI agent, which is another than you, has done well, and write down the way of working that
can be used again. You know how many turns it took and which tools were called, in order, and, where it was reported,
the types of their arguments and what went wrong in earlier attempts; nothing else.
{_FORM}"""


def messages_of(payload: FailureAnalysisPayload | SuccessPayload) -> tuple[ChatMessage, ...]:
    """Return the messages: the instructions, then the facts; of a success only how it was done."""
    if isinstance(payload, SuccessPayload):
        unknown = {name for name in ("argument_shapes", "failed_before") if not getattr(payload, name)}
        system, facts = _SUCCESS, payload.model_dump(mode="json", exclude={"task_id", *unknown})
    else:
        system, facts = _FAILURE, payload.model_dump(mode="json", exclude={"task_id"}, exclude_none=True)
    content = "\n\n".join(
        f"{name}:\n{wrap_untrusted(TAG_FACT, clipped(_value_text(value), FACT_CHARS))}" for name, value in facts.items()
    )
    return prompt(system, content)


def _value_text(value: object) -> str:
    if isinstance(value, list):
        return "\n".join(map(str, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value)


def _sources_of(payload: FailureAnalysisPayload | SuccessPayload) -> list[str]:
    facts = payload.model_dump(mode="json", exclude={"task_id"}, exclude_none=True)
    return [f"{name}: {_value_text(value)}" for name, value in facts.items()]


#: The purpose that the account names.
PURPOSE_FAILURE = "system:memory:propose:failure"
PURPOSE_SUCCESS = "system:memory:propose:success"

#: Raise it with any change of the prompt: the same execution is then another question.
VERSION = "proposer-v2"

_log = logging.getLogger(__name__)


async def propose(
    model: Model,
    config: ProceduralMemoryConfig,
    payload: FailureAnalysisPayload | SuccessPayload,
    *,
    company: str,
    agent_id: str,
) -> ProposalDraft:
    """Ask for the lesson of an execution; a malformed answer is asked for once more.

    Give a caching model, so that a crash pays for no answer twice. Raises what ``ask_structured`` raises, and
    MalformedAnswerError where the lesson says what does not follow from the facts.
    """
    purpose = PURPOSE_SUCCESS if isinstance(payload, SuccessPayload) else PURPOSE_FAILURE
    request = CompletionRequest(
        messages=messages_of(payload),
        model=config.asked_model,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
    )
    by = Attribution(company=company, agent_id=agent_id, run_id=None, purpose=purpose)
    key = by.question_id(config.asked_model, payload.model_dump_json(), VERSION)
    draft = await ask_structured(model, request, ProposalDraft, by=by, key=key)
    texts = (draft.discovery, draft.condition, draft.action, draft.rationale, *draft.execution_steps, *draft.tags)
    fault = ungrounded("\n".join(texts), _sources_of(payload), instructions=_FORM, kind=Kind.ADVICE)
    if fault is not None:
        _log.warning(Event.LLM_ANSWER_UNGROUNDED, extra={**by.logged, "reason": fault.value})
        raise MalformedAnswerError(f"not kept: {fault.value}")
    if draft.refused:
        # These names are ours, not the model's.
        _log.warning(
            Event.PROCEDURAL_MEMORY_PROPOSAL_FIELDS_REFUSED, extra={"agent_id": agent_id, "fields": draft.refused}
        )
    _log.info(Event.PROCEDURAL_MEMORY_PROPOSAL_COMPLETE, extra={"agent_id": agent_id, "refused": len(draft.refused)})
    return draft
