"""What stands before the console's pages: the key, the session, the token of a form, the site it comes from."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import Mount
from support.console import ORIGIN, ConsoleClient, console_settings, signed_in
from support.http_api import HttpApi, http_api

from memcore.config.urls import LedgerUrls
from memcore.ledger.access.keys import Verb
from memcore.ledger.agents import AgentSpec
from ops.http.access import CACHE_SECONDS
from ops.http.context import ServeOptions
from ops.web.protection import HEADERS
from ops.web.routes.sign_in import inside
from ops.web.sessions import COOKIE

OPEN = ServeOptions(requires_key=False)


@asynccontextmanager
async def served(urls: LedgerUrls, home: Path, options: ServeOptions | None = None) -> AsyncIterator[HttpApi]:
    settings = console_settings(urls, home)
    async with http_api(settings, options or ServeOptions()) as opened:
        opened.context.ledger.agents.put(AgentSpec(company="acme", agent_id="oncall"))
        yield opened


def _is_paused(opened: HttpApi) -> bool:
    agent = opened.context.ledger.agents.get("acme", "oncall")
    assert agent is not None
    return agent.paused


async def test_one_signs_in_with_a_key_decides_and_signs_out(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    async with served(sqlite_ledger, tmp_path) as opened, ConsoleClient(opened.app) as client:
        token = opened.key()
        answer = await client.http.get("/console/runs?agent=oncall")
        assert answer.headers["location"] == "/console/sign-in?next=%2Fconsole%2Fruns%3Fagent%3Doncall"
        answer = await client.sign_in(token, "/console/runs?agent=oncall")
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/runs?agent=oncall")
        cookie = answer.headers["set-cookie"]
        for flag in ("HttpOnly", "SameSite=strict", "Path=/console", "Max-Age=43200"):
            assert flag in cookie
        assert token not in cookie
        assert "test" in await client.get("fleet")
        answer = await client.decide("fleet/pause", agent="oncall")
        assert answer.headers["location"] == "/console/fleet?q=oncall&done=paused"
        assert _is_paused(opened)
        assert "Paused: nothing is removed" in await client.get("fleet?done=paused")
        lines = opened.context.ledger.audit.page("acme")
        assert [(each.actor[:12], each.action, each.reason) for each in lines] == [
            ("person:test-", "agents.pause", "the test says so"),
            ("person:test-", "console.sign_in", None),
        ]
        assert (await client.send("sign-out")).headers["location"] == "/console/sign-in"
        await client.get("fleet", 303)


async def test_a_wrong_key_opens_nothing(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    async with served(sqlite_ledger, tmp_path) as opened, ConsoleClient(opened.app) as client:
        for key in ("", "mt_a_b", "mt_\0_b", opened.key()[:-1], "x" * 10_000):
            answer = await client.sign_in(key)
            assert (answer.status_code, "is not valid" in answer.text) == (403, True)
            await client.get("fleet", 303)


async def test_a_revoked_key_is_out_within_the_cache_time(
    sqlite_ledger: LedgerUrls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(sqlite_ledger, tmp_path) as opened, signed_in(opened.app, opened.key()) as client:
        await client.get("fleet")
        (key,) = opened.context.ledger.api_keys.list("acme")
        opened.context.ledger.api_keys.revoke("acme", key.key_id)
        began = opened.context.callers._monotonic()
        monkeypatch.setattr(opened.context.callers, "_monotonic", lambda: began + CACHE_SECONDS)
        await client.get("fleet", 303)
        assert (await client.send("fleet/pause", agent="oncall", confirm="yes", reason="x")).status_code == 303
        assert not _is_paused(opened)


async def test_a_forged_or_foreign_cookie_is_nobody(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    async with served(sqlite_ledger, tmp_path) as opened, signed_in(opened.app, opened.key()) as client:
        cookie = client.http.cookies[COOKIE]
        long, escaped = f"a.{'9' * 5_000}.c.d", '"\\000.9999999999.c.d"'
        for wrong in (
            cookie[:-1],
            cookie.replace(".", "-"),
            "",
            "a.b.c.d",
            cookie.upper(),
            long,
            escaped,
        ):
            headers = {"Cookie": f"{COOKIE}={wrong}"}
            async with httpx.AsyncClient(transport=client.http._transport, base_url=ORIGIN) as bare:
                assert (await bare.get("/console/fleet", headers=headers)).status_code == 303


@pytest.mark.parametrize(
    "wrong", ["missing", "empty", "changed", "of another session", "origin", "bad origin", "no origin", "type"]
)
async def test_a_form_that_is_not_this_sessions_changes_nothing(
    sqlite_ledger: LedgerUrls, tmp_path: Path, wrong: str
) -> None:
    async with served(sqlite_ledger, tmp_path) as opened, signed_in(opened.app, opened.key()) as client:
        async with signed_in(opened.app, opened.key()) as other:
            foreign = (await other.get("fleet")).partition('name="csrf" value="')[2].partition('"')[0]
        own = (await client.get("fleet")).partition('name="csrf" value="')[2].partition('"')[0]
        fields = {"agent": "oncall", "confirm": "yes", "reason": "x", "csrf": own}
        if wrong == "missing":
            del fields["csrf"]
        else:
            fields["csrf"] = {"empty": "", "changed": own[:-1], "of another session": foreign}.get(wrong, own)
        place, status = "/console/fleet/pause", 403
        if wrong == "no origin":
            answer = await client.http.post(place, data=fields)
        elif wrong == "type":
            answer, status = await client.http.post(place, json=fields, headers={"Origin": ORIGIN}), 422
        else:
            origin = {"origin": "http://evil", "bad origin": "http://[api"}.get(wrong)
            answer = await client.raw("fleet/pause", fields, origin=origin)
        assert answer.status_code == status, answer.text
        assert not _is_paused(opened)
        assert (await client.raw("fleet/pause", {**fields, "csrf": own})).status_code == 303
        assert _is_paused(opened)


@pytest.mark.parametrize("fields", [{"reason": "x"}, {"confirm": "yes"}, {"confirm": "yes", "reason": "  "}])
async def test_a_decision_without_its_reason_is_refused(
    sqlite_ledger: LedgerUrls, tmp_path: Path, fields: dict[str, str]
) -> None:
    async with served(sqlite_ledger, tmp_path) as opened, signed_in(opened.app, opened.key()) as client:
        await client.get("fleet")
        assert (await client.send("fleet/pause", agent="oncall", **fields)).status_code == 422
        assert not _is_paused(opened)


async def test_every_answer_has_the_headers_that_keep_other_sites_out(
    sqlite_ledger: LedgerUrls, tmp_path: Path
) -> None:
    async with served(sqlite_ledger, tmp_path) as opened, signed_in(opened.app, opened.key()) as client:
        for path in (
            "activity",
            "fleet",
            "sign-in",
            "no-such-page",
            "runs/none",
            "audit?limit=0",
            "static/console.css",
        ):
            answer = await client.http.get(f"/console/{path}")
            assert {name: answer.headers[name] for name in HEADERS} == HEADERS
            assert answer.headers["cache-control"] == ("no-cache" if "static" in path else "no-store")
        page = await client.get("fleet")
        assert "<style" not in page
        assert " style=" not in page
        assert " onclick=" not in page
        assert page.count("<script") == page.count("<script src=") == 1


async def test_without_keys_only_this_machine_comes_in(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    async with served(sqlite_ledger, tmp_path, OPEN) as opened:
        async with ConsoleClient(opened.app, origin="http://localhost:8321") as client:
            assert "loopback" in await client.get("fleet")
            await client.decide("fleet/pause", agent="oncall")
            assert _is_paused(opened)
            fields = {"agent": "oncall", "confirm": "yes", "reason": "x", "csrf": "none"}
            assert (await client.raw("fleet/resume", fields)).status_code == 403
            assert _is_paused(opened)
        async with ConsoleClient(opened.app, origin="http://evil.example") as client:
            for path in ("fleet", "sign-in", "static/console.js"):
                await client.get(path, 403)


async def test_a_key_in_a_header_opens_no_page(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    async with served(sqlite_ledger, tmp_path) as opened, opened.client(opened.key()) as client:
        assert (await client.get("/console/fleet")).status_code == 303
        assert (await client.get("/console")).headers["location"] == "/console/activity"
        assert (await client.get("/consoles")).status_code == 404


async def test_a_session_is_no_key_and_a_key_no_session(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    async with served(sqlite_ledger, tmp_path) as opened:
        token = opened.key()
        async with signed_in(opened.app, token) as browser, opened.client() as bare:
            await browser.get("fleet")
            cookie = browser.http.cookies[COOKIE]
            # Both were believed a moment ago.
            assert (await bare.get("/v1/agents", headers={"Authorization": f"Bearer {token}"})).status_code == 200
            for header in ({"Authorization": f"Bearer {cookie}"}, {"X-API-Key": cookie}):
                assert (await bare.get("/v1/agents", headers=header)).status_code == 401
            assert (await bare.get("/console/fleet", headers={"Cookie": f"{COOKIE}={token}"})).status_code == 303


async def test_no_page_stands_in_the_document_of_the_api(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    async with served(sqlite_ledger, tmp_path) as opened:
        assert not [path for path in opened.app.openapi()["paths"] if path.startswith("/console")]


def _routes(app: FastAPI) -> list[tuple[str, str]]:
    console = next(each.app for each in app.routes if isinstance(each, Mount) and each.path == "/console")
    assert isinstance(console, FastAPI)
    paths = get_openapi(title="console", version="1", routes=console.routes)["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


@pytest.mark.parametrize("verb", sorted(Verb))
async def test_a_key_sees_and_does_what_its_verb_allows(sqlite_ledger: LedgerUrls, tmp_path: Path, verb: Verb) -> None:
    async with served(sqlite_ledger, tmp_path) as opened, signed_in(opened.app, opened.key(verbs=(verb,))) as client:
        read = {"activity", "fleet", "runs", "memories", "approvals", "skills", "cost"}
        for path in sorted(read):
            await client.get(path, 200 if verb is Verb.READ else 403)
        for path in ("audit", "distrusts", "embedder"):
            await client.get(path, 200 if verb is Verb.ADMIN else 403)
        await client.get("sign-in")
        shown, status = ("audit" if verb is Verb.ADMIN else "fleet"), (200 if verb in {Verb.READ, Verb.ADMIN} else 403)
        page = await client.get(shown, status)
        assert "Pause" not in page
        assert ('href="/console/audit"' in page) is (verb is Verb.ADMIN)
        needs = {
            "fleet/pause": Verb.MAINTAIN,
            "approvals/none/approve": Verb.APPROVE,
            "queues/delete": Verb.ADMIN,
            "distrusts/none/lift": Verb.ADMIN,
        }
        for path, needed in needs.items():
            answer = await client.send(path, agent="oncall", job="none", confirm="yes", reason="x")
            assert (answer.status_code == 403) is (needed is not verb), path
        assert _is_paused(opened) is (verb is Verb.MAINTAIN)


async def test_a_key_of_one_agent_finds_nothing_of_another(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    async with served(sqlite_ledger, tmp_path) as opened:
        opened.context.ledger.agents.put(AgentSpec(company="acme", agent_id="secretary", role="counts quinces"))
        async with signed_in(opened.app, opened.key(agents=["oncall"])) as client:
            page = await client.get("fleet")
            assert "oncall" in page
            assert "quinces" not in page
            company_wide = ("approvals", "skills", "distrusts", "queues", "embedder", "audit")
            named = ("memories", "memories/archive", "memories/growth", "memories/timeline", "runs", "cost")
            others = [f"{path}?agent=secretary" for path in named]
            for path in (*company_wide, *others):
                assert "quinces" not in await client.get(path, 403)
            for path in ("fleet/pause", "fleet/run", "memories/forget", "memories/restore"):
                answer = await client.send(path, agent="secretary", id="1", confirm="yes", reason="x")
                assert answer.status_code == 403
            for path in ("fleet/pause-all", "queues/replay"):
                assert (await client.send(path, confirm="yes", reason="x")).status_code == 403


async def test_every_action_asks_for_a_token_and_every_page_for_a_session(
    sqlite_ledger: LedgerUrls, tmp_path: Path
) -> None:
    async with served(sqlite_ledger, tmp_path) as opened:
        routes = _routes(opened.app)
        assert len(routes) > 30
        async with ConsoleClient(opened.app) as outsider, signed_in(opened.app, opened.key()) as client:
            for method, path in routes:
                filled = path.replace("{run_id}", "1").replace("{approval_id}", "1").replace("{skill_id}", "1")
                if filled != "/sign-in":
                    answer = await outsider.http.request(method, f"/console{filled}", headers={"Origin": ORIGIN})
                    assert answer.status_code == 303, filled
                    assert answer.headers["location"].startswith("/console/sign-in")
                if method == "POST":
                    assert (await client.raw(filled[1:], {"confirm": "yes", "reason": "x"})).status_code == 403, filled


@pytest.mark.parametrize(
    "target",
    [
        "//evil",
        "//[evil",
        "https://evil/console/fleet",
        "/console/../v1",
        "/v1/agents",
        "javascript:alert(1)",
        "/console/\\evil",
        "",
        "/console/a\r\nb",
    ],
)
def test_a_sign_in_leads_to_no_other_site(target: str) -> None:
    assert inside(target) == "/console/activity"
    assert inside("/console/runs?agent=a") == "/console/runs?agent=a"
