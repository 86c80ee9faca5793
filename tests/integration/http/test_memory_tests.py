"""Memory tests over HTTP: registered, listed and removed, by keys that may, with typed errors and in one company."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from support.http_api import HttpApi, http_api
from support.memories import new_agent
from support.running_stack import StackAddress

from memcore.ledger.access.keys import Verb
from memcore.ledger.monitoring.memory_tests import MOST_OF_AGENT

WHY = {"reason": "the team said so"}

Play = Callable[[HttpApi, httpx.AsyncClient, str], Awaitable[None]]


def _played(stack: StackAddress, play: Play) -> None:
    async def run() -> None:
        async with http_api(stack.settings) as opened, opened.client(opened.key(verbs=tuple(Verb))) as client:
            await play(opened, client, new_agent("registered"))

    asyncio.run(run())


def written(agent: str, name: str = "page", **given: Any) -> dict[str, Any]:
    return {"name": name, "agent": agent, "question": "when does it page?", "finds": ["pages at 500"]} | given


def test_tests_are_registered_replaced_listed_and_removed(stack: StackAddress) -> None:
    async def play(opened: HttpApi, client: httpx.AsyncClient, agent: str) -> None:
        async def listed() -> list[tuple[str, str]]:
            found = (await client.get("/v1/memory-tests", params={"agent_id": agent})).json()["tests"]
            return [(each["name"], each["test"]["finds"][0]["text"]) for each in found]

        body = {"tests": [written(agent), written(agent, "other")], "reason": "they matter"}
        made = await client.post("/v1/memory-tests", json=body)
        assert (made.status_code, made.json()) == (201, {"registered": 2, "changed": 2})
        changed = [written(agent), written(agent, "other", finds=["pages at 900"])]
        again = await client.post("/v1/memory-tests", json={"tests": changed, **WHY})
        assert again.json() == {"registered": 2, "changed": 1}
        assert await listed() == [("other", "pages at 900"), ("page", "pages at 500")]
        gone = await client.post("/v1/memory-tests:remove", json={"agent": agent, "names": ["page", "none"], **WHY})
        assert (gone.status_code, gone.json()) == (200, ["page"])
        assert (await client.post("/v1/memory-tests:remove", json={"agent": agent, **WHY})).json() == ["other"]
        assert await listed() == []
        lines = opened.context.ledger.audit.page(stack.settings.company)
        (line,) = [each for each in lines if each.subject == agent and each.reason == "they matter"]
        assert line.action == "memory_tests.register"

    _played(stack, play)


def test_who_may_and_what_is_wrong(stack: StackAddress) -> None:
    async def play(opened: HttpApi, client: httpx.AsyncClient, agent: str) -> None:
        body = {"tests": [written(agent)], **WHY}
        assert (await client.post("/v1/memory-tests", json=body)).status_code == 201
        every = (Verb.READ, Verb.WRITE, Verb.MAINTAIN, Verb.APPROVE)
        for verbs, agents, refused in ((every, None, "POST"), (tuple(Verb), [agent], "POST"), (every, ["no"], "GET")):
            async with opened.client(opened.key(verbs=verbs, agents=agents)) as other:
                if refused == "GET":
                    answer = await other.get("/v1/memory-tests", params={"agent_id": agent})
                else:
                    answer = await other.post("/v1/memory-tests", json=body)
                assert answer.status_code in {403, 404}, answer.text
        async with opened.client(opened.key(verbs=(Verb.READ,), agents=[agent])) as reader:
            found = await reader.get("/v1/memory-tests", params={"agent_id": agent})
            assert [each["name"] for each in found.json()["tests"]] == ["page"]
        wrong = {
            "finds": {"tests": [written(agent, finds=[])]},
            "name": {"tests": [written(agent, "x" * 2_000)]},
            "text": {"tests": [written(agent, finds=["x" * 2_001])]},
            "pattern": {"tests": [written(agent, shows_not=[{"pattern": "PO-[0-9]{4}"}])]},
            "names": {"tests": [written(agent), written(agent)]},
            "limit is 1,000": {"tests": [written(agent, f"{n}") for n in range(MOST_OF_AGENT)]},
        }
        for field, given in wrong.items():
            answer = await client.post("/v1/memory-tests", json=given | WHY)
            assert (answer.status_code, field in answer.text) == (422, True), (field, answer.text)
        kept = (await client.get("/v1/memory-tests", params={"agent_id": agent})).json()["tests"]
        assert [each["name"] for each in kept] == ["page"], "all or none"

    _played(stack, play)


def test_another_company_has_none_of_them(stack: StackAddress) -> None:
    async def play(opened: HttpApi, client: httpx.AsyncClient, agent: str) -> None:
        assert (await client.post("/v1/memory-tests", json={"tests": [written(agent)], **WHY})).status_code == 201
        opened.context.ledger.companies.add("globex")
        async with opened.client(opened.key(company="globex", verbs=tuple(Verb))) as foreign:
            assert (await foreign.get("/v1/memory-tests")).json()["tests"] == []
            assert (await foreign.post("/v1/memory-tests:remove", json={"agent": agent, **WHY})).json() == []
        kept = (await client.get("/v1/memory-tests", params={"agent_id": agent})).json()["tests"]
        assert [each["name"] for each in kept] == ["page"]

    _played(stack, play)
