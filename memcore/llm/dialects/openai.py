"""OpenAI's two APIs: chat completions, which most servers speak, and responses."""

from typing import Any

from pydantic import Field, SecretStr

from memcore.config.llm import Api
from memcore.llm.dialects.protocol import Answer, Count, Part, Read, Style, bearer, listed_ids, parsed
from memcore.llm.protocol import CompletionRequest


class _OpenAI:
    """What both share."""

    #: Servers have a context of their own.
    context_tokens = None

    def models_path(self, url: str) -> str:
        """Return the address of the list of models."""
        return f"{url}/models"

    def headers(self, key: SecretStr | None) -> dict[str, str]:
        """Return the bearer token."""
        return bearer(key)

    def models(self, content: bytes) -> tuple[str, ...] | None:
        """Return the names on the list of models."""
        return listed_ids(content)


class ChatCompletions(_OpenAI):
    """``/chat/completions``: OpenAI, vLLM, llama.cpp, LM Studio, and most gateways."""

    api = Api.CHAT

    def path(self, url: str) -> str:
        """Return the address for questions."""
        return f"{url}/chat/completions"

    def body(self, request: CompletionRequest, style: Style) -> dict[str, Any]:
        """Return a question; the form of the answer is ``response_format``."""
        body: dict[str, Any] = {
            "model": request.model,
            "messages": [{"role": each.role.value, "content": each.content} for each in request.messages],
            "max_completion_tokens" if style.completion_tokens else "max_tokens": request.max_tokens,
            "stream": False,
        }
        if style.temperature:
            body["temperature"] = request.temperature
        if request.json_schema is not None:
            schema = {"name": "answer", "schema": request.json_schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def usage(self, content: bytes) -> tuple[int, int] | None:
        """Return the tokens read and written."""
        counted = parsed(_ChatUsages, content)
        return None if counted is None else (counted.usage.prompt_tokens, counted.usage.completion_tokens)

    def answer(self, content: bytes) -> Answer | None:
        """Return the first choice; reasoning in ``reasoning_content``, or in parts of its own, is no answer."""
        answer = parsed(_ChatAnswer, content)
        if answer is None:
            return None
        choice = answer.choices[0]
        said = choice.message.content or ""
        text = said if isinstance(said, str) else "".join(part.text or "" for part in said if part.type == "text")
        reason = choice.finish_reason
        return Answer(text=text, is_cut=reason == "length", is_filtered=reason == "content_filter")


class Responses(_OpenAI):
    """``/responses``, where some models exist only."""

    api = Api.RESPONSES

    def path(self, url: str) -> str:
        """Return the address for questions."""
        return f"{url}/responses"

    def body(self, request: CompletionRequest, style: Style) -> dict[str, Any]:
        """Return a question that the server does not keep; the form of the answer is ``text.format``."""
        body: dict[str, Any] = {
            "model": request.model,
            "input": [{"role": each.role.value, "content": each.content} for each in request.messages],
            # It refuses less.
            "max_output_tokens": max(request.max_tokens, 16),
            "store": False,
            "stream": False,
        }
        if style.temperature:
            body["temperature"] = request.temperature
        if request.json_schema is not None:
            form = {"type": "json_schema", "name": "answer", "schema": request.json_schema, "strict": False}
            body["text"] = {"format": form}
        return body

    def usage(self, content: bytes) -> tuple[int, int] | None:
        """Return the tokens read and written."""
        counted = parsed(_ResponseUsages, content)
        return None if counted is None else (counted.usage.input_tokens, counted.usage.output_tokens)

    def answer(self, content: bytes) -> Answer | None:
        """Return the texts of the messages; items of reasoning are no answer."""
        answer = parsed(_Response, content)
        if answer is None:
            return None
        parts = [part for item in answer.output for part in item.content or ()]
        reason = None if answer.incomplete_details is None else answer.incomplete_details.reason
        return Answer(
            text="".join(part.text or "" for part in parts if part.type == "output_text"),
            is_cut=reason == "max_output_tokens",
            is_filtered=reason == "content_filter" or any(part.type == "refusal" for part in parts),
        )


class _Message(Read):
    content: str | list[Part] | None = None


class _Choice(Read):
    message: _Message
    finish_reason: str | None = None


class _ChatAnswer(Read):
    choices: list[_Choice] = Field(min_length=1)


class _ChatUsage(Read):
    prompt_tokens: Count
    completion_tokens: Count


class _ChatUsages(Read):
    usage: _ChatUsage


class _Item(Read):
    content: list[Part] | None = None


class _Incomplete(Read):
    reason: str | None = None


class _Response(Read):
    output: list[_Item] = Field(min_length=1)
    incomplete_details: _Incomplete | None = None


class _ResponseUsage(Read):
    input_tokens: Count
    output_tokens: Count


class _ResponseUsages(Read):
    usage: _ResponseUsage
