"""What a server says when it refuses a request, and what can be learnt of it; nothing of its words is repeated."""

import re
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Self

import orjson

from memcore.bounded_http import HttpResponse
from memcore.config.llm import MOST_CONTEXT_TOKENS

#: Statuses with which servers refuse a parameter, a form, a length or an API.
_TEACHES = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.NOT_IMPLEMENTED,
    }
)

#: An error's type as servers write it; anything else may quote the prompt, and is not repeated.
_TYPE = re.compile(r"[a-z][a-z_]{0,39}")

#: As much of a refusal as is read, in characters: what it is about stands at its beginning.
_READ_CHARS = 8_000

#: Least context that is believed, in tokens: a smaller number is one of something else.
_LEAST_BELIEVED = 256


class About(StrEnum):
    """What a request is refused for, where it can be asked in another way."""

    CONTEXT = "context"
    ANSWER_LENGTH = "answer_length"
    MAX_TOKENS = "max_tokens"
    TEMPERATURE = "temperature"
    SCHEMA = "schema"
    API = "api"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A refusal, read.

    Attributes:
        kind: the error's type, or else its code, where it is a plain word.
        code: the error's code.
        about: what it may be refused for, the likeliest first; a prompt that is quoted may name any of them, so each is
            tried, and kept only once the server has answered.
        limit: the context, or the longest answer, in tokens, where the server says it.
        prompt_tokens: the length of the prompt by the server's count, where it says it.
    """

    status: int
    kind: str | None
    code: str | None
    about: tuple[About, ...] = ()
    limit: int | None = None
    prompt_tokens: int | None = None

    @property
    def is_sure(self) -> bool:
        """Whether a type or code says that the context is too small, and its size is known: no prompt can say that."""
        return self.limit is not None and _is_context(f"{self.kind or ''} {self.code or ''}")

    @classmethod
    def of(cls, answer: HttpResponse) -> Self:
        """Read an answer whose status refuses."""
        kind, code, param = _named(answer.content)
        if answer.status not in _TEACHES:
            return cls(status=answer.status, kind=kind, code=code)
        text = answer.content.decode("utf-8", "replace")[:_READ_CHARS].lower()
        about = tuple(_about(text, code=f"{kind or ''} {code or ''}", param=param))
        first = about[0] if about else None
        return cls(
            status=answer.status,
            kind=kind,
            code=code,
            about=about,
            limit=_number(_LIMITS[first], text) if first is not None and first in _LIMITS else None,
            prompt_tokens=_number(_PROMPTS, text) if first is About.CONTEXT else None,
        )


def _named(content: bytes) -> tuple[str | None, str | None, str]:
    """Return an error's type, its code, and the parameter that it names."""
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None, None, ""
    details = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(details, dict):
        return None, None, ""
    kind, code, param = details.get("type"), details.get("code"), details.get("param")
    code = code if isinstance(code, str) else None
    kinds = (each for each in (kind, code) if isinstance(each, str) and _TYPE.fullmatch(each))
    return next(kinds, None), code, param.lower() if isinstance(param, str) else ""


_TOO_LONG = re.compile(
    r"context[ _](?:length|size|window|limit)|prompt (?:is )?too long|maximum model length|maximum input length"
    r"|input length exceeds|input tokens exceed|exceed_context"
)
_ANSWER_TOO_LONG = re.compile(
    r"max_(?:completion_|output_)?tokens\W[^\n]{0,80}(?:too large|too high|>|less than or equal|at most|maximum)"
)
_OTHER_API = re.compile(r"v1/responses|use the responses api|only supported in responses")
_REFUSES = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|extra_forbidden|extra (?:fields|inputs)|not permitted"
    r"|not allowed|invalid|deprecated|unavailable|not available|must be|may not|cannot|removed|not implemented"
    r"|failed to parse|does not"
)
_NAMES = {
    About.MAX_TOKENS: re.compile(r"\bmax_tokens\b"),
    About.TEMPERATURE: re.compile(r"\btemperature\b"),
    About.SCHEMA: re.compile(
        r"response_format|json_schema|text\.format|structured output|grammar|guided|schema|tool_choice|\btools?\b"
    ),
}
_LIMITS = {
    About.CONTEXT: re.compile(
        r"(?:maximum context length is|maximum model length of|context length of only|available context size \("
        r"|configured limit of|\"n_ctx\":\s?|(?:context|maximum) (?:length|size|window|limit)(?: is| of|:)?"
        r"|tokens > ) ?(?:\d{1,9} \+ \d{1,9} > )?(\d{3,8})"
    ),
    About.ANSWER_LENGTH: re.compile(
        r"(?:supports at most|at most|less than or equal to|maximum(?: value)?(?: is| of|:)?|\d >|<=) ?(\d{2,8})"
    ),
}
_PROMPTS = re.compile(
    r"(?:\"n_prompt_tokens\":\s?|too long: |resulted in |request has |request \(|prompt \(length |requested )(\d{2,9})"
)
_IN_MESSAGES = re.compile(r"\((\d{2,9}) in the messages")


def _about(text: str, *, code: str, param: str) -> list[About]:
    found = list[About]()
    if _is_context(code) or _TOO_LONG.search(text):
        found.append(About.CONTEXT)
    elif _ANSWER_TOO_LONG.search(text):
        found.append(About.ANSWER_LENGTH)
    if _OTHER_API.search(text):
        found.append(About.API)
    named = [about for about, name in _NAMES.items() if name.search(param)]
    if not named and _REFUSES.search(text):
        named = [about for about, name in _NAMES.items() if name.search(text)]
    return [*found, *named]


def _is_context(code: str) -> bool:
    return "context_length" in code or "exceed_context" in code


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = (_IN_MESSAGES.search(text) if pattern is _PROMPTS else None) or pattern.search(text)
    number = None if found is None else int(found[1])
    return number if number is not None and _believed(number, pattern) else None


def _believed(number: int, pattern: re.Pattern[str]) -> bool:
    least = _LEAST_BELIEVED if pattern is _LIMITS[About.CONTEXT] else 1
    return least <= number <= MOST_CONTEXT_TOKENS
