"""Callers: what a key allows, how long it is believed, and that no request comes in without one."""

import asyncio
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from support.console import console_settings
from support.http_api import http_api

from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryConnectionError
from memcore.ledger.access.keys import ApiKey, Verb
from memcore.ledger.agents import AgentSpec
from memcore.ledger.ledger import Ledger
from memcore.models.origin import Writer
from ops.http.access import CACHE_SECONDS, Authenticate, Caller, Callers, CurrentCaller
from ops.http.limits import RateLimiter
from ops.http.problems import MemoryForbiddenError, MemoryRateLimitError, MemoryUnauthorizedError


def _caller(*verbs: Verb, agents: frozenset[str] | None = None) -> Caller:
    return Caller(key_id="k", name="engine", company="acme", agents=agents, verbs=frozenset(verbs), writer=Writer())


@pytest.mark.parametrize("verb", Verb)
def test_a_key_is_for_its_verbs_alone(verb: Verb) -> None:
    for held in Verb:
        if held is verb:
            _caller(held).require(verb)
        else:
            with pytest.raises(MemoryForbiddenError):
                _caller(held).require(verb)


def test_a_key_for_agents_is_for_those_and_never_for_the_whole_company() -> None:
    caller = _caller(Verb.READ, agents=frozenset({"oncall"}))
    caller.require(Verb.READ, agent_id="oncall")
    for other in ("other", "", "ONCALL", None):
        with pytest.raises(MemoryForbiddenError):
            caller.require(Verb.READ, agent_id=other)


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_key_is_believed_for_seconds_and_then_asked_for_again(ledger: Ledger) -> None:
    clock = Time()
    callers = Callers(ledger.api_keys, company="acme", limiter=RateLimiter(), monotonic=clock)
    made = ledger.api_keys.create("acme", name="engine", verbs=["read"])
    header = f"Bearer {made.token}"
    assert await callers.of(header) == Caller.of(made.key)
    ledger.api_keys.revoke("acme", made.key.key_id)
    clock.now += CACHE_SECONDS - 0.1
    assert (await callers.of(header)).key_id == made.key.key_id
    clock.now += 0.2
    for _ in range(2):
        with pytest.raises(MemoryUnauthorizedError):
            await callers.of(header)
    await callers.close()
    assert ledger.api_keys.list("acme")[0].last_used_at is not None
    ledger.close()


async def test_a_key_above_its_rate_is_refused_and_another_is_not(ledger: Ledger) -> None:
    callers = Callers(ledger.api_keys, company="acme", limiter=RateLimiter(rate=0.001, burst=2))
    first, second = (ledger.api_keys.create("acme", name=name, verbs=["read"]).token for name in "ab")
    for _ in range(2):
        await callers.of(f"Bearer {first}")
    with pytest.raises(MemoryRateLimitError):
        await callers.of(f"Bearer {first}")
    await callers.of(f"bearer  {second} ")
    await callers.close()
    ledger.close()


async def test_where_the_ledger_does_not_answer_nobody_comes_in() -> None:
    class Keys:
        def of_token(self, _token: str) -> ApiKey | None:
            raise MemoryConnectionError("the ledger cannot be read")

    callers = Callers(Keys(), company="acme", limiter=RateLimiter())  # type: ignore[arg-type]
    with pytest.raises(MemoryConnectionError):
        await callers.of("Bearer mt_a_b")


