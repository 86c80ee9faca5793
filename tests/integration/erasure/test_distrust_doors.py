"""What the doors of the distrusts refuse, and what is asked twice."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from support.erasure_world import WORD, ErasureWorld
from support.frozen_parts import AGENT
from support.hashing_embedder import HashingEmbedder
from support.http_api import http_api
from support.job_contexts import RecordingDispatcher
from support.ledger_records import COMPANY
from support.store_items import item

import memcore.maintenance.distrust
import memcore.service.distrusts
import ops.http.context
from memcore.backends.mem0.hiding import HidingBackend
from memcore.errors import MemoryConnectionError
from memcore.ledger.access.keys import Verb
from memcore.ledger.runs import NewRun
from memcore.maintenance.distrust import DistrustSearch
from memcore.models.distrust import DistrustRule

SAID = {"reason": "its site was taken over", "confirm": True}

WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "principal"),
    ({"agent_id": AGENT}, "principal"),
    ({"since": "2027-01-01T00:00:00Z"}, "principal"),
    ({"channel": "carrier-pigeon"}, "channel"),
    ({"principal": ""}, "principal"),
    ({"principal": "  "}, "principal"),
    ({"source": "\t"}, "source"),
    ({"principal": "a\0b"}, "principal"),
    ({"source": "x" * 100_000}, "source"),
    ({"agent_id": " ", "session_id": "s"}, "agent_id"),
    ({"session_id": "s-9"}, "agent_id"),
    ({"memory_id": "3"}, "agent_id"),
    ({"agent_id": AGENT, "memory_id": "no uuid"}, "memory_id"),
    ({"source": "s", "since": "2027-01-02T00:00:00Z", "until": "2027-01-01T00:00:00Z"}, "since"),
    ({"source": "s", "since": "2027-01-01T00:00:00Z", "until": "2027-01-01T00:00:00Z"}, "since"),
    ({"source": "s", "since": "yesterday"}, "since"),
    ({"source": "s", "since": "2027-01-01T00:00:00"}, "since"),
    ({"source": "s", "suorce": "s"}, "suorce"),
]

#: What confirms nothing.
UNSAID: list[dict[str, Any]] = [
    {},
    {"confirm": True},
    {"reason": "why"},
    {"reason": "why", "confirm": False},
    {"reason": " ", "confirm": True},
]


async def test_what_names_nothing_is_refused_by_the_field(world: ErasureWorld) -> None:
    async with http_api(world.settings) as api, api.client(api.key()) as client:
        for rule, field in WRONG:
            for place, said in (("/v1/distrusts:plan", {}), ("/v1/distrusts", SAID)):
                answer = await client.post(place, json={**rule, **said})
                assert answer.status_code in {400, 422}, (rule, answer.text)
                assert field in answer.text, (rule, answer.text)
        half = '{"source": "half \\ud83d", "reason": "why", "confirm": true}'
        for place in ("/v1/distrusts:plan", "/v1/distrusts"):
            answer = await client.post(place, content=half, headers={"content-type": "application/json"})
            assert answer.status_code in {400, 422}, answer.text
        for unsaid in UNSAID:
            answer = await client.post("/v1/distrusts", json={"source": "s", **unsaid})
            assert answer.status_code in {400, 422}, answer.text
        assert world.ledger.distrusts.list(COMPANY) == ()
        for limit in (0, 201, "many"):
            assert (await client.get("/v1/distrusts", params={"limit": limit})).status_code in {400, 422}


async def test_unknown_ids_are_not_found_and_those_of_another_company_neither(world: ErasureWorld) -> None:
    foreign = world.ledger.distrusts.add("globex", DistrustRule(source="s"), WORD).distrust_id
    async with http_api(world.settings) as api, api.client(api.key()) as client:
        for name in ("nothing", foreign, "%00", "a%20b", "\u00e9"):
            place = f"/v1/distrusts/{name}"
            for answer in (
                await client.get(place),
                await client.post(f"{place}/complete"),
                await client.post(f"{place}/lift", json=SAID),
            ):
                assert answer.status_code in {400, 404, 422}, (name, answer.text)
        assert (await client.get("/v1/distrusts")).json() == {"distrusts": []}
        assert (await client.post(f"/v1/distrusts/{foreign}/lift", json={})).status_code in {400, 422}
    assert world.ledger.distrusts.get("globex", foreign).lifted_at is None


async def test_only_who_may_run_the_whole_company_is_let_in(world: ErasureWorld) -> None:
    distrust = world.ledger.distrusts.add(COMPANY, DistrustRule(source="s"), WORD).distrust_id
    async with http_api(world.settings) as api:
        every = tuple(each for each in Verb if each is not Verb.ADMIN)
        for key in (api.key(agents=[AGENT]), api.key(verbs=every)):
            async with api.client(key) as client:
                for answer in await _all_calls(client, distrust):
                    assert answer.status_code == 403, answer.text
        async with api.client() as client:
            for answer in await _all_calls(client, distrust):
                assert answer.status_code == 401, answer.text
    assert world.ledger.distrusts.get(COMPANY, distrust).lifted_at is None
    assert len(world.ledger.distrusts.list(COMPANY)) == 1


async def _all_calls(client: httpx.AsyncClient, distrust: str) -> list[httpx.Response]:
    rule = {"agent_id": AGENT, "source": "s"}
    place = f"/v1/distrusts/{distrust}"
    return [
        await client.post("/v1/distrusts:plan", json=rule),
        await client.post("/v1/distrusts", json={**rule, **SAID}),
        await client.get("/v1/distrusts"),
        await client.get(place),
        await client.post(f"{place}/complete"),
        await client.post(f"{place}/lift", json=SAID),
    ]


async def test_what_is_asked_twice_is_done_once(world: ErasureWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.ingestor().write([item("a note", agent_id=AGENT, sent_at=world.clock())])
    monkeypatch.setattr(ops.http.context, "create_configured_embedder", lambda *_: HashingEmbedder())
    async with http_api(world.settings) as api, api.client(api.key()) as client:
        answer = await client.post("/v1/distrusts", json={"channel": "agent", **SAID})
        assert answer.status_code == 201, answer.text
        added = answer.json()
        place = f"/v1/distrusts/{added['distrust_id']}"
        again = await client.post(f"{place}/complete")
        assert again.status_code == 200
        assert again.json()["lifted_at"] is None
        first = (await client.post(f"{place}/lift", json=SAID)).json()
        second = await client.post(f"{place}/lift", json={**SAID, "reason": "once more"})
        assert second.status_code == 200
        assert second.json() == first
        assert first["lifted_at"]
        # One that was lifted is found again by nobody.
        reached = await client.post(f"{place}/complete")
        assert reached.json() == first
        assert (await client.get(f"/v1/agents/{AGENT}/memories:count")).json()["count"] == 1
    actions = [line.action for line in world.ledger.audit.page(COMPANY, limit=50)]
    assert actions.count("trust") == actions.count("distrust") == 1


async def test_it_is_in_force_and_named_where_the_store_is_away(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.ingestor().write([item("a note", agent_id=AGENT, sent_at=world.clock())])
    monkeypatch.setattr(ops.http.context, "create_configured_embedder", lambda *_: HashingEmbedder())
    async with http_api(world.settings) as api, api.client(api.key()) as client:
        scan = HidingBackend.scan

        async def away(*_: object, **__: object) -> None:
            raise MemoryConnectionError("the store does not answer")

        monkeypatch.setattr(HidingBackend, "scan", away)
        answer = await client.post("/v1/distrusts", json={"channel": "agent", **SAID})
        assert (answer.status_code, answer.json()["completed_at"]) == (201, None)
        monkeypatch.setattr(HidingBackend, "scan", scan)
        assert (await client.get(f"/v1/agents/{AGENT}/memories")).json()["memories"] == []
        done = await client.post(f"/v1/distrusts/{answer.json()['distrust_id']}/complete")
        assert done.json()["completed_at"]


async def test_what_a_request_has_no_time_for_a_worker_finds(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = ("ada", "bob", "carol")
    for agent in agents:
        await world.ingestor().write([item(f"a note of {agent}", agent_id=agent, sent_at=world.clock())])
    for module in (memcore.service.distrusts, memcore.maintenance.distrust):
        monkeypatch.setattr(module, "FOUND_WITHIN", timedelta(0))
    monkeypatch.setattr(ops.http.context, "create_configured_embedder", lambda *_: HashingEmbedder())
    distrusts = world.ledger.distrusts
    async with http_api(world.settings) as api, api.client(api.key()) as client:
        answer = await client.post("/v1/distrusts", json={"channel": "agent", **SAID})
        assert (answer.status_code, answer.json()["completed_at"]) == (201, None)
        for agent in agents:
            assert (await client.get(f"/v1/agents/{agent}/memories")).json()["memories"] == []
    distrust_id = answer.json()["distrust_id"]
    assert len(distrusts.reached(COMPANY, distrust_id)) == 1
    at = distrusts.get(COMPANY, distrust_id).at
    search = DistrustSearch(
        world.backend, world.ledger, company=COMPANY, dispatcher=RecordingDispatcher(), clock=lambda: at
    )
    await search.finish()
    assert len(distrusts.reached(COMPANY, distrust_id)) == 1, "its request may still be looking"
    search = replace(search, clock=lambda: at + timedelta(minutes=1))
    for found in (1, 2, 3):
        assert distrusts.get(COMPANY, distrust_id).completed_at is None
        assert len(distrusts.reached(COMPANY, distrust_id)) <= found
        await search.finish()
    await search.finish()
    assert distrusts.get(COMPANY, distrust_id).completed_at
    assert distrusts.reached(COMPANY, distrust_id).keys() == {*agents}
    seen: list[tuple[int, int]] = []
    watched = replace(search, watch=lambda done, total: seen.append((done, total)))
    await watched.complete(distrusts.get(COMPANY, distrust_id))
    assert seen == [(1, 3), (2, 3), (3, 3)]


async def test_it_is_lifted_once_what_brings_memories_back_has_ended(world: ErasureWorld) -> None:
    distrust = world.ledger.distrusts.add(COMPANY, DistrustRule(source="s"), WORD).distrust_id
    new = NewRun(
        run_id="r-1",
        company=COMPANY,
        agent_id=AGENT,
        kind="restore",
        origin="manual",
        planned_at=world.clock(),
        scope_id=distrust,
    )
    world.ledger.runs.create(new)
    async with http_api(world.settings) as api, api.client(api.key()) as client:
        refused = await client.post(f"/v1/distrusts/{distrust}/lift", json=SAID)
        assert refused.status_code == 409
        assert "r-1" in refused.text
        assert (await client.get(f"/v1/distrusts/{distrust}")).json()["runs"] == ["r-1"]
    assert world.ledger.distrusts.get(COMPANY, distrust).lifted_at is None


async def test_a_memory_that_nobody_knows_is_in_no_plan(world: ErasureWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops.http.context, "create_configured_embedder", lambda *_: HashingEmbedder())
    async with http_api(world.settings) as api, api.client(api.key()) as client:
        rule = {"agent_id": AGENT, "memory_id": "00000000-0000-0000-0000-000000000001"}
        assert (await client.post("/v1/distrusts:plan", json=rule)).json() == {"agents": [], "skills": {}}
