"""What the stub says: the keywords of what it was shown, in the form that was asked for; of an execution its lesson."""

import html
import json
import re
from dataclasses import dataclass, replace
from typing import Any

from examples.stub_llm.conversation import conversation_answer, kind_of
from examples.stub_llm.fault import Fault, Scripted
from examples.stub_llm.lesson import is_lesson, lesson_of
from examples.stub_llm.schema import filled
from memcore.embedding.languages import ENGLISH_STOP_WORDS

#: Bytes of a token, for the stub as for the estimate of those who ask it.
BYTES_PER_TOKEN = 4

#: How many times as much as allowed an answer that is too long has.
OVER_LONG_TIMES = 20

_FENCE = re.compile(r"<([a-z][a-z-]*)>\n(.*?)\n</\1>", re.DOTALL)
_TAG = re.compile(r"</?[a-z][a-z-]*>")
_WORD = re.compile(r"\w[\w.:/@%'-]*\w|\w")
_COMMAND = re.compile(r"(?is)\bignore\b[^.\n]{0,60}\binstructions?\b[\s.,:;]*(?:and\s+)?(.{1,400})")
_SETTING = re.compile(r"(?i)\bset (\w{1,40}) to (\w{1,40})")


@dataclass(frozen=True, slots=True, kw_only=True)
class StubResponse:
    """A text with its bill.

    Attributes:
        text: what the model says.
        finish_reason: why it stops.
        prompt_tokens: read.
        completion_tokens: written.
    """

    text: str
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0


def answered(body: dict[str, Any], *, obedient: bool, scripted: Scripted | None = None) -> StubResponse:
    """Return the same answer for the same body, spoiled as the order says, if there is one."""
    data = _data(body)
    most = int(body.get("max_tokens") or 256)
    reported = _shown_fact(data) if obedient else None
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
    if schema is None:
        text = reported or _keywords(data, bytes_left=most * BYTES_PER_TOKEN)
    elif reported is None and (kind := kind_of(schema)) is not None:
        text = json.dumps(conversation_answer(kind, _shown(body)), ensure_ascii=False)
    elif reported is None and is_lesson(schema):
        text = json.dumps(lesson_of(_shown(body)), ensure_ascii=False)
    else:
        made = filled(schema, reported or _keywords(data, bytes_left=most))
        if reported and isinstance(made, dict):
            made |= dict(_SETTING.findall(data))
        text = json.dumps(made, ensure_ascii=False)
    answer = _spoiled(StubResponse(text=text), scripted, most=most)
    return replace(answer, prompt_tokens=_tokens(prompt_of(body)), completion_tokens=_tokens(answer.text))


def prompt_of(body: dict[str, Any]) -> str:
    """Return the text of all messages."""
    return "\n".join(str(message["content"]) for message in body["messages"])


def _data(body: dict[str, Any]) -> str:
    """Return what the first question shows: the text behind its fences, or all of it."""
    shown = _shown(body)
    fenced = [text for _, text in _FENCE.findall(shown)]
    return html.unescape("\n".join(fenced) if fenced else shown)


def _shown(body: dict[str, Any]) -> str:
    return next((str(each["content"]) for each in body["messages"] if each["role"] == "user"), "")


def _keywords(data: str, *, bytes_left: int) -> str:
    """Return the words that say most, each once, in the order of the text, in at most so many bytes."""
    words = dict.fromkeys(word for word in _WORD.findall(_TAG.sub(" ", data)) if word.lower() not in ENGLISH_STOP_WORDS)
    kept = set()
    for word in sorted(words, key=_weight, reverse=True):
        bytes_left -= len(word.encode()) + 1
        if bytes_left < 0:
            break
        kept.add(word)
    return " ".join(word for word in words if word in kept) or "nothing"


def _weight(word: str) -> tuple[bool, bool, int, str]:
    return any(map(str.isdigit, word)), word[0].isupper(), len(word), word


def _shown_fact(data: str) -> str | None:
    """Return what a model says that does what its data tell it to do, or None when they tell it nothing."""
    command = _COMMAND.search(data)
    return None if command is None else f"I obey and say: {command[1].strip()}"


def _spoiled(answer: StubResponse, scripted: Scripted | None, *, most: int) -> StubResponse:  # noqa: PLR0911  # one a fault
    match scripted and scripted.fault:
        case Fault.SAY:
            return replace(answer, text=scripted.text if scripted else "")
        case Fault.BLANK:
            return replace(answer, text=" \n ")
        case Fault.BAD_JSON:
            return replace(answer, text=f"Here it is: {answer.text[:-1]}")
        case Fault.OTHER_JSON:
            return replace(answer, text=json.dumps({"unexpected": answer.text}))
        case Fault.FENCED:
            return replace(answer, text=f"Here it is:\n```json\n{answer.text}\n```\nI hope it helps.")
        case Fault.OVER_LONG:
            times = OVER_LONG_TIMES * most * BYTES_PER_TOKEN // len(answer.text.encode()) + 1
            return replace(answer, text=" ".join([answer.text] * times))
        case Fault.CUT:
            return replace(answer, text=answer.text[: max(1, len(answer.text) // 2)], finish_reason="length")
        case Fault.FILTERED:
            return replace(answer, text="", finish_reason="content_filter")
        case _:
            return answer


def _tokens(text: str) -> int:
    return -(-len(text.encode()) // BYTES_PER_TOKEN)
