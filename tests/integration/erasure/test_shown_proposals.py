"""A proposal of what is distrusted is shown to people alone, marked; none shows less than a key may see."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.erasure_world import POLICY, ErasureWorld
from support.frozen_parts import AGENT
from support.hashing_embedder import HashingEmbedder
from support.http_api import HttpApi, http_api
from support.ledger_records import COMPANY
from support.lessons import lesson
from support.mcp_sessions import Sessions, facts_of, text_of
from support.store_items import item

import ops.http.context
from memcore.ledger.learning.skills import SkillSource
from memcore.models.approval import ApprovalState
from memcore.models.origin import OWN, Channel, Writer, writing_as
from memcore.skills.publication import SkillApprovals, promotion
from ops.mcp.operator_tools import INSTRUCTIONS, OperatorToolset
from ops.mcp.tool_server import OPERATOR_TOOLS, create_server

SAID = {"reason": "its site was taken over", "confirm": True}
SCRAPER = Writer(principal="scraper", limit=Channel.TOOL)

OK, CREATED = 200, 201

#: Rules that take what the tool wrote, and nothing else.
RULES: list[dict[str, Any]] = [
    {"principal": "scraper"},
    {"channel": "tool", "agent_id": AGENT},
    {"session_id": "s-9", "agent_id": AGENT},
]


async def _session(api: HttpApi, token: str) -> Sessions:
    """Return the operators' session of a key, with the writer of its key as HTTP has it."""
    key = api.context.ledger.api_keys.of_token(token)
    assert key is not None
    service = await api.context.service(COMPANY)
    toolset = OperatorToolset(
        service=service, actor=key.name, available=OPERATOR_TOOLS, verbs=key.verbs, writer=key.writer
    )

    async def toolset_of(_context: object) -> OperatorToolset:
        return toolset

    return Sessions(create_server("memtend-operation", toolset_of, instructions=INSTRUCTIONS))


async def _filed(world: ErasureWorld, api: HttpApi) -> dict[str, str]:
    """Propose to raise a tool's memory and a clean one, and two skills of such; return their ids by their secrets."""
    for name in ("false", "true", "false skill", "true skill"):
        world.secret(name)
    with writing_as(SCRAPER):
        of_tool = item(_text(world, "false"), agent_id=AGENT, sent_at=world.clock(), session_id="s-9")
    clean = item(_text(world, "true"), agent_id=AGENT, sent_at=world.clock())
    await world.ingestor().write([of_tool, clean])
    filed = dict[str, str]()
    async with api.client(api.key()) as operator:
        for name, each in (("false", of_tool), ("true", clean)):
            asked = await operator.post(f"/v1/agents/{AGENT}/memories/{each.id}/raise", json={"to": "instruct"})
            assert asked.status_code == 201, asked.text
            filed[name] = asked.json()["id"]
    settings = world.settings.model_copy(update={"company": COMPANY})
    approvals = SkillApprovals.configured(settings, POLICY, world.ledger, backend=world.backend, clock=world.clock)
    for name, memory in (("false skill", of_tool), ("true skill", clean)):
        source = SkillSource(
            agent_id=AGENT,
            lesson_id=f"l-{name}",
            memory_id=memory.id,
            origin=memory.origin or OWN,
            created_at=world.clock(),
        )
        text = lesson(discovery=_text(world, name))
        made = promotion(text, title="A skill", pattern_id="p", cycle_id="c", figures={}, sources=[source])
        filed[name] = (await approvals.propose(name.replace(" ", "-"), made)).approval_id
    return filed


def _text(world: ErasureWorld, name: str) -> str:
    return f"the code is {world.secrets[name][0]} today"


async def _shown(client: httpx.AsyncClient, filed: dict[str, str]) -> dict[str, dict[str, bool]]:
    """Return the proposals that a list has and that are shown alone, each with whether it is marked."""
    listed = {each["id"]: each["distrusted"] for each in (await client.get("/v1/approvals")).json()["approvals"]}
    alone = {name: await client.get(f"/v1/approvals/{key}") for name, key in filed.items()}
    assert {each.status_code for each in alone.values()} <= {200, 404}
    return {
        "listed": {name: listed[key] for name, key in filed.items() if key in listed},
        "alone": {name: each.json()["distrusted"] for name, each in alone.items() if each.status_code == OK},
    }


FALSE, TRUE = {"false": True, "false skill": True}, {"true": False, "true skill": False}


