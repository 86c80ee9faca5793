"""The questions to the proposer: what is known of an execution, as data behind fences."""

import json

from memcore.chat_message import ChatMessage, MessageRole
from memcore.experience.prompt import clipped
from memcore.fence import untrusted_content_directive, wrap_untrusted
from memcore.procedural.payloads import FailureAnalysisPayload, SuccessPayload

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
can be used again. You know how many turns it took and which tools were called, in order, and nothing else.
{_FORM}"""


def messages_of(payload: FailureAnalysisPayload | SuccessPayload) -> tuple[ChatMessage, ...]:
    """Return the messages: the instructions, then the facts. Of a success these are turns and tools alone."""
    if isinstance(payload, SuccessPayload):
        system, facts = _SUCCESS, payload.model_dump(mode="json", exclude={"task_id"})
    else:
        system, facts = _FAILURE, payload.model_dump(mode="json", exclude={"task_id"}, exclude_none=True)
    content = "\n\n".join(
        f"{name}:\n{wrap_untrusted(TAG_FACT, clipped(_told(value), FACT_CHARS))}" for name, value in facts.items()
    )
    return (
        ChatMessage(role=MessageRole.SYSTEM, content=system),
        ChatMessage(role=MessageRole.USER, content=content),
    )


def _told(value: object) -> str:
    if isinstance(value, list):
        return "\n".join(map(str, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value)
