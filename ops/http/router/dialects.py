"""The three dialects of the router: where a request holds the person's turn, and how an answer is read.

A request stays as it was sent, byte for byte, but for the memory, which goes in before the turn's own words. So a
provider's cache of what stands before them stays good.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from memcore.models.memory import MAX_KEY_CHARS

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")

#: What stands between a memory and the person's words, where they are one string.
BETWEEN = "\n\n"

#: What an answer says, and whether it calls a tool: the turn goes on then.
Said = tuple[str, bool]

_NOTHING: Said = ("", False)


class Place(NamedTuple):
    """Where a memory goes into a body: inside a string, or before a part of a list."""

    at: int
    is_string: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A person's turn in a request.

    Attributes:
        text: what the person says.
        begun: what was said first in this conversation; a client sends it along each time.
        user: the person's id, where the request names one.
        session: the conversation's, likewise.
    """

    text: str
    begun: str
    user: str | None
    session: str | None
    body: str
    part: str
    place: Place

    def with_memory(self, memory: str) -> bytes:
        """Return the body with a text before the person's words."""
        before, after = self.body[: self.place.at], self.body[self.place.at :]
        if self.place.is_string:
            return f"{before}{json.dumps(memory + BETWEEN)[1:-1]}{after}".encode()
        return f"{before}{json.dumps({'type': self.part, 'text': memory})},{after}".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How an API is spoken.

    Attributes:
        turns: the key of a request under which the conversation stands.
        part: the type of a part that is text.
        said: what an answer, or an event of a stream, says.
    """

    turns: str
    part: str
    said: Callable[[dict[str, Any]], Said]

    def turn(self, sent: bytes) -> Turn | None:
        """Return the person's turn of a request, None where it has none that can be read."""
        try:
            body = sent.decode()
            top = dict(_members(body, _space(body, 0)))
            found = self._found(body, top)
        except (ValueError, RecursionError):
            return None
        if found is None:
            return None
        text, begun, place = found
        named = {name: value for name, (_, value) in top.items()}
        metadata = named.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        people = (named.get("user"), named.get("safety_identifier"), metadata.get("user_id"))
        return Turn(
            text=text,
            begun=begun,
            user=next(filter(None, map(_name, people)), None),
            session=_name(metadata.get("session_id")),
            body=body,
            part=self.part,
            place=place,
        )

    def _found(self, body: str, top: dict[str, tuple[int, Any]]) -> tuple[str, str, Place] | None:
        at, turns = top.get(self.turns, (0, None))
        if isinstance(turns, str):
            return (turns, turns, Place(at + 1, is_string=True)) if turns.strip() else None
        if not isinstance(turns, list):
            return None
        asked = [found for at, each in _elements(body, at) if (found := self._asked(body, at, each)) is not None]
        return (asked[-1][0], asked[0][0], asked[-1][1]) if asked else None

    def _asked(self, body: str, at: int, message: Any) -> tuple[str, Place] | None:
        if not isinstance(message, dict) or message.get("role") != "user":
            return None
        begun, content = dict(_members(body, at)).get("content", (0, None))
        if isinstance(content, str):
            return (content, Place(begun + 1, is_string=True)) if content.strip() else None
        if not isinstance(content, list) or any(_kind(each) == "tool_result" for each in content):
            return None
        texts = [
            (at, str(each["text"]))
            for at, each in _elements(body, begun)
            if _kind(each) == self.part and isinstance(each.get("text"), str)
        ]
        said = "\n".join(text for _, text in texts)
        return (said, Place(texts[-1][0], is_string=False)) if said.strip() else None


def _kind(part: Any) -> object:
    return part.get("type") if isinstance(part, dict) else None


def _name(given: Any) -> str | None:
    is_name = isinstance(given, str) and given.strip() != "" and len(given) <= MAX_KEY_CHARS and "\0" not in given
    return given if is_name else None


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None  # noqa: S101  # it matches nothing, too
    return found.end()


def _members(text: str, at: int) -> Iterator[tuple[str, tuple[int, Any]]]:
    """Yield the members of the object that begins there: name, and where its value begins, and the value."""
    if text[at : at + 1] != "{":
        raise ValueError("no object")
    at = _space(text, at + 1)
    while text[at : at + 1] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _space(text, at)
        if text[at : at + 1] != ":" or not isinstance(name, str):
            raise ValueError("no member")
        begun = _space(text, at + 1)
        value, at = _DECODER.raw_decode(text, begun)
        yield name, (begun, value)
        at = _behind(text, at, "}")