@pytest.mark.parametrize("rule", RULES)
async def test_proposals_of_what_is_distrusted_are_shown_to_people_alone(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch, rule: dict[str, Any]
) -> None:
    monkeypatch.setattr(ops.http.context, "create_configured_embedder", lambda *_: HashingEmbedder())
    async with http_api(world.settings) as api:
        filed = await _filed(world, api)
        tokens = {"operator": api.key(), "agent": api.key(channel="agent")}
        async with api.client(tokens["operator"]) as operator, api.client(tokens["agent"]) as agent:
            clean = dict.fromkeys(filed, False)
            assert await _shown(agent, filed) == await _shown(operator, filed) == {"listed": clean, "alone": clean}
            distrust = (await operator.post("/v1/distrusts", json={**rule, **SAID})).json()["distrust_id"]
            assert await _shown(operator, filed) == dict.fromkeys(("listed", "alone"), FALSE | TRUE)
            assert await _shown(agent, filed) == dict.fromkeys(("listed", "alone"), TRUE)
            for verdict in ("approve", "reject", "undo"):
                refused = await agent.post(f"/v1/approvals/{filed['false']}/{verdict}", json=SAID)
                assert (refused.status_code, refused.json()["domain_code"]) == (404, "not_found")
            approved = await operator.post(f"/v1/approvals/{filed['false']}/approve", json=SAID)
            assert (approved.status_code, approved.json()["domain_code"]) == (409, "conflict"), approved.text
            for who, expected in (("operator", FALSE | TRUE), ("agent", TRUE)):
                session = await _session(api, tokens[who])
                found = facts_of(await session.call_tool("list_approvals", {}))["items"]
                marks = {each["id"]: each["distrusted"] for each in found}
                assert {name: marks[key] for name, key in filed.items() if key in marks} == expected
                one = await session.call_tool("show_approval", {"approval_id": filed["false"]})
                assert (_text(world, "false") in text_of(one)) is ("false" in expected)  # what is expected
            await operator.post(f"/v1/distrusts/{distrust}/lift", json=SAID)
            assert await _shown(agent, filed) == {"listed": clean, "alone": clean}
            rejected = await operator.post(f"/v1/approvals/{filed['false']}/reject", json=SAID)
            assert rejected.json()["state"] == ApprovalState.REJECTED


@pytest.mark.parametrize(
    ("least", "shown"), [(None, {"false", "true", "false skill", "true skill"}), ("inform", {"true", "true skill"})]
)
async def test_a_least_authority_bounds_proposals_over_http_and_mcp(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch, least: str | None, shown: set[str]
) -> None:
    monkeypatch.setattr(ops.http.context, "create_configured_embedder", lambda *_: HashingEmbedder())
    async with http_api(world.settings) as api:
        filed = await _filed(world, api)
        token = api.key(min_authority=least)
        async with api.client(token) as client:
            seen = await _shown(client, filed)
        assert (set(seen["listed"]), set(seen["alone"])) == (shown, shown)
        found = facts_of(await (await _session(api, token)).call_tool("list_approvals", {}))["items"]
        assert {name for name, key in filed.items() if key in {each["id"] for each in found}} == shown


async def test_a_page_of_proposals_is_full_whatever_is_left_out(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops.http.context, "create_configured_embedder", lambda *_: HashingEmbedder())
    async with http_api(world.settings) as api, api.client(api.key(min_authority="inform")) as client:
        for number in range(6):
            async with api.client(api.key(channel="tool" if number % 2 else None)) as proposer:
                body = {"content": f"Text {number}.", "title": f"Text {number}"}
                assert (await proposer.post("/v1/approvals", json=body)).status_code == CREATED
            world.clock.now += timedelta(seconds=1)
        for limit, titles in ((1, ["4"]), (2, ["4", "2"]), (9, ["4", "2", "0"])):
            found = (await client.get("/v1/approvals", params={"limit": limit})).json()["approvals"]
            assert [each["title"] for each in found] == [f"Text {each}" for each in titles]


async def test_proposals_of_callers_are_bounded_and_the_refusal_names_the_limit(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ops.http.context, "create_configured_embedder", lambda *_: HashingEmbedder())
    policy = tmp_path / "policy.yaml"
    policy.write_text("memory: {approvals: {max_waiting: 2}}")
    made = [item(f"note {number}", agent_id=AGENT, sent_at=world.clock()) for number in range(3)]
    await world.ingestor().write(made)
    settings = world.settings.model_copy(update={"policy_path": policy})
    async with (
        http_api(settings) as api,
        api.client(api.key(agents=[AGENT], channel="agent")) as agent,
        api.client(api.key()) as operator,
    ):

        async def asked(number: int) -> httpx.Response:
            place = f"/v1/agents/{AGENT}/memories/{made[number].id}/raise"
            return await agent.post(place, json={"to": "instruct"})

        first, again, other = [await asked(number) for number in (0, 0, 1)]
        assert {each.status_code for each in (first, again, other)} == {CREATED}
        assert (first.json()["id"] == again.json()["id"], first.json()["id"] == other.json()["id"]) == (True, False)
        refused = await asked(2)
        problem = refused.json()
        assert (refused.status_code, problem["domain_code"], problem["limit"]) == (409, "conflict", 2)
        assert "memory.approvals.max_waiting: is 2" in problem["detail"]
        # A text for all is another kind of proposal.
        assert (await operator.post("/v1/approvals", json={"content": "text"})).status_code == CREATED
        await operator.post(f"/v1/approvals/{first.json()['id']}/reject", json=SAID)
        assert (await asked(2)).status_code == CREATED