@pytest.mark.parametrize(
    "token",
    [
        "mt_a_b",
        f"mt_{'0' * 16}_{'0' * 63}",
        f"mt_{'0' * 16}_{'0' * 65}",
        f"MT_{'0' * 16}_{'0' * 64}",
        f"mt_{'G' * 16}_{'0' * 64}",
        "mt_" + "\0" * 16 + "_" + "0" * 64,
        "mt_" + "\u0660" * 16 + "_" + "0" * 64,
        "mt_" + "x" * 100_000,
    ],
)
async def test_what_has_not_the_form_of_a_key_is_refused_without_the_ledger(
    ledger: Ledger, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(ledger.api_keys._database, "row", asked.append)
    callers = Callers(ledger.api_keys, company="acme", limiter=RateLimiter())
    with pytest.raises(MemoryUnauthorizedError):
        await callers.of(f"Bearer {token}")
    assert ledger.api_keys.with_hash(token) is None
    assert not asked
    with pytest.raises(MemoryUnauthorizedError):
        await callers.of(f"Bearer mt_{'0' * 16}_{'0' * 64}")
    assert len(asked) == 1
    ledger.close()


async def test_without_keys_the_caller_may_do_all_with_the_own_company() -> None:
    caller = await Callers(None, company="acme", limiter=RateLimiter()).of(None)
    assert (caller.company, caller.agents, caller.verbs) == ("acme", None, frozenset(Verb))


async def test_no_path_is_served_without_a_key_but_the_open_ones() -> None:
    app, seen = FastAPI(), []

    @app.get("/{path:path}")
    async def anything(path: str) -> str:
        seen.append(path)
        return path

    async def nobody(_authorization: str | None) -> Caller:
        await asyncio.sleep(0)
        raise MemoryUnauthorizedError("no key")

    app.add_middleware(Authenticate, caller_of=nobody, requires_key=True)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://api") as client:
        for path in ("/v1/x", "/admin", "/mcp/a", "/", "/health/", "/Health", "//health", "/health%2f..", "/docs2"):
            assert (await client.get(path)).status_code == 401, path
        assert (await client.get("/health")).status_code == 200
    assert seen == ["health"]


def _without_keys() -> httpx.AsyncClient:
    """Return a client of an app that asks for no keys."""
    app = FastAPI()

    @app.api_route("/v1/x", methods=["GET", "POST", "DELETE", "OPTIONS"])
    async def anything(caller: CurrentCaller) -> str:
        return caller.key_id

    async def anyone(_authorization: str | None) -> Caller:
        await asyncio.sleep(0)
        return _caller(*Verb)

    app.add_middleware(Authenticate, caller_of=anyone, requires_key=False)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://api")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8321", 200),
        ("localhost", 200),
        ("[::1]:8321", 200),
        ("memories.example", 403),
        ("127.0.0.1.example", 403),
        ("localhost:80@example.org", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
async def test_without_keys_another_site_cannot_come_in_by_a_name_that_leads_here(host: str, status: int) -> None:
    async with _without_keys() as client:
        assert (await client.get("/v1/x", headers={"Host": host})).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost:8321"}, 200),
        ({"Origin": "http://LOCALHOST:8321", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "http://localhost:8321", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "http://127.0.0.1:8321"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "http://[localhost:8321"}, 403),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
async def test_without_keys_no_page_of_another_site_is_served(
    method: str, headers: dict[str, str], status: int
) -> None:
    async with _without_keys() as client:
        answer = await client.request(method, "/v1/x", headers={"Host": "localhost:8321", **headers})
        assert answer.status_code == status
        assert "access-control-allow-origin" not in answer.headers


async def test_a_list_for_some_agents_goes_on_past_those_that_are_not_known(
    sqlite_ledger: LedgerUrls, tmp_path: Path
) -> None:
    async with http_api(console_settings(sqlite_ledger, tmp_path)) as opened:
        for known in ("b", "c", "e", "of others"):
            opened.context.ledger.agents.put(AgentSpec(company="acme", agent_id=known))
        seen, after = list[str](), None
        async with opened.client(opened.key(agents=["a", "b", "c", "d", "e"])) as client:
            while True:
                query = {"limit": "2"} if after is None else {"limit": "2", "after": after}
                page = (await client.get("/v1/agents", params=query)).json()
                seen += [each["agent_id"] for each in page["agents"]]
                after = page["next"]
                if after is None:
                    break
        assert seen == ["b", "c", "e"]