def _elements(text: str, at: int) -> Iterator[tuple[int, Any]]:
    """Yield the elements of the list that begins there, each with its place."""
    at = _space(text, at + 1)
    while text[at : at + 1] != "]":
        value, end = _DECODER.raw_decode(text, at)
        yield at, value
        at = _behind(text, end, "]")


def _behind(text: str, at: int, end: str) -> int:
    """Return where the next one begins, or where the end is."""
    at = _space(text, at)
    if text[at : at + 1] == end:
        return at
    if text[at : at + 1] != ",":
        raise ValueError("neither the next one nor the end")
    return _space(text, at + 1)


def _dicts(given: Any) -> list[dict[str, Any]]:
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []


def _texts(parts: Any, kind: str) -> str:
    return "".join(str(each.get("text", "")) for each in _dicts(parts) if each.get("type") == kind)


def _of_chat(answer: dict[str, Any]) -> Said:
    first = (each for each in _dicts(answer.get("choices")) if each.get("index", 0) == 0)
    for message in _dicts([each.get("message") or each.get("delta") for each in first]):
        content = message.get("content")
        return content if isinstance(content, str) else "", bool(message.get("tool_calls"))
    return _NOTHING


def _of_messages(answer: dict[str, Any]) -> Said:
    match answer.get("type"):
        case "message":
            return _texts(answer.get("content"), "text"), answer.get("stop_reason") == "tool_use"
        case "content_block_delta":
            return _texts([answer.get("delta")], "text_delta"), False
        case "content_block_start":
            return "", _kind(answer.get("content_block")) == "tool_use"
    return _NOTHING


def _of_responses(answer: dict[str, Any]) -> Said:
    match answer.get("type"):
        case "response.output_text.delta":
            return str(answer.get("delta", "")), False
        case "response.output_item.added":
            return "", _kind(answer.get("item")) == "function_call"
    items = _dicts(answer.get("output"))
    said = "".join(_texts(each.get("content"), "output_text") for each in items if each.get("type") == "message")
    return said, any(each.get("type") == "function_call" for each in items)


#: By the path behind ``/router/v1/``.
DIALECTS = {
    "chat/completions": Dialect(turns="messages", part="text", said=_of_chat),
    "messages": Dialect(turns="messages", part="text", said=_of_messages),
    "responses": Dialect(turns="input", part="input_text", said=_of_responses),
}

#: Longest line of a stream, and longest whole answer, that is read, in bytes; what is longer goes through unread.
MAX_LINE_BYTES, MAX_ANSWER_BYTES = 1_048_576, 8_388_608


class Reply:
    """Reads an answer while it goes through.

    Args:
        most: the most characters that are kept of what it says.
    """

    def __init__(self, dialect: Dialect, *, is_stream: bool, most: int) -> None:
        self._dialect = dialect
        self._is_stream = is_stream
        self._most = most
        self._open = bytearray()
        self._said: list[str] = []
        self._chars = 0
        self._goes_on = False
        self._is_readable = True
        self._is_whole = False

    def feed(self, part: bytes) -> None:
        """Read a part of the body as it comes."""
        if not self._is_readable:
            return
        self._open += part
        if self._is_stream:
            *lines, rest = self._open.split(b"\n")
            self._open = bytearray(rest)
            for line in lines:
                self._read(line)
        self._is_readable = len(self._open) <= (MAX_LINE_BYTES if self._is_stream else MAX_ANSWER_BYTES)

    def end(self) -> None:
        """Say that the whole body came."""
        if self._is_readable:
            self._read(self._open if self._is_stream else b"data:" + self._open)
        self._is_whole = True

    @property
    def text(self) -> str | None:
        """What it says; None where it broke off, cannot be read, or calls a tool, so that the turn goes on."""
        if not self._is_whole or not self._is_readable or self._goes_on:
            return None
        return "".join(self._said)[: self._most]

    def _read(self, line: bytes | bytearray) -> None:
        if not line.startswith(b"data:") or self._goes_on:
            return
        try:
            event = json.loads(line[5:])
        except (ValueError, RecursionError):
            # Such as the [DONE] at the end of a stream.
            return
        if isinstance(event, dict):
            said, self._goes_on = self._dialect.said(event)
            if self._chars < self._most:
                self._said.append(said)
                self._chars += len(said)
