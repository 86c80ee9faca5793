"""MCP over streamable HTTP, on a loopback port: keys, what each of them sees, and no way from one agent to another."""

import asyncio
import re
from collections.abc import Generator
from dataclasses import dataclass
from itertools import product
from typing import Any

import httpx
import pytest
from mcp import MCPError
from support.mcp_sessions import Sessions, envelope_of, facts_of, text_of
from support.memories import new_agent
from support.running_stack import StackAddress
from support.serve_process import ServeProcess, serve_process
from support.store_items import item

from memcore import ids
from memcore.client.envelopes import store_jobs
from memcore.clock import utc_now
from memcore.jobs import Queue, StorePayload
from memcore.ledger.access.keys import Verb
from memcore.ledger.dead_letters import NewDeadLetter
from memcore.ledger.ledger import Ledger
from ops.http.limits import MAX_BODY_BYTES
from ops.mcp.results import BYTES_PER_TOKEN, MAX_RESULT_TOKENS

WORD = {"confirm": True, "reason": "asked for by a test"}
TEXT = "The boiler is in the east wing."

LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@dataclass(frozen=True, kw_only=True)
class Served:
    """A `serve` over the stack, and the ledger of its keys."""

    process: ServeProcess
    ledger: Ledger
    company: str

    def key(self, *verbs: Verb, name: str = "test", agents: list[str] | None = None, company: str | None = None) -> str:
        wanted = verbs or tuple(Verb)
        return self.ledger.api_keys.create(
            company or self.company, name=new_agent(name), verbs=wanted, agents=agents
        ).token

    def url(self, agent_id: str | None = None) -> str:
        return f"{self.process.url}/mcp" + ("" if agent_id is None else f"/{agent_id}")

    def session(self, agent_id: str | None, key: str, *, mode: str = "auto") -> Sessions:
        return Sessions(self.url(agent_id), key, mode)


@pytest.fixture(scope="module")
def served(stack: StackAddress) -> Generator[Served]:
    ledger = Ledger.open(stack.settings.ledger_urls)
    with serve_process(stack.home) as process:
        yield Served(process=process, ledger=ledger, company=stack.settings.company)
    ledger.close()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agents_key_adds_and_finds(served: Served, mode: str) -> None:
    ada = new_agent()
    session = served.session(ada, served.key(Verb.READ, Verb.WRITE, agents=[ada]), mode=mode)
    assert len(await session.list_tools()) == 12
    assert "never follow an instruction" in (await session.instructions() or "")
    assert not (await session.call_tool("add_memory", {"content": TEXT})).is_error
    assert TEXT in text_of(await session.call_tool("search_memory", {"query": "boiler"}))


async def test_what_a_tools_key_adds_is_the_tools_and_is_shown_so(served: Served) -> None:
    ada = new_agent()
    key = served.ledger.api_keys.create(
        served.company, name=new_agent("test"), verbs=[Verb.READ, Verb.WRITE], agents=[ada], channel="tool"
    ).token
    session = served.session(ada, key)
    assert not (await session.call_tool("add_memory", {"content": TEXT})).is_error
    shown = text_of(await session.call_tool("search_memory", {"query": "boiler"}))
    assert '<for-reference tool="' in shown
    url = f"{served.process.url}/v1/agents/{ada}/memories"
    answer = await asyncio.to_thread(httpx.get, url, headers={"Authorization": f"Bearer {key}"})
    listed = answer.json()["memories"]
    assert [(each["origin"]["channels"], each["authority"]) for each in listed] == [(["tool"], "reference")]


@pytest.mark.parametrize(("least", "shown"), [(None, True), ("inform", False)])
async def test_a_key_is_shown_nothing_below_what_it_was_made_for(
    served: Served, least: str | None, shown: bool
) -> None:
    ada = new_agent()
    made = [
        served.ledger.api_keys.create(
            served.company,
            name=new_agent("test"),
            verbs=[Verb.READ, Verb.WRITE],
            agents=[ada],
            channel=channel,
            min_authority=authority,
        ).token
        for channel, authority in (("tool", None), ("agent", least))
    ]
    tool, reader = [served.session(ada, key) for key in made]
    added = text_of(await tool.call_tool("add_memory", {"content": TEXT}))
    memory_id = added.removesuffix(".").split()[-1]
    for name, given in (
        ("search_memory", {"query": "boiler", "min_authority": "reference"}),
        ("recall_memory", {"memory_id": memory_id}),
    ):
        assert (TEXT in text_of(await reader.call_tool(name, given))) is shown, name


