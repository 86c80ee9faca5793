"""The router: a model's own API, with what is remembered of the person; the rest goes through byte for byte."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from support import kept_conversations
from support.http_api import HttpApi, http_api
from support.memories import new_agent
from support.running_stack import StackAddress, wait_until
from support.upstream import Upstream, upstream

from memcore.clock import utc_now
from memcore.config.loader import load_policy
from memcore.errors import MemoryConnectionError
from memcore.ledger.access.keys import Verb
from memcore.memory.async_memory import AsyncMemory
from memcore.models.conversation import Owner
from ops.http.limits import MAX_BODY_BYTES, MAX_ROUTED_BYTES
from ops.http.router.forwarding import Upstreams

SECRET = "sk-of-the-caller-4711"
QUOTE = "I drink green tea in the morning"
ASKED = "What do I drink in the morning?"

CHAT = "/router/v1/chat/completions"


@dataclass(frozen=True, kw_only=True)
class Routed:
    """A served installation with an upstream, and an agent that knows something of ada."""

    api: HttpApi
    upstream: Upstream
    agent: str

    def client(self, **key: Any) -> httpx.AsyncClient:
        client = self.api.client()
        token = self.api.key(**key)
        client.headers.update({"x-memtend-key": token, "Authorization": f"Bearer {SECRET}"})
        client.headers["x-memtend-agent"] = self.agent
        return client

    def turns(self) -> list[tuple[str | None, str | None]]:
        """Return the turns that were kept of ada, in their order."""
        ledger, company = self.api.context.ledger, self.api.context.settings.company
        sessions = ledger.sessions.page(company, Owner(agent_id=self.agent, subject="user:ada"), limit=10)
        found = [turn for session in sessions for turn in ledger.turns.of_session(company, session.session_key)]
        return [(each.user_text, each.assistant_text) for each in found]


@asynccontextmanager
async def routed(stack: StackAddress) -> AsyncIterator[Routed]:
    async with upstream() as model, http_api(stack.settings) as api:
        api.context.policies.policy = load_policy(
            f"memory: {{router: {{upstreams: {{main: '{model.url}', other: '{model.url}/other'}}, agent: somebody}}}}"
        )
        agent, ledger, company = new_agent("routed"), api.context.ledger, stack.settings.company
        fact = kept_conversations.fact(f"tea-{agent}", QUOTE, at=utc_now(), object="green tea", predicate="DRINKS")
        kept_conversations.keep(ledger, Owner(agent_id=agent, subject="user:ada"), fact, company=company)
        yield Routed(api=api, upstream=model, agent=agent)


async def until(condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, condition)


def body_of(path: str, text: str = ASKED, **more: Any) -> bytes:
    """Return a request as some client might write it."""
    turns = [{"role": "user", "content": "Hello \u00e9"}, {"role": "assistant", "content": "Hi."}]
    said: Any = [*turns, {"role": "user", "content": text}]
    return json.dumps(
        {"model": "m", "input" if path.endswith("responses") else "messages": said, **more},
        ensure_ascii=False, separators=(" ,  ", ":\t"),
    ).encode()  # fmt: skip


ANSWERS = {
    CHAT: {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Green tea."}}]},
    "/router/v1/messages": {"type": "message", "content": [{"type": "text", "text": "Green tea."}]},
    "/router/v1/responses": {
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Green tea."}]}]
    },
}


@pytest.mark.parametrize("path", ANSWERS)
async def test_the_model_is_shown_what_is_remembered_and_the_turn_is_kept(stack: StackAddress, path: str) -> None:
    async with routed(stack) as at, at.client() as client:
        answer = b" " + json.dumps(ANSWERS[path]).encode()
        at.upstream.parts = (answer[:9], answer[9:])
        at.upstream.headers |= {"X-Request-Id": "r-1", "Set-Cookie": "session=of-ada"}
        sent = body_of(path, user="ada")
        got = await client.post(f"{path}?beta=true", content=sent, headers={"Content-Type": "application/json"})
        assert (got.status_code, got.content, got.headers["x-memtend-memory"]) == (200, answer, "shown")
        assert (got.headers["x-request-id"], got.headers["set-cookie"]) == ("r-1", "session=of-ada")
        (request,) = at.upstream.received
        assert request.line == f"POST {path.replace('/router', '')}?beta=true HTTP/1.1"
        assert request.headers["authorization"] == f"Bearer {SECRET}"
        assert [name for name in request.headers if "memtend" in name] == []
        # But for the memory before the person's last words, every byte is the caller's.
        begun = sent.index(ASKED.encode())
        assert request.body.startswith(sent[:begun])
        assert request.body.endswith(sent[begun:])
        memory = request.body[begun : len(request.body) - len(sent[begun:])].decode()
        assert QUOTE in memory
        assert "<person-memory kind=" in memory
        await until(lambda: at.turns() == [(ASKED, "Green tea.")])
        # Sent again, as clients do behind a lost answer, it is kept once; and nobody has another's cookies.
        await client.post(path, content=sent)
        async with at.client() as another:
            await another.post(path, content=body_of(path, "And at night?", user="ada"))
        assert "cookie" not in at.upstream.received[-1].headers
        await until(lambda: len(at.turns()) == 2)
        assert at.turns() == [(ASKED, "Green tea."), ("And at night?", "Green tea.")]


async def test_without_a_person_or_turned_off_every_byte_goes_through(
    stack: StackAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[tuple[str, str | None]] = []

    async def extract_turn(_self: AsyncMemory, agent: str, *, user_id: str | None, **_more: Any) -> None:
        kept.append((agent, user_id))

    monkeypatch.setattr(AsyncMemory, "extract_turn", extract_turn)
    async with routed(stack) as at, at.client() as client:
        at.upstream.parts = (json.dumps(ANSWERS[CHAT]).encode(),)
        for body, headers, state in (
            (body_of(CHAT), {}, "none"),
            (body_of(CHAT, user="bo"), {}, "none"),
            (body_of(CHAT, user="ada"), {"x-memtend-memory": "off"}, "off"),
            (body_of(CHAT, user="ada"), {"x-memtend-user": "bo"}, "none"),
            (body_of(CHAT, user="ada"), {"x-memtend-agent": "somebody-else"}, "none"),
            (b"{ no json", {}, "none"),
        ):
            got = await client.post(CHAT, content=body, headers=headers)
            assert (got.headers["x-memtend-memory"], at.upstream.received[-1].body) == (state, body)
        got = await client.post(CHAT, content=body_of(CHAT), headers={"x-memtend-user": "ada"})
        assert got.headers["x-memtend-memory"] == "shown"
        for method, path in (("GET", "models"), ("POST", "embeddings"), ("POST", "messages/count_tokens")):
            body = body_of(CHAT, user="ada") if method == "POST" else b""
            got = await client.request(method, f"/router/v1/{path}", content=body)
            assert (got.status_code, at.upstream.received[-1].body) == (200, body)
            assert at.upstream.received[-1].line == f"{method} /v1/{path} HTTP/1.1"
        assert kept == [(at.agent, "bo"), (at.agent, "bo"), ("somebody-else", "ada"), (at.agent, "ada")]


async def test_a_stream_goes_through_and_one_that_breaks_off_is_not_kept(stack: StackAddress) -> None:
    chunks = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in ("Green", " tea.")]
    parts = [b"data: %s\n\n" % json.dumps(each).encode() for each in chunks]
    async with routed(stack) as at, at.client() as client:
        at.upstream.headers = {"Content-Type": "text/event-stream; charset=utf-8"}
        at.upstream.parts, at.upstream.breaks_off = parts, True
        await client.post(CHAT, content=body_of(CHAT, "Broken off?", user="ada", stream=True))
        at.upstream.breaks_off = False
        got = await client.post(CHAT, content=body_of(CHAT, user="ada", stream=True))
        assert (got.content, got.headers["content-type"]) == (b"".join(parts), "text/event-stream; charset=utf-8")
        await until(lambda: at.turns() == [(ASKED, "Green tea.")])


async def test_what_the_upstream_refuses_is_passed_on_and_nothing_is_kept(stack: StackAddress) -> None:
    async with routed(stack) as at, at.client() as client:
        at.upstream.parts = (json.dumps(ANSWERS[CHAT]).encode(),)
        for status, headers in (("429 Too Many Requests", {"Retry-After": "7"}), ("302 Found", {"Location": "/x"})):
            at.upstream.status, at.upstream.headers = status, {"Content-Type": "application/json", **headers}
            got = await client.post(CHAT, content=body_of(CHAT, f"Refused: {status}", user="ada"))
            assert (got.status_code, got.content) == (int(status[:3]), at.upstream.parts[0])
            assert headers.items() <= {name.title(): value for name, value in got.headers.items()}.items()
        at.upstream.status = "200 OK"
        await client.post(CHAT, content=body_of(CHAT, user="ada"))
        await until(lambda: at.turns() == [(ASKED, "Green tea.")])
        assert len(at.upstream.received) == 3


async def test_an_upstream_that_is_away_is_said(stack: StackAddress) -> None:
    async with http_api(stack.settings) as api, api.client() as client:
        api.context.policies.policy = load_policy("memory: {router: {upstreams: {gone: 'http://127.0.0.1:1/v1'}}}")
        client.headers["x-memtend-key"] = api.key()
        got = await client.post(CHAT, content=body_of(CHAT, user="ada"))
        assert (got.status_code, got.json()["is_retryable"]) == (503, True)


@pytest.mark.parametrize("error", [MemoryConnectionError("away"), TimeoutError(), RuntimeError("a defect")])
async def test_a_memory_that_is_away_costs_the_call_nothing_else(
    stack: StackAddress, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def away(*_given: Any, **_more: Any) -> Any:
        raise error

    async with routed(stack) as at, at.client() as client:
        await client.post(CHAT, content=body_of(CHAT))
        monkeypatch.setattr(AsyncMemory, "load_turn", away)
        if not isinstance(error, RuntimeError):
            monkeypatch.setattr(AsyncMemory, "extract_turn", away)
            monkeypatch.setattr(type(at.api.context), "service", away)
        sent = body_of(CHAT, user="ada")
        got = await client.post(CHAT, content=sent)
        assert (got.status_code, got.headers["x-memtend-memory"]) == (200, "away")
        assert at.upstream.received[-1].body == sent


async def test_a_key_is_needed_for_the_agent_and_no_other_address_is_reached(stack: StackAddress) -> None:
    async with routed(stack) as at:
        body = body_of(CHAT, user="ada")
        async with at.api.client(at.api.key()) as outsider:
            # A key of memtend in the model's place is no key here, and goes nowhere.
            assert (await outsider.post(CHAT, content=body)).status_code == 401
        for key in ({"agents": ["somebody"]}, {"verbs": (Verb.READ,)}, {"verbs": (Verb.WRITE,)}):
            async with at.client(**key) as client:
                assert (await client.post(CHAT, content=body)).status_code == 403
        async with at.client() as client:
            for path, headers, status in (
                ("/router/v1/files", {}, 404),
                ("/router/v1/", {}, 404),
                ("/router/v1/chat/completions/", {}, 404),
                (CHAT, {"x-memtend-upstream": "http://127.0.0.1:2"}, 422),
                (CHAT, {"x-memtend-agent": " "}, 200),
                (CHAT, {"x-memtend-agent": "x" * 300}, 422),
                (CHAT, {"x-memtend-user": "x" * 300}, 422),
                (CHAT, {"x-memtend-upstream": "other"}, 200),
            ):
                got = await client.post(path, content=body, headers=headers)
                assert got.status_code == status, (path, headers, got.text)
            assert [each.line.split()[1] for each in at.upstream.received] == [
                "/v1/chat/completions",
                "/v1/other/chat/completions",
            ]
            assert (await client.get(CHAT)).status_code == 404
            large = body_of(CHAT, "x" * (2 * MAX_BODY_BYTES), user="ada")
            assert (await client.post(CHAT, content=large)).status_code == 200
            assert (await client.post(CHAT, content=b"x" * (MAX_ROUTED_BYTES + 1))).status_code == 413


async def test_without_an_upstream_nothing_is_forwarded(stack: StackAddress) -> None:
    async with http_api(stack.settings) as api, api.client() as client:
        got = await client.post(CHAT, content=body_of(CHAT), headers={"x-memtend-key": api.key()})
        assert (got.status_code, "memory.router.upstreams" in got.text) == (404, True)


async def test_the_callers_key_is_kept_nowhere(stack: StackAddress, caplog: pytest.LogCaptureFixture) -> None:
    async with routed(stack) as at, at.client() as client:
        at.upstream.parts = (json.dumps(ANSWERS[CHAT]).encode(),)
        await client.post(CHAT, content=body_of(CHAT, user="ada"))
        await until(lambda: at.turns() != [])
        await client.post("/router/v1/files", content=b"")
    assert SECRET not in caplog.text
    files = [each for each in stack.settings.home.rglob("*") if each.is_file()]
    assert len(files) > 5
    assert [each for each in files if SECRET.encode() in each.read_bytes()] == []


async def test_the_clients_of_openai_and_anthropic_change_their_base_url_alone(stack: StackAddress) -> None:
    anthropic, openai = pytest.importorskip("anthropic"), pytest.importorskip("openai")
    async with routed(stack) as at, at.client() as client:
        del client.headers["Authorization"]
        at.upstream.parts = (json.dumps(ANSWERS[CHAT]).encode(),)
        chat = openai.AsyncOpenAI(base_url="http://localhost/router/v1", api_key=SECRET, http_client=client)
        asked = [{"role": "user", "content": ASKED}]
        made = await chat.chat.completions.create(model="m", messages=asked, user="ada")
        assert made.choices[0].message.content == "Green tea."
        assert QUOTE.encode() in at.upstream.received[-1].body
        at.upstream.parts = (json.dumps(ANSWERS["/router/v1/messages"]).encode(),)
        # This client has a httpx of its own name.
        httpx2 = pytest.importorskip("httpx2")
        own = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=at.api.app), headers=dict(client.headers))
        messages = anthropic.AsyncAnthropic(base_url="http://localhost/router", api_key=SECRET, http_client=own)
        got = await messages.messages.create(model="m", max_tokens=9, messages=asked, metadata={"user_id": "ada"})
        assert got.content[0].text == "Green tea."
        assert QUOTE.encode() in at.upstream.received[-1].body
        assert at.upstream.received[-1].headers["authorization"] == f"Bearer {SECRET}"


async def test_connections_end_with_the_app(stack: StackAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []

    async def close(self: Upstreams) -> None:
        closed.append(len(self._clients))

    monkeypatch.setattr(Upstreams, "close", close)
    async with routed(stack) as at, at.client() as client:
        await client.post(CHAT, content=body_of(CHAT))
    assert closed == [1]
