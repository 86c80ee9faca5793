"""Makes a request fit: its schema into the prompt, and its texts into the model's context."""

import re
from dataclasses import dataclass

import orjson

from memcore.errors import ProviderError
from memcore.llm.protocol import BYTES_PER_TOKEN, CompletionRequest, estimated_prompt, estimated_tokens
from memcore.models.execution import ChatMessage, MessageRole

#: Tokens that each message takes beside its text, for its role and its borders; servers take 3 to 7.
_TOKENS_A_MESSAGE = 8

#: Most of a context that an answer may take, the rest is the question's: one part in so many.
_ANSWER_PART = 2

#: The text in a fence, which holds no "<" (see memcore.untrusted_text).
_FENCED = re.compile(r"(<([a-z][a-z-]{0,62}[a-z])(?: [^<>\n]{0,2000})?>\n)([^<]*)(\n</\2>)")

#: Least length of a text that was cut, in bytes: less says nothing.
_LEAST_BYTES = 64

#: How a request is called whose context is too small.
CONTEXT_TOO_SMALL = "context_too_small"


def with_schema_in_prompt(request: CompletionRequest) -> CompletionRequest:
    """Return the request with its schema as the last sentence of the system message, for servers that refuse it."""
    if request.json_schema is None:
        return request
    schema = orjson.dumps(request.json_schema).decode()
    sentence = f"Answer with one JSON value of this JSON schema, and with nothing else: {schema}"
    messages = list(request.messages)
    last = max((place for place, each in enumerate(messages) if each.role is MessageRole.SYSTEM), default=None)
    if last is None:
        messages.insert(0, ChatMessage(role=MessageRole.SYSTEM, content=sentence))
    else:
        messages[last] = ChatMessage(role=MessageRole.SYSTEM, content=f"{messages[last].content}\n\n{sentence}")
    return request.model_copy(update={"messages": tuple(messages), "json_schema": None})


def needed_tokens(request: CompletionRequest) -> int:
    """Return the estimated tokens of the prompt, with its schema."""
    schema = 0 if request.json_schema is None else estimated_tokens(orjson.dumps(request.json_schema).decode())
    return estimated_prompt(request) + schema + _TOKENS_A_MESSAGE * len(request.messages)


def fitted(request: CompletionRequest, context_tokens: int | None, *, scale: float = 1.0) -> CompletionRequest:
    """Return the request, its longest texts cut in their middle until prompt and answer fit into the context.

    Texts in fences are cut, and the fences stay; in a request without fences, what the user says. The answer may take
    half of the context. ``scale`` is how many tokens the server counts for one that is estimated.

    Raises:
        ProviderError: of kind ``context_too_small``: it must not be cut, or what is no text of others is too long.
    """
    if context_tokens is None:
        return request
    request = request.model_copy(update={"max_tokens": min(request.max_tokens, max(1, context_tokens // _ANSWER_PART))})
    room = int((context_tokens - request.max_tokens) / scale)
    over = needed_tokens(request) - room
    if over <= 0:
        return request
    if request.whole:
        raise _too_small(request, context_tokens, scale, "and it must not be cut")
    texts = _texts(request)
    sizes = [text.size for text in texts]
    longest = _longest(sizes, sum(sizes) - over * BYTES_PER_TOKEN)
    if longest < _LEAST_BYTES:
        raise _too_small(request, context_tokens, scale, "and its rules alone are too long")
    contents = [message.content for message in request.messages]
    # From the end, so that the places before stay where they are.
    for text in reversed(texts):
        if text.size > longest:
            content = contents[text.message]
            shorter = _cut(content[text.start : text.end], longest)
            contents[text.message] = content[: text.start] + shorter + content[text.end :]
    messages = tuple(
        ChatMessage(role=message.role, content=content)
        for message, content in zip(request.messages, contents, strict=True)
    )
    return request.model_copy(update={"messages": messages})


@dataclass(frozen=True, slots=True)
class _Text:
    """A text that may be cut: in which message, from where to where, and its bytes."""

    message: int
    start: int
    end: int
    size: int


def _texts(request: CompletionRequest) -> list[_Text]:
    found = [
        _text(place, message.content, *fence.span(3))
        for place, message in enumerate(request.messages)
        for fence in _FENCED.finditer(message.content)
    ]
    return found or [
        _text(place, message.content, 0, len(message.content))
        for place, message in enumerate(request.messages)
        if message.role is MessageRole.USER
    ]


def _text(message: int, content: str, start: int, end: int) -> _Text:
    return _Text(message, start, end, _size(content[start:end]))


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _longest(sizes: list[int], bytes_left: int) -> int:
    """Return the length to which the longest are cut, so that all together take at most so many bytes."""
    for place, size in enumerate(sorted(sizes)):
        level = bytes_left // (len(sizes) - place)
        if size > level:
            return level
        bytes_left -= size
    return max(sizes, default=0)


def _cut(text: str, size: int) -> str:
    """Return beginning and end of a text, with a mark between them, together at most so many bytes."""
    data = text.encode("utf-8", "surrogatepass")
    mark = f"\n[... {len(data) - size} bytes are left out here ...]\n"
    half = max(0, size - len(mark)) // 2
    # A character that is cut in its middle goes.
    head = data[:half].decode("utf-8", "ignore")
    tail = data[len(data) - half :].decode("utf-8", "ignore") if half else ""
    return f"{head}{mark}{tail}"


def _too_small(request: CompletionRequest, context_tokens: int, scale: float, why: str) -> ProviderError:
    needed = int(needed_tokens(request) * scale) + request.max_tokens
    return ProviderError(
        f"the question takes some {needed} tokens, the model's context has {context_tokens}, {why}: "
        "choose a model with a larger context, or set memory.llm.context_tokens",
        kind=CONTEXT_TOO_SMALL,
    )
