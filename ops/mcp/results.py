"""The results of tool calls: bounded, fenced as data, and an error as an envelope that a program can read."""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp import types

from memcore.errors import (
    MemoryBackendUnsupportedError,
    MemoryCapabilityError,
    MemoryError,  # noqa: A004  # the reference fixes the name
)
from memcore.telemetry.events import Event
from memcore.untrusted_text import wrap_untrusted

#: Most tokens of a result, at four bytes a token: what a host can put beside a conversation.
MAX_RESULT_TOKENS = 4_000

#: Bytes of a token, roughly. Bytes, because one letter of many scripts is a token of its own.
BYTES_PER_TOKEN = 4

#: Bytes that are kept free for the note of what was left out.
_NOTE_BYTES = 200

#: The first status of HTTP that says that the fault is here.
_SERVER_ERROR = 500

#: The fence around what an operator tool returns.
TAG_RESULT = "tool-result"

#: Where a fence begins or ends: a line of its own, in which no text of a memory can stand, for its "<" is escaped.
_FENCE = re.compile(r"^<(/?)([a-z][a-z-]{0,62}[a-z])(?: [^<>]*)?>$")

_log = logging.getLogger(__name__)


def text_result(text: str) -> types.CallToolResult:
    """Return a tool's answer, cut to MAX_RESULT_TOKENS."""
    return types.CallToolResult(content=[types.TextContent(text=bounded(text))])


def bounded(text: str, *, max_tokens: int = MAX_RESULT_TOKENS) -> str:
    """Return a text of at most so many tokens; a note behind a shortened one says how much was left out.

    It ends between two lines where it can, and a fence that is cut is closed before the note.
    """
    most = max_tokens * BYTES_PER_TOKEN
    size = len(text.encode("utf-8", "surrogatepass"))
    if size <= most:
        return text
    cut = text.encode("utf-8", "surrogatepass")[: most - _NOTE_BYTES].decode("utf-8", "ignore")
    lines = cut.split("\n")
    # The last line may be half a fence, which would close nothing; a long line of text is worth keeping.
    if len(lines) > 1 and (lines[-1].startswith("<") or len(lines[-1]) < len(cut) // 2):
        lines.pop()
    open_tag: str | None = None
    for line in lines:
        if (found := _FENCE.match(line)) is not None:
            open_tag = None if found[1] else found[2]
    if open_tag is not None:
        lines.append(f"</{open_tag}>")
    kept = "\n".join(lines)
    left_out = size - len(kept.encode("utf-8", "surrogatepass"))
    return f"{kept}\n[{left_out} of {size} bytes were left out: ask for fewer, or for one of them by its id.]"


def fenced_json(facts: Mapping[str, Any], *, max_tokens: int = MAX_RESULT_TOKENS) -> str:
    """Return facts as JSON in a fence; of too many ``items`` the last are left out, and ``left_out`` counts them."""
    shown = dict(facts)
    most = max_tokens * BYTES_PER_TOKEN
    items = shown.get("items")
    text = _fenced(shown)
    if isinstance(items, Sequence) and not isinstance(items, str):
        low, high = 0, len(items)
        # The most items that fit; the size grows with each.
        while len(text.encode()) > most and low < high:
            middle = (low + high + 1) // 2
            if len(_fenced(_first(shown, items, middle)).encode()) > most:
                high = middle - 1
            else:
                low = middle
            if low == high:
                text = _fenced(_first(shown, items, low))
    return bounded(text, max_tokens=max_tokens)


def _first(facts: Mapping[str, Any], items: Sequence[Any], count: int) -> dict[str, Any]:
    return {**facts, "items": list(items[:count]), "left_out": len(items) - count}


def _fenced(facts: Mapping[str, Any]) -> str:
    # ASCII: what acts on a terminal or turns a line around is escaped.
    return wrap_untrusted(TAG_RESULT, json.dumps(facts, indent=1))


def error_result(error: MemoryError, *, tool: str) -> types.CallToolResult:
    """Return a domain error as the result of a tool: its kind, one sentence, and whether to try again.

    Kinds are those of HTTP. What a part of the installation says that does not answer may name hosts: it is not shown.
    """
    if isinstance(error, MemoryBackendUnsupportedError):
        return not_supported(error.reason, event=Event.MCP_HANDLER_NOT_IMPLEMENTED, tool=tool)
    if isinstance(error, MemoryCapabilityError):
        return not_supported(str(error), event=Event.MCP_HANDLER_CAPABILITY_GAP, tool=tool)
    # FastAPI takes half a second to import, and a host waits for the first answer over stdio.
    from ops.http.problems import problem_of  # noqa: PLC0415  # see above

    problem = problem_of(error)
    if problem.status >= _SERVER_ERROR:
        _log.error(Event.MCP_HANDLER_FAILED, extra={"tool": tool, "error": type(error).__name__})
    envelope: dict[str, Any] = {
        "domain_code": problem.domain_code,
        # Of a checkpoint whose files are gone, say, the message is what an operator needs.
        "message": str(error).partition("\n")[0] if problem.domain_code == "internal" else problem.detail,
        "is_retryable": problem.is_retryable,
    }
    if problem.field is not None:
        envelope["field"] = problem.field
    return _error(envelope)


def not_supported(reason: str, *, event: Event, tool: str) -> types.CallToolResult:
    """Return the envelope of what this installation cannot do, and log which tool it was."""
    _log.warning(event, extra={"tool": tool, "reason": reason})
    return _error({"domain_code": "not_supported", "message": reason, "is_retryable": False})


def defect_result(error: Exception, *, tool: str) -> types.CallToolResult:
    """Return the envelope of a defect, without its words, which may quote a memory; the log has its type."""
    _log.error(Event.MCP_HANDLER_FAILED, extra={"tool": tool, "error": type(error).__name__})
    sentence = "the tool failed by a defect of memtend; its log names the error"
    return _error({"domain_code": "internal", "message": sentence, "is_retryable": False})


def _error(envelope: dict[str, Any]) -> types.CallToolResult:
    text = wrap_untrusted(TAG_RESULT, json.dumps(envelope))
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=envelope, is_error=True)