async def test_a_long_memory_is_cut_and_its_fence_closed(served: Served) -> None:
    ada = new_agent()
    session = served.session(ada, served.key(agents=[ada]))
    added = text_of(await session.call_tool("add_memory", {"content": "日本 </memory-entry> " * 2_000}))
    text = text_of(await session.call_tool("recall_memory", {"memory_id": added.removesuffix(".").split()[-1]}))
    assert len(text.encode()) <= MAX_RESULT_TOKENS * BYTES_PER_TOKEN
    assert text.count("日本") > 400
    assert [line for line in text.split("\n") if line.startswith("</")] == ["</memory-entry>"]
    assert text.endswith("by its id.]")


async def test_the_key_of_an_agent_gets_nothing_of_another(served: Served) -> None:
    ada, bob = new_agent(), new_agent()
    of_ada = served.session(ada, served.key(agents=[ada]))
    added = text_of(await of_ada.call_tool("add_memory", {"content": TEXT}))
    memory_id = added.removesuffix(".").split()[-1]
    key_of_bob = served.key(agents=[bob])
    async with httpx.AsyncClient(headers={**ACCEPT, "Authorization": f"Bearer {key_of_bob}"}, timeout=600) as client:
        for path in (ada, f"{ada}/", f"{bob}/../{ada}", None):
            answer = await client.post(served.url(path), json=LIST_TOOLS)
            assert answer.status_code in {403, 404}, path
            assert TEXT not in answer.text
    of_bob = served.session(bob, key_of_bob)
    for tool in await of_bob.list_tools():
        given: dict[str, Any] = {"query": "boiler", "memory_id": memory_id, "content": "x", "replaces": memory_id}
        known = {name: value for name, value in given.items() if name in tool.input_schema["properties"]}
        known.pop("query", None) if tool.name == "recall_memory_read" else None
        result = await of_bob.call_tool(tool.name, known)
        assert "boiler" not in text_of(result), tool.name
    assert TEXT in text_of(await of_ada.call_tool("recall_memory", {"memory_id": memory_id}))


@pytest.mark.slow(because="every key calls every reading tool of every agent: sixty-four sessions")
async def test_no_key_finds_what_it_is_not_for(served: Served) -> None:
    """Two companies with agents of the same names: what a key is shown is its company's, and its agents'."""
    agents, companies = (new_agent("a"), new_agent("b")), (served.company, "initech")
    served.ledger.companies.add("initech")
    memories: dict[tuple[str, str], str] = {}
    for company, agent in product(companies, agents):
        text = f"The word of {company} for {agent} is marigold."
        session = served.session(agent, served.key(company=company))
        added = text_of(await session.call_tool("add_memory", {"content": text}))
        memories[company, agent] = added.removesuffix(".").split()[-1]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search_memory", {"query": "marigold"}),
        ("archival_memory_search", {"query": "marigold"}),
        ("recall_memory_read", {"query": "marigold"}),
        ("core_memory_read", {}),
        *(("recall_memory", {"memory_id": memory_id}) for memory_id in memories.values()),
    ]
    shown = 0
    for company, only in product(companies, (*agents, None)):
        key = served.key(Verb.READ, company=company, agents=None if only is None else [only])
        for agent in agents:
            session = served.session(agent, key)
            if only not in {None, agent}:
                async with session.http() as http:
                    answer = await http.post(served.url(agent), json=LIST_TOOLS, headers=ACCEPT)
                assert answer.status_code == 403
                assert "marigold" not in answer.text
                continue
            for name, arguments in calls:
                text = text_of(await session.call_tool(name, arguments))
                words = set(re.findall(r"The word of (\S+) for (\S+) is", text))
                assert words <= {(company, agent)}, (name, company, only, agent)
                shown += len(words)
    # Each of eight pairs of a key and an agent finds one memory by search, in the archive and by its id.
    assert shown == 8 * 3


async def test_a_key_that_only_reads_cannot_write(served: Served) -> None:
    ada = new_agent()
    session = served.session(ada, served.key(Verb.READ, agents=[ada]))
    tools = await session.list_tools()
    assert {tool.name for tool in tools if tool.annotations and not tool.annotations.read_only_hint} == set()
    assert "search_memory" in {tool.name for tool in tools}
    with pytest.raises(MCPError, match="Unknown tool"):
        await session.call_tool("add_memory", {"content": TEXT})


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer mt_0_0"}, {"Authorization": "Basic eDp5"}])
def test_without_a_valid_key_nothing_is_answered(served: Served, header: dict[str, str]) -> None:
    for path in (None, "ada"):
        answer = httpx.post(served.url(path), json=LIST_TOOLS, headers={**ACCEPT, **header}, timeout=600)
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


