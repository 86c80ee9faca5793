"""Messages in the form of chat models, as turns: what a person said, and what was answered."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from memcore.errors import MemoryInputError
from memcore.jobs import MAX_TURN_CHARS

#: Roles of messages; those of the system and of tools say nothing about a person.
_USER, _ASSISTANT, _PASSED_OVER = "user", "assistant", ("system", "tool", "developer")

#: Most messages in one call.
MAX_MESSAGES = 200


class SpokenTurn(NamedTuple):
    """What a person said, and what was answered; blank where nothing was."""

    user_text: str
    assistant_text: str


def turns_of(messages: str | Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> tuple[SpokenTurn, ...]:
    """Return the turns of a text, a message, or a list of messages with ``role`` and ``content``.

    What a person says in several messages is one turn, up to the answer. An answer without a question before it, and
    what system and tools say, belong to no turn.

    Raises MemoryInputError that names the message and the limit.
    """
    if isinstance(messages, str):
        messages = [{"role": _USER, "content": messages}]
    elif isinstance(messages, Mapping):
        messages = [messages]
    if not isinstance(messages, Sequence):
        raise MemoryInputError("messages", "must be a text, a message, or a list of messages")
    if not messages or len(messages) > MAX_MESSAGES:
        raise MemoryInputError("messages", f"has {len(messages)} messages; it must have 1 to {MAX_MESSAGES}")
    return tuple(_turns([_read(place, each) for place, each in enumerate(messages)]))


def _read(place: int, message: object) -> tuple[str, str]:
    field = f"messages.{place}"
    if not isinstance(message, Mapping):
        raise MemoryInputError(field, "must be a mapping with role and content")
    role, content = message.get("role"), message.get("content")
    if role not in {_USER, _ASSISTANT, *_PASSED_OVER}:
        raise MemoryInputError(f"{field}.role", "must be user, assistant, system, tool or developer")
    text = content if isinstance(content, str) else _joined(content)
    if text is None:
        raise MemoryInputError(f"{field}.content", "must be a text, or a list of parts with type and text")
    if len(text) > MAX_TURN_CHARS:
        raise MemoryInputError(f"{field}.content", f"has {len(text)} characters; the limit is {MAX_TURN_CHARS}")
    return str(role), text.strip()


def _joined(content: object) -> str | None:
    """Return the texts of a list of parts; what is no text, as a picture, says nothing."""
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        return "" if content is None else None
    texts = [part.get("text", "") for part in content if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str)) if len(texts) == len(content) else None


def _turns(messages: Sequence[tuple[str, str]]) -> Iterator[SpokenTurn]:
    said: list[str] = []
    answered: list[str] = []
    for role, text in messages:
        if role == _USER and answered:
            yield SpokenTurn("\n".join(said), "\n".join(answered))
            said, answered = [], []
        if role == _USER and text:
            said.append(text)
        elif role == _ASSISTANT and text and said:
            answered.append(text)
    if said:
        yield SpokenTurn("\n".join(said), "\n".join(answered))
