"""How servers of language models are spoken to: a class for each API, and the rule that chooses one from a URL."""

from urllib.parse import urlsplit

from memcore.config.llm import Api
from memcore.llm.dialects.anthropic import AnthropicMessages
from memcore.llm.dialects.ollama import OllamaChat
from memcore.llm.dialects.openai import ChatCompletions, Responses
from memcore.llm.dialects.protocol import Dialect

#: The dialect of each API; ``auto`` is resolved before.
DIALECTS: dict[Api, Dialect] = {
    each.api: each for each in (ChatCompletions(), Responses(), AnthropicMessages(), OllamaChat())
}


def api_of(url: str, wanted: Api) -> Api:
    """Return the API that a policy names; for ``auto`` that of the URL.

    A host that ends with ``anthropic.com`` is Anthropic's, a path that ends with ``/api`` Ollama's, and every other
    server speaks OpenAI's chat completions.
    """
    if wanted is not Api.AUTO:
        return wanted
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return Api.CHAT
    if host == "anthropic.com" or host.endswith(".anthropic.com"):
        return Api.ANTHROPIC
    return Api.OLLAMA if parts.path.rstrip("/").endswith("/api") else Api.CHAT


def dialect_of(api: Api) -> Dialect:
    """Return the dialect of an API that is not ``auto``."""
    return DIALECTS[api]
