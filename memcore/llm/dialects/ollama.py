"""Ollama's own API, where a request sets the size of the context."""

from typing import Any

from pydantic import SecretStr

from memcore.config.llm import Api
from memcore.llm.dialects.protocol import Answer, Count, Read, Style, bearer, parsed
from memcore.llm.protocol import CompletionRequest

#: The context that is asked for, in tokens, where ``memory.llm.context_tokens`` is not set. Ollama cuts a longer prompt
#: without a word, and its own default of 2,048 or 4,096 cuts ours; another size loads the model anew, so one for all.
CONTEXT_TOKENS = 8_192


class OllamaChat:
    """``/api/chat``."""

    api = Api.OLLAMA
    context_tokens = CONTEXT_TOKENS

    def path(self, url: str) -> str:
        """Return the address for questions."""
        return f"{_base(url)}/chat"

    def models_path(self, url: str) -> str:
        """Return the address of the list of models."""
        return f"{_base(url)}/tags"

    def headers(self, key: SecretStr | None) -> dict[str, str]:
        """Return the bearer token; a server on the own machine has none."""
        return bearer(key)

    def body(self, request: CompletionRequest, style: Style) -> dict[str, Any]:
        """Return a question; the form of the answer is ``format``, and its limits are options."""
        options: dict[str, Any] = {
            "num_ctx": style.context_tokens or CONTEXT_TOKENS,
            "num_predict": request.max_tokens,
        }
        if style.temperature:
            options["temperature"] = request.temperature
        body: dict[str, Any] = {
            "model": request.model,
            "messages": [{"role": each.role.value, "content": each.content} for each in request.messages],
            "stream": False,
            "options": options,
        }
        if request.json_schema is not None:
            body["format"] = request.json_schema
        return body

    def usage(self, content: bytes) -> tuple[int, int] | None:
        """Return the tokens read and written; it leaves out those read where its cache knew the prompt."""
        counted = parsed(_Usage, content)
        return None if counted is None else (counted.prompt_eval_count, counted.eval_count)

    def answer(self, content: bytes) -> Answer | None:
        """Return the message; what stands in ``thinking`` is no answer."""
        answer = parsed(_Answer, content)
        if answer is None:
            return None
        return Answer(text=answer.message.content or "", is_cut=answer.done_reason == "length")

    def models(self, content: bytes) -> tuple[str, ...] | None:
        """Return the names on the list of models."""
        listed = parsed(_Models, content)
        return None if listed is None else tuple(model.name for model in listed.models)


def _base(url: str) -> str:
    return url if url.endswith("/api") else f"{url}/api"


class _Message(Read):
    content: str | None = None


class _Answer(Read):
    message: _Message
    done_reason: str | None = None


class _Usage(Read):
    prompt_eval_count: Count
    eval_count: Count


class _Model(Read):
    name: str


class _Models(Read):
    models: list[_Model]
