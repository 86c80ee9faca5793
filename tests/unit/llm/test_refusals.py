"""What servers say when they refuse, in their own words, and what is learnt of it."""

import json

import pytest

from memcore.bounded_http import HttpResponse
from memcore.llm.refusals import About, Refusal

CONTEXT, MAX_TOKENS, TEMPERATURE, SCHEMA = About.CONTEXT, About.MAX_TOKENS, About.TEMPERATURE, About.SCHEMA

#: Of each server: its words, what they are about, the size that they say, and the length of the prompt.
WORDS: dict[str, tuple[object, About | None, int | None, int | None]] = {
    "OpenAI, too long": (
        {
            "error": {
                "message": "This model's maximum context length is 8192 tokens. However, you requested 10000 tokens "
                "(9000 in the messages, 1000 in the completion). Please reduce the length of the messages.",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
        CONTEXT, 8_192, 9_000,
    ),
    "OpenAI, too long without the answer": (
        {
            "error": {
                "message": "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
                "300010 tokens. Please reduce the length of the messages.",
                "code": "context_length_exceeded",
            }
        },
        CONTEXT, 272_000, 300_010,
    ),
    "vLLM, too long": (
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, your request has 5000 input "
            "tokens. Please reduce the length of the input messages.",
            "type": "BadRequestError",
            "code": 400,
        },
        CONTEXT, 4_096, 5_000,
    ),
    "vLLM, answer and prompt": (
        {
            "message": "'max_tokens' or 'max_completion_tokens' is too large: 4000. This model's maximum context "
            "length is 4096 tokens and your request has 500 input tokens (4000 > 4096 - 500).",
        },
        CONTEXT, 4_096, 500,
    ),
    "vLLM, decoder": (
        {"message": "The decoder prompt (length 5001) is longer than the maximum model length of 4096."},
        CONTEXT, 4_096, 5_001,
    ),
    "llama.cpp, too long": (
        {
            "error": {
                "code": 400,
                "message": "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 5000,
                "n_ctx": 4096,
            }
        },
        CONTEXT, 4_096, 5_000,
    ),
    "llama.cpp, without a number": (
        {"error": {"message": "the request exceeds the available context size. try increasing the context size"}},
        CONTEXT, None, None,
    ),
    "LM Studio, too long": (
        {
            "error": "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded "
            "with context length of only 4096 tokens, which is not enough."
        },
        CONTEXT, 4_096, None,
    ),
    "Ollama, too long": ({"error": "the input length exceeds the context length"}, CONTEXT, None, None),
    "Anthropic, too long": (
        {"error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}},
        CONTEXT, 200_000, 210_000,
    ),
    "Anthropic, prompt and answer": (
        {"error": {"message": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease"}},
        CONTEXT, 200_000, None,
    ),
    "OpenAI, answer too long": (
        {
            "error": {
                "message": "max_tokens is too large: 5000. This model supports at most 4096 completion tokens, whereas "
                "you provided 5000.",
                "param": "max_tokens",
            }
        },
        About.ANSWER_LENGTH, 4_096, None,
    ),
    "Anthropic, answer too long": (
        {
            "error": {
                "message": "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for small"
            }
        },
        About.ANSWER_LENGTH, 8_192, None,
    ),
    "OpenAI, max_tokens": (
        {
            "error": {
                "message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                "'max_completion_tokens' instead.",
                "param": "max_tokens",
                "code": "unsupported_parameter",
            }
        },
        MAX_TOKENS, None, None,
    ),
    "OpenAI, temperature": (
        {"error": {"message": "Unsupported value: 'temperature' does not support 0.3", "param": "temperature"}},
        TEMPERATURE, None, None,
    ),
    "Anthropic, temperature": (
        {"error": {"message": "`temperature` is deprecated for this model."}}, TEMPERATURE, None, None
    ),
    "OpenAI, schema": (
        {"error": {"message": "Invalid schema for response_format 'answer'", "param": "response_format"}},
        SCHEMA, None, None,
    ),
    "DeepSeek, schema": ({"error": {"message": "This response_format type is unavailable now"}}, SCHEMA, None, None),
    "llama.cpp, schema": ({"error": {"message": "Failed to parse grammar"}}, SCHEMA, None, None),
    "LM Studio, schema": ({"error": "'response_format.type' must be 'json_schema' or 'text'"}, SCHEMA, None, None),
    "FastAPI, unknown field": (
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "response_format"], "msg": "Extra inputs"}]},
        SCHEMA, None, None,
    ),
    "OpenAI, other API": (
        {"error": {"message": "This model is only supported in v1/responses and not in v1/chat/completions."}},
        About.API, None, None,
    ),
    "a key": ({"error": {"message": "invalid api key", "type": "authentication_error"}}, None, None, None),
    "no JSON": ("Bad Request", None, None, None),
}  # fmt: skip


def read(words: object, status: int = 400) -> Refusal:
    return Refusal.of(HttpResponse(status=status, headers={}, content=json.dumps(words).encode()))


@pytest.mark.parametrize(("words", "about", "limit", "prompt"), WORDS.values(), ids=list(WORDS))
def test_a_refusal_is_read_as_its_server_means_it(
    words: object, about: About | None, limit: int | None, prompt: int | None
) -> None:
    found = read(words)
    assert (found.about[0] if found.about else None) is about
    assert (found.limit, found.prompt_tokens) == (limit, prompt)


def test_a_status_that_refuses_no_parameter_teaches_nothing() -> None:
    assert [read(WORDS["OpenAI, temperature"][0], status).about for status in (401, 429, 500)] == [(), (), ()]


def test_only_a_type_or_a_code_is_sure() -> None:
    assert read(WORDS["llama.cpp, too long"][0]).is_sure
    assert not read(WORDS["vLLM, too long"][0]).is_sure


@pytest.mark.parametrize("size", ["12", "99999999"])
def test_a_size_that_no_model_has_is_not_believed(size: str) -> None:
    assert read({"message": f"maximum context length is {size} tokens"}).limit is None
