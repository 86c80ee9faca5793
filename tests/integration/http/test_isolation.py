"""Two companies, their agents and verbs: a key finds and changes what it is for, and nothing else, on every path."""

import asyncio
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.console import signed_in
from support.http_api import ALL, HttpApi, http_api
from support.memories import new_agent
from support.operator_paths import RUNS, is_company_wide, is_of_operators
from support.running_stack import StackAddress
from support.thorough import examples

from memcore.ledger.access.keys import Verb
from ops.http.access import OPEN_PATHS

#: Paths of operations, whose ids say whose they are.
BY_ID = {"/v1/operations/{operation_id}", "/v1/operations/{operation_id}/events"}

COMPANIES = ("default", "globex")

#: The verb that each request of the property needs.
NEEDS = {"search": Verb.READ, "context": Verb.READ, "get": Verb.READ, "status": Verb.READ, "store": Verb.WRITE}


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One memory of an agent of a company, and the operation that stored it."""

    company: str
    agent: str
    text: str
    memory_id: str
    operation_id: str


@dataclass(kw_only=True)
class World:
    runner: asyncio.Runner
    http_api: HttpApi
    agents: tuple[str, str]
    kept: list[Kept] = field(default_factory=list)

    def send(self, token: str, method: str, path: str, **given: Any) -> httpx.Response:
        async def sent() -> httpx.Response:
            async with self.http_api.client(token) as client:
                return await client.request(method, path, **given)

        return self.runner.run(sent())


async def _held(stack: StackAddress, opened: "asyncio.Future[HttpApi]", ended: asyncio.Event) -> None:
    """Hold an API open: in one task, as its parts ask for."""
    async with http_api(stack.settings) as made:
        opened.set_result(made)
        await ended.wait()


def _kept(world: World, company: str, agent: str) -> Kept:
    """Store a memory of an agent of a company."""
    text = f"The word of {company} for {agent} is marigold."
    path, token = f"/v1/agents/{agent}/memories", world.http_api.key(company=company)
    stored = world.send(token, "POST", path, json={"content": text}, params={"wait": "true"})
    assert stored.status_code == 201, stored.text
    (memory_id,) = stored.json()["memory_ids"]
    operation_id = stored.json()["operation_id"]
    return Kept(company=company, agent=agent, text=text, memory_id=memory_id, operation_id=operation_id)


@pytest.fixture(scope="module")
def world(stack: StackAddress) -> Generator[World]:
    with asyncio.Runner() as runner:
        loop, ended = runner.get_loop(), asyncio.Event()
        opened: asyncio.Future[HttpApi] = loop.create_future()
        holding = loop.create_task(_held(stack, opened, ended))
        held = runner.run(asyncio.wait_for(opened, 600))
        made = World(runner=runner, http_api=held, agents=(new_agent("a"), new_agent("b")))
        held.context.ledger.companies.add("globex")
        made.kept += [_kept(made, company, agent) for company in COMPANIES for agent in made.agents]
        yield made
        ended.set()
        runner.run(asyncio.wait_for(holding, 600))


def _operations(app_api: HttpApi) -> list[tuple[str, str]]:
    paths: dict[str, dict[str, Any]] = app_api.app.openapi()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def _filled(path: str, **names: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "1"), path)


def test_every_path_is_open_on_purpose_names_its_agent_or_has_ids_of_its_own(world: World) -> None:
    document: dict[str, dict[str, Any]] = world.http_api.app.openapi()["paths"]
    # Those of mem0 name the agent in the body, and have tests of their own.
    paths = {path for path, methods in document.items() if any(each["tags"] != ["mem0"] for each in methods.values())}
    assert len(paths) > 10
    others = {path for path in paths if "{agent_id}" not in path and not is_of_operators(path)}
    assert others == (OPEN_PATHS & paths) | BY_ID


def test_what_is_of_a_company_is_refused_to_a_key_of_one_agent(world: World) -> None:
    token = world.http_api.key(agents=[world.agents[0]])
    asked = [(method, path) for method, path in _operations(world.http_api) if is_company_wide(path)]
    assert len(asked) > 30
    for method, path in asked:
        answer = world.send(token, method, _filled(path), json={})
        assert (answer.status_code, answer.json()["domain_code"]) == (403, "denied"), f"{method} {path}"


def test_what_is_of_a_company_is_refused_to_a_key_without_the_verb(world: World) -> None:
    token = world.http_api.key(verbs=(Verb.WRITE,))
    for method, path in _operations(world.http_api):
        is_run, proposes = path.startswith(RUNS), (method, path) == ("POST", "/v1/approvals")
        if is_of_operators(path) and not is_run and not proposes:
            answer = world.send(token, method, _filled(path), json={})
            assert answer.status_code == 403, f"{method} {path}"


def test_without_a_key_no_path_answers(world: World) -> None:
    async def answers() -> dict[str, int]:
        async with world.http_api.client() as client:
            return {
                f"{method} {path}": (await client.request(method, _filled(path))).status_code
                for method, path in _operations(world.http_api)
            }

    assert {code for name, code in world.runner.run(answers()).items() if name.split()[1] not in OPEN_PATHS} == {401}


def test_a_key_of_one_agent_is_refused_for_another_on_every_path(world: World) -> None:
    mine, other = world.agents
    token = world.http_api.key(agents=[mine])
    for method, path in _operations(world.http_api):
        if "{agent_id}" in path:
            answer = world.send(token, method, _filled(path, agent_id=other), json={})
            assert (answer.status_code, answer.json()["domain_code"]) == (403, "denied"), f"{method} {path}"


def test_a_key_without_a_verb_is_refused_on_every_path(world: World) -> None:
    token = world.http_api.key(verbs=(Verb.APPROVE,))
    for method, path in _operations(world.http_api):
        if "{agent_id}" in path:
            answer = world.send(token, method, _filled(path, agent_id=world.agents[0]), json={})
            assert answer.status_code == 403, f"{method} {path}"


@pytest.mark.parametrize("path", sorted(BY_ID))
def test_what_has_an_id_of_its_own_is_found_by_its_company_and_agent_alone(world: World, path: str) -> None:
    for kept in world.kept:
        place = _filled(path, operation_id=kept.operation_id)
        own = world.http_api.key(company=kept.company, agents=[kept.agent])
        assert world.send(own, "GET", place).status_code == 200
        (foreign,) = set(COMPANIES) - {kept.company}
        (other,) = set(world.agents) - {kept.agent}
        for token in (
            world.http_api.key(company=foreign),
            world.http_api.key(company=foreign, agents=[kept.agent]),
            world.http_api.key(company=kept.company, agents=[other]),
        ):
            for method in ("GET", "DELETE"):
                answer = world.send(token, method, place)
                assert answer.status_code == 404 or (method, answer.status_code) == ("DELETE", 405)
    assert world.send(world.http_api.key(), "GET", _filled(path)).status_code == 404


def _signed_in(world: World, token: str, method: str, paths: list[str]) -> dict[str, httpx.Response]:
    async def answers() -> dict[str, httpx.Response]:
        async with signed_in(world.http_api.app, token) as browser:
            await browser.get("sign-in")
            if method == "GET":
                return {path: await browser.http.get(f"/console/{path}") for path in paths}
            return {path: await browser.send(path, confirm="yes", reason="x") for path in paths}

    return world.runner.run(answers())


#: Pages of the console that show memories of an agent.
SHOWING = ("memories?agent={agent}", "memories?agent={agent}&q=marigold", "memories/one?agent={agent}&id={memory}")


@pytest.mark.parametrize("path", SHOWING)
def test_the_console_shows_a_memory_to_keys_of_its_company_and_agent_alone(world: World, path: str) -> None:
    for kept in world.kept:
        place = path.format(agent=kept.agent, memory=kept.memory_id)
        own = world.http_api.key(company=kept.company, agents=[kept.agent])
        shown = _signed_in(world, own, "GET", [place])[place]
        assert (shown.status_code, kept.text in shown.text) == (200, True)
        (foreign,) = set(COMPANIES) - {kept.company}
        (other,) = set(world.agents) - {kept.agent}
        for token in (
            world.http_api.key(company=foreign),
            world.http_api.key(company=foreign, agents=[kept.agent]),
            world.http_api.key(company=kept.company, agents=[other]),
            world.http_api.key(company=kept.company, verbs=(Verb.WRITE, Verb.MAINTAIN, Verb.APPROVE)),
        ):
            hidden = _signed_in(world, token, "GET", [place])[place]
            assert kept.text not in hidden.text, place


def test_a_key_of_one_agent_decides_nothing_of_the_company_in_the_console(world: World) -> None:
    token = world.http_api.key(agents=[world.agents[0]])
    pages = [
        "approvals",
        "approvals/1",
        "skills",
        "skills/1",
        "distrusts",
        "distrusts/1",
        "queues",
        "embedder",
        "audit",
    ]
    actions = ["fleet/pause-all", "approvals/1/approve", "approvals/1/undo", "queues/replay", "queues/delete",
               "embedder/deploy", "embedder/rollback", "embedder/cancel", "embedder/delete", "distrusts",
               "distrusts/1/lift"]  # fmt: skip
    for method, paths in (("GET", pages), ("POST", actions)):
        for path, answer in _signed_in(world, token, method, paths).items():
            assert answer.status_code == 403, path


@settings(max_examples=examples(40))
@given(data=st.data())
def test_no_answer_holds_what_the_key_is_not_for(world: World, data: st.DataObject) -> None:
    company = data.draw(st.sampled_from(COMPANIES))
    agents = data.draw(st.none() | st.lists(st.sampled_from(world.agents), min_size=1, unique=True))
    verbs = tuple(data.draw(st.lists(st.sampled_from(ALL), min_size=1, unique=True)))
    agent, asked = data.draw(st.sampled_from(world.agents)), data.draw(st.sampled_from(sorted(NEEDS)))
    aim = data.draw(st.sampled_from(world.kept))
    place = f"/v1/agents/{agent}"
    requests: dict[str, tuple[str, str, dict[str, Any]]] = {
        "search": ("POST", f"{place}/search", {"json": {"text": aim.text, "standing": "any"}}),
        "context": ("POST", f"{place}/context", {"json": {"text": aim.text, "token_budget": 500}}),
        "get": ("GET", f"{place}/memories/{aim.memory_id}", {}),
        "status": ("GET", f"/v1/operations/{aim.operation_id}", {}),
        "store": ("POST", f"{place}/memories", {"json": {"content": "The lift is out of order."}}),
    }
    method, path, body = requests[asked]
    answer = world.send(world.http_api.key(company=company, agents=agents, verbs=verbs), method, path, **body)

    about = aim.agent if asked == "status" else agent
    is_mine = aim.company == company and aim.agent == about
    may = NEEDS[asked] in verbs and (agents is None or about in agents)
    if asked == "status" and (not is_mine or not (agents is None or about in agents)):
        expected = {404}
    elif not may:
        expected = {403}
    else:
        expected = {
            "search": {200},
            "context": {200},
            "store": {202},
            "status": {200},
            "get": {200 if is_mine else 404},
        }[asked]
    assert answer.status_code in expected
    for kept in world.kept:
        if (kept.company, kept.agent) != (company, agent) or not may:
            assert kept.text not in answer.text
            assert asked == "status" or kept.memory_id not in answer.text
    if asked == "search" and may:
        found = {each["id"] for each in answer.json()["memories"]}
        assert {kept.memory_id for kept in world.kept if (kept.company, kept.agent) == (company, agent)} <= found
