"""Scripted servers of language models, one for each dialect: they answer in a schema's form, and refuse as real ones.

Their refusals are in the words of the servers that they stand for.
"""

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from examples.stub_llm.schema import filled
from support.recording_server import Answer, Recorder, Request, recorder

#: The model of every scripted server.
MODEL = "small"

#: What their models think, and never say.
REASONING = "First I think about {the} answer."

#: A token of theirs, in bytes: fewer than memtend estimates, as with numbers and many languages.
BYTES_PER_TOKEN = 3

_IN_PROMPT = "Answer with one JSON value of this JSON schema, and with nothing else: "


@dataclass(kw_only=True)
class Script:
    """What a server refuses, and what its model says.

    Attributes:
        refuses: names of fields in the body.
        context: tokens of prompt and answer together; None takes any.
        says: the answer where a schema asks for text; a question without a schema gets it alone.
        key: the only key that is let in.
        status: answered to every question, with the body ``error``.
    """

    refuses: Collection[str] = ()
    context: int | None = None
    says: str = "because"
    key: str | None = None
    status: int | None = None
    error: Any = None
    models: tuple[str, ...] = (MODEL,)
    asked: list[dict[str, Any]] = field(default_factory=list)


def chat(script: Script) -> Answer:
    """OpenAI's chat completions."""

    def answer(request: Request) -> tuple[int, Any]:
        if not _may_enter(script, request.headers.get("authorization"), "Bearer "):
            error = {"message": "Incorrect API key", "type": "invalid_request_error", "code": "invalid_api_key"}
            return 401, {"error": error}
        if request.path.endswith("/models"):
            return 200, {"object": "list", "data": [{"id": each} for each in script.models]}
        if not request.path.endswith("/chat/completions"):
            return 404, {"error": {"message": f"Invalid URL ({request.path})", "type": "invalid_request_error"}}
        body = request.body
        if (refused := _refused(script, body, _openai_refusal)) is not None:
            return refused
        prompt = _prompt(body["messages"])
        most = body.get("max_tokens") or body["max_completion_tokens"]
        tokens = _tokens(prompt)
        if script.context is not None and tokens + most > script.context:
            message = (
                f"This model's maximum context length is {script.context} tokens. However, you requested "
                f"{tokens + most} tokens ({tokens} in the messages, {most} in the completion). Please reduce the "
                "length of the messages or completion."
            )
            error = {"message": message, "type": "invalid_request_error", "param": "messages"}
            return 400, {"error": {**error, "code": "context_length_exceeded"}}
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
        text = _said(script, schema, prompt)
        message_ = {"role": "assistant", "content": text, "reasoning_content": REASONING}
        usage = {"prompt_tokens": tokens, "completion_tokens": _tokens(text)}
        return 200, {"choices": [{"message": message_, "finish_reason": "stop"}], "usage": usage}

    return answer


def responses(script: Script) -> Answer:
    """OpenAI's responses; its model exists only there."""

    def answer(request: Request) -> tuple[int, Any]:
        if request.path.endswith("/models"):
            return 200, {"object": "list", "data": [{"id": each} for each in script.models]}
        if request.path.endswith("/chat/completions"):
            message = "This model is only supported in v1/responses and not in v1/chat/completions."
            return 404, {"error": {"message": message, "type": "invalid_request_error", "param": "model", "code": None}}
        body = request.body
        if (refused := _refused(script, body, _openai_refusal)) is not None:
            return refused
        prompt = _prompt(body["input"])
        text = _said(script, body.get("text", {}).get("format", {}).get("schema"), prompt)
        output = [
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": REASONING}]},
            {"type": "message", "content": [{"type": "output_text", "text": text}]},
        ]
        usage = {"input_tokens": _tokens(prompt), "output_tokens": _tokens(text)}
        return 200, {"status": "completed", "output": output, "usage": usage}

    return answer