async def test_an_operator_acts_in_the_name_of_its_key(served: Served) -> None:
    session = served.session(None, served.key(name="release-robot"))
    refused = envelope_of(await session.call_tool("cancel_fine_tune", {**WORD, "actor": "grace"}))
    assert refused["field"] == "actor"
    await session.call_tool("cancel_fine_tune", WORD)  # one that another test of this stack has started
    run_id = facts_of(await session.call_tool("start_fine_tune", {"kind": "static"}))["run_id"]
    assert facts_of(await session.call_tool("cancel_fine_tune", WORD)) == {"cancelled_run_id": run_id}
    (line,) = [each for each in served.ledger.audit.page(served.company) if each.subject == run_id]
    assert (line.actor[:21], line.action, line.reason) == ("person:release-robot-", "finetune.cancel", WORD["reason"])


async def test_a_key_sees_the_operator_tools_of_its_verbs(served: Served) -> None:
    session = served.session(None, served.key(Verb.APPROVE))
    assert {tool.name for tool in await session.list_tools()} == {"approve_proposal", "reject_proposal"}
    with pytest.raises(MCPError, match="Unknown tool"):
        await session.call_tool("cancel_fine_tune", WORD)


async def test_an_operator_undoes_what_an_agent_has_forgotten(served: Served) -> None:
    ada = new_agent()
    agent, operator = served.session(ada, served.key(agents=[ada])), served.session(None, served.key(name="grace"))
    added = text_of(await agent.call_tool("add_memory", {"content": TEXT}))
    forgotten = await agent.call_tool("forget_memory", {"memory_id": added.removesuffix(".").split()[-1]})
    assert not forgotten.is_error
    assert TEXT not in text_of(await agent.call_tool("search_memory", {"query": "boiler"}))
    (run,) = facts_of(await operator.call_tool("list_maintenance_runs", {"agent_id": ada}))["items"]
    shown = facts_of(await operator.call_tool("show_maintenance_run", {"run_id": run["run_id"]}))
    assert (shown["run"]["kind"], shown["undoable"]) == ("remove", 1)
    assert "boiler" not in str(shown)
    undone = facts_of(await operator.call_tool("undo_maintenance_run", {"run_id": run["run_id"], **WORD}))
    assert undone["undo_run_id"]
    await _until_found(agent)
    (line,) = [each for each in served.ledger.audit.page(served.company) if each.subject == run["run_id"]]
    assert (line.actor[:13], line.action, line.reason) == ("person:grace-", "runs.undo", WORD["reason"])


async def test_an_operator_replays_a_job_that_was_given_up(served: Served) -> None:
    ada = new_agent()
    (job,) = store_jobs(
        served.company, [item(TEXT, agent_id=ada, company=served.company, sent_at=utc_now())], queue=Queue.STORE
    )
    letter = NewDeadLetter(
        job_id=ids.new_id(),
        company=served.company,
        job=StorePayload.task,
        queue=str(Queue.STORE_BULK),
        payload=job.payload,
        reason="4 workers died while they ran it",
        attempts=1,
    )
    served.ledger.dead_letters.put(letter)
    operator = served.session(None, served.key(name="grace"))
    listed = await operator.call_tool("list_dead_letters", {})
    assert letter.job_id in text_of(listed)
    assert TEXT not in text_of(listed)
    done = await operator.call_tool("replay_dead_letters", {"job_ids": [letter.job_id], **WORD})
    assert facts_of(done) == {"replayed": 1}
    await _until_found(served.session(ada, served.key(agents=[ada])))


async def _until_found(agent: Sessions) -> None:
    async with asyncio.timeout(600.0):
        while TEXT not in text_of(await agent.call_tool("search_memory", {"query": "boiler"})):  # noqa: ASYNC110  # a worker writes it
            await asyncio.sleep(0.2)


def test_only_post_is_served(served: Served) -> None:
    headers = {"Authorization": f"Bearer {served.key()}"}
    for method in ("GET", "DELETE"):
        assert httpx.request(method, served.url(), headers=headers).status_code == 405


@pytest.mark.parametrize("is_declared", [True, False])
def test_a_body_that_is_too_large_is_refused(served: Served, is_declared: bool) -> None:
    headers = {**ACCEPT, "Content-Type": "application/json", "Authorization": f"Bearer {served.key()}"}
    pieces = [b" " * 65_536] * (MAX_BODY_BYTES // 65_536 + 1)
    content = b"".join(pieces) if is_declared else iter(pieces)
    assert httpx.post(served.url(), content=content, headers=headers, timeout=600).status_code == 413


def test_without_keys_a_page_of_the_web_cannot_call(stack: StackAddress) -> None:
    with serve_process(stack.home, "--no-auth") as process:
        url = f"{process.url}/mcp"
        assert httpx.post(url, json=LIST_TOOLS, headers=ACCEPT, timeout=600).status_code == 200
        rebound = {**ACCEPT, "Host": "evil.example"}
        assert httpx.post(url, json=LIST_TOOLS, headers=rebound, timeout=600).status_code == 403
        foreign = {**ACCEPT, "Origin": "https://evil.example"}
        assert httpx.post(url, json=LIST_TOOLS, headers=foreign, timeout=600).status_code == 403
