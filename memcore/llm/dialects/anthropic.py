"""Anthropic's messages."""

from typing import Any

import orjson
from pydantic import Field, SecretStr

from memcore.config.llm import Api
from memcore.llm.dialects.protocol import Answer, Count, Part, Read, Style, listed_ids, parsed
from memcore.llm.protocol import CompletionRequest
from memcore.models.execution import MessageRole

#: The version of the API whose fields these are.
_VERSION = "2023-06-01"

#: The tool that a model must call with its answer, where the answer has a form.
_TOOL = "answer"


class AnthropicMessages:
    """``/v1/messages``; the form of an answer is that of a tool which the model must call."""

    api = Api.ANTHROPIC
    context_tokens = None

    def path(self, url: str) -> str:
        """Return the address for questions."""
        return f"{_base(url)}/messages"

    def models_path(self, url: str) -> str:
        """Return the address of the list of models."""
        return f"{_base(url)}/models"

    def headers(self, key: SecretStr | None) -> dict[str, str]:
        """Return the version, and the key, which is no bearer token."""
        known = {} if key is None else {"x-api-key": key.get_secret_value()}
        return {"anthropic-version": _VERSION, **known}

    def body(self, request: CompletionRequest, style: Style) -> dict[str, Any]:
        """Return a question; what the system says is a field of its own."""
        system = "\n\n".join(each.content for each in request.messages if each.role is MessageRole.SYSTEM)
        rest = [each.content for each in request.messages if each.role is not MessageRole.SYSTEM]
        body: dict[str, Any] = {
            "model": request.model,
            "max_tokens": request.max_tokens,
            # It wants a message: where there are only rules, they are the question.
            "messages": [{"role": "user", "content": each} for each in rest or [system]],
        }
        if rest and system:
            body["system"] = system
        if style.temperature:
            # Its scale ends at 1.
            body["temperature"] = min(request.temperature, 1.0)
        if request.json_schema is not None:
            about = "Give your whole answer with this tool."
            body["tools"] = [{"name": _TOOL, "description": about, "input_schema": request.json_schema}]
            body["tool_choice"] = {"type": "tool", "name": _TOOL}
        return body

    def usage(self, content: bytes) -> tuple[int, int] | None:
        """Return the tokens read, those of its cache too, and written."""
        counted = parsed(_Usages, content)
        if counted is None:
            return None
        usage = counted.usage
        cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
        return usage.input_tokens + cached, usage.output_tokens

    def answer(self, content: bytes) -> Answer | None:
        """Return the call of the tool as JSON, or else the texts; blocks of thinking are no answer."""
        answer = parsed(_Answer, content)
        if answer is None:
            return None
        calls = [block.input for block in answer.content if block.type == "tool_use" and block.name == _TOOL]
        said = "".join(block.text or "" for block in answer.content if block.type == "text")
        return Answer(
            text=orjson.dumps(calls[0]).decode() if calls and calls[0] is not None else said,
            is_cut=answer.stop_reason == "max_tokens",
            is_filtered=answer.stop_reason == "refusal",
        )

    def models(self, content: bytes) -> tuple[str, ...] | None:
        """Return the names on the list of models."""
        return listed_ids(content)


def _base(url: str) -> str:
    return url if url.endswith("/v1") else f"{url}/v1"


class _Block(Part):
    name: str | None = None
    input: dict[str, Any] | None = None


class _Answer(Read):
    content: list[_Block] = Field(default_factory=list)
    # An error under status 200 has none.
    stop_reason: str | None


class _Usage(Read):
    input_tokens: Count
    output_tokens: Count
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None


class _Usages(Read):
    usage: _Usage