def anthropic(script: Script) -> Answer:
    """Anthropic's messages."""

    def answer(request: Request) -> tuple[int, Any]:  # noqa: PLR0911  # one a refusal
        if not _may_enter(script, request.headers.get("x-api-key"), ""):
            return 401, {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
        if request.path == "/v1/models":
            return 200, {"data": [{"id": each, "type": "model"} for each in script.models]}
        if request.path != "/v1/messages":
            return 404, {"type": "error", "error": {"type": "not_found_error", "message": "Not found"}}
        body = request.body
        if (wrong := _wrong_message(request)) is not None:
            return 400, _anthropic_error(wrong)
        if (refused := _refused(script, body, _anthropic_refusal)) is not None:
            return refused
        prompt = f"{body.get('system', '')}\n{_prompt(body['messages'])}"
        tokens = _tokens(prompt)
        if script.context is not None and tokens > script.context:
            return 400, _anthropic_error(f"prompt is too long: {tokens} tokens > {script.context} maximum")
        content: list[dict[str, Any]] = [{"type": "thinking", "thinking": REASONING, "signature": "s"}]
        schema = body["tools"][0]["input_schema"] if "tools" in body else None
        text = _said(script, schema, prompt)
        if schema is None:
            content.append({"type": "text", "text": text})
        else:
            content.append({"type": "tool_use", "id": "t", "name": body["tools"][0]["name"], "input": json.loads(text)})
        usage = {"input_tokens": tokens - 1, "cache_read_input_tokens": 1, "output_tokens": _tokens(text)}
        return 200, {"type": "message", "content": content, "stop_reason": "end_turn", "usage": usage}

    return answer


_ANTHROPIC_FIELDS = {
    "model", "max_tokens", "messages", "system", "temperature", "tools", "tool_choice", "thinking", "metadata",
}  # fmt: skip


def _wrong_message(request: Request) -> str | None:
    body = request.body
    if "anthropic-version" not in request.headers:
        return "anthropic-version: header is required"
    if "max_tokens" not in body:
        return "max_tokens: Field required"
    if any(each["role"] == "system" for each in body["messages"]):
        return 'messages: Unexpected role "system".'
    unknown = body.keys() - _ANTHROPIC_FIELDS
    return f"{min(unknown)}: Extra inputs are not permitted" if unknown else None


def ollama(script: Script) -> Answer:
    """Ollama's own API; it cuts a prompt that is longer than num_ctx without a word, and a test fails for that."""

    def answer(request: Request) -> tuple[int, Any]:
        if request.path == "/api/tags":
            return 200, {"models": [{"name": each, "model": each} for each in script.models]}
        if request.path != "/api/chat":
            return 404, "404 page not found"
        body = request.body
        if body["model"] not in script.models:
            return 404, {"error": f"model '{body['model']}' not found"}
        if (refused := _refused(script, body, _ollama_refusal)) is not None:
            return refused
        prompt = _prompt(body["messages"])
        text = _said(script, body.get("format"), prompt)
        message = {"role": "assistant", "content": text, "thinking": REASONING}
        counts = {"prompt_eval_count": _tokens(prompt), "eval_count": _tokens(text)}
        return 200, {"model": body["model"], "message": message, "done": True, "done_reason": "stop", **counts}

    return answer


@contextmanager
def model_server(dialect: Callable[[Script], Answer], script: Script | None = None) -> Iterator[Recorder]:
    """Yield a running server of a dialect; its addresses are ``url`` with ``/v1``, or with ``/api``."""
    script = script or Script()
    play = dialect(script)

    def answer(request: Request) -> tuple[int, Any]:
        if request.method == "POST" and script.status is not None:
            return script.status, script.error
        return play(request)

    with recorder(answer) as server:
        yield server


def questions(server: Recorder) -> list[Request]:
    """Return the questions that a server got, in order."""
    return [each for each in server.requests if each.method == "POST"]


def _may_enter(script: Script, given: str | None, prefix: str) -> bool:
    return script.key is None or given == f"{prefix}{script.key}"


def _refused(script: Script, body: dict[str, Any], words: Callable[[str], tuple[int, Any]]) -> tuple[int, Any] | None:
    return next((words(name) for name in script.refuses if name in body), None)


def _openai_refusal(name: str) -> tuple[int, Any]:
    messages = {
        "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead.",
        "temperature": "Unsupported value: 'temperature' does not support 0.3 with this model. Only the default (1) "
        "value is supported.",
        "response_format": "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this "
        "model. Learn more about supported models.",
    }
    error = {"type": "invalid_request_error", "param": name, "code": "unsupported_parameter"}
    return 400, {"error": {"message": messages[name], **error}}


def _anthropic_refusal(name: str) -> tuple[int, Any]:
    messages = {
        "temperature": "`temperature` is deprecated for this model.",
        "tool_choice": "Thinking may not be enabled when tool_choice forces tool use.",
    }
    return 400, _anthropic_error(messages[name])


def _ollama_refusal(name: str) -> tuple[int, Any]:
    return 400, {"error": f"invalid {name}: failed to parse grammar"}


def _anthropic_error(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def _prompt(messages: list[dict[str, Any]]) -> str:
    return "\n".join(str(each["content"]) for each in messages)


def _tokens(text: str) -> int:
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def _said(script: Script, schema: dict[str, Any] | None, prompt: str) -> str:
    if schema is None and _IN_PROMPT in prompt:
        schema, _ = json.JSONDecoder().raw_decode(prompt.rpartition(_IN_PROMPT)[2])
    return script.says if schema is None else json.dumps(filled(schema, script.says))
