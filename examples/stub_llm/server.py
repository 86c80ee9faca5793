"""The stub's server: chat completions, the list of models, and the calls that order it about."""

import json
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from pydantic import ValidationError

from examples.stub_llm.answer import StubResponse, prompt_of
from examples.stub_llm.books import ScriptedAnswers
from examples.stub_llm.fault import Fault, Scripted, StubOrders

#: The one model that it offers; it answers under every name.
MODEL = "stub-small"


class StubServer(ThreadingHTTPServer):
    """Serve on loopback; a port of 0 takes any that is free."""

    daemon_threads = True

    def __init__(self, orders: StubOrders, *, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.scripted_answers = ScriptedAnswers(orders)

    @property
    def url(self) -> str:
        """The base address, as MEMTEND_LLM_URL wants it."""
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: Head and body go in two writes; the second would wait 40 ms for an acknowledgement.
    disable_nagle_algorithm = True

    @property
    def _scripted_answers(self) -> ScriptedAnswers:
        return cast("StubServer", self.server).scripted_answers

    def do_GET(self) -> None:
        match self.path:
            case "/health":
                self._send(HTTPStatus.OK, {"ok": True})
            case "/v1/models" if self._may_enter():
                self._send(HTTPStatus.OK, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
            case "/stub/log":
                self._send(HTTPStatus.OK, self._scripted_answers.log())
            case "/v1/models":
                self._send(HTTPStatus.UNAUTHORIZED, _error("who are you?", "authentication_error"))
            case _:
                self._send(HTTPStatus.NOT_FOUND, _error("no such call", "not_found_error"))

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"] or 0))
        match self.path:
            case "/v1/chat/completions":
                self._chat(json.loads(content))
            case "/stub/orders":
                try:
                    self._scripted_answers.set(StubOrders.model_validate_json(content))
                except ValidationError as error:
                    self._send(HTTPStatus.UNPROCESSABLE_ENTITY, _error(str(error), "invalid_request_error"))
                else:
                    self._send(HTTPStatus.OK, {})
            case "/stub/forget":
                self._scripted_answers.forget()
                self._send(HTTPStatus.OK, {})
            case _:
                self._send(HTTPStatus.NOT_FOUND, _error("no such call", "not_found_error"))

    def _chat(self, body: dict[str, Any]) -> None:
        scripted_answers, may_enter = self._scripted_answers, self._may_enter()
        answer, scripted = scripted_answers.take(
            {name.lower(): value for name, value in self.headers.items()}, body, may_enter=may_enter
        )
        time.sleep(scripted_answers.orders.seconds)
        if may_enter:
            self._answer(answer, scripted, body)
        else:
            self._send(
                HTTPStatus.UNAUTHORIZED, _error(f"who are you, to ask {prompt_of(body)}?", "authentication_error")
            )

    def _answer(self, answer: StubResponse, scripted: Scripted | None, body: dict[str, Any]) -> None:
        match scripted:
            case Scripted(fault=Fault.DROP | Fault.LOSE):
                self.close_connection = True
            case Scripted(fault=Fault.STATUS, status=status, retry_after=wait, kind=kind):
                headers = {} if wait is None else {"Retry-After": wait}
                # Servers quote what they refuse: none of it may come out of the provider.
                self._send(status, _error(f"cannot do: {prompt_of(body)}", kind), **headers)
            case Scripted(fault=Fault.MALFORMED):
                self._send(HTTPStatus.OK, f"<html>{prompt_of(body)}".encode())
            case Scripted(fault=Fault.HANG, seconds=seconds):
                time.sleep(seconds)
                self._send(HTTPStatus.OK, _completion(answer, body))
            case Scripted(fault=Fault.NO_CHOICES):
                self._send(HTTPStatus.OK, _completion(answer, body) | {"choices": []})
            case Scripted(fault=Fault.UNCOUNTED):
                self._send(HTTPStatus.OK, _completion(answer, body) | {"usage": None})
            case _:
                self._send(HTTPStatus.OK, _completion(answer, body))

    def _may_enter(self) -> bool:
        key = self._scripted_answers.orders.key
        return key is None or self.headers["Authorization"] == f"Bearer {key}"

    def _send(self, status: int, made: Any, **headers: str) -> None:
        content = made if isinstance(made, bytes) else json.dumps(made).encode()
        try:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers, "Content-Length": len(content)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True  # the client did not wait

    def log_message(self, format: str, *_: Any) -> None:  # noqa: A002  # the library's name for it
        """Print nothing: the log is at /stub/log."""


def _completion(answer: StubResponse, body: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer.text}
    return {
        "id": "stub",
        "object": "chat.completion",
        "created": 0,
        "model": body.get("model", MODEL),
        "choices": [{"index": 0, "message": message, "finish_reason": answer.finish_reason}],
        "usage": {
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "total_tokens": answer.prompt_tokens + answer.completion_tokens,
        },
    }


def _error(message: str, kind: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}
