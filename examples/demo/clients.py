"""The demo's last part: the same memories over HTTP, with mem0's npm client, and over MCP."""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from examples.demo.fleet_night import FleetDemo
from examples.demo.report import shortened
from examples.demo.talking import ABOUT_IDA, GUIDE, PERSON
from memcore.ledger.access.keys import Verb
from ops.cli.console import say

#: Whose memories are asked for, what is asked, and who keeps what the npm client adds.
_AGENT, _QUESTION, _NPM_AGENT = "oncall", "steps after a Redis failover", "concierge"

#: The program for node, and the release of mem0's client that it was written for.
_SCRIPT, _NPM_CLIENT = Path(__file__).with_name("clients.mjs"), "mem0ai@3.3.1"

#: Longest time for npm to install, and for node, in seconds.
_NPM_SECONDS, _NODE_SECONDS = 60.0, 30.0

#: Longest time for a model to answer, in seconds.
_MODEL_SECONDS = 120.0


def show_clients(demo: FleetDemo, url: str, model: str) -> None:
    """Ask the running stack's server in four ways, and print each question and its answer."""
    say(f"\nthe same memories for every engine, at {url}")
    key = _new_key(demo, _AGENT)
    show_curl(url, key)
    show_npm_client(url, _new_key(demo, _NPM_AGENT))
    show_mcp(url, key)
    show_router(url, _new_key(demo, GUIDE), model)


def show_curl(url: str, key: str) -> None:
    """Print a command line for curl, and what the server answers to it."""
    path, body = f"/v1/agents/{_AGENT}/search", {"text": _QUESTION, "limit": 1}
    say("  with curl (KEY=$(memtend keys create demo --by you)):")
    say(f"    curl -s {url}{path} -H \"Authorization: Bearer $KEY\" -H 'Content-Type: application/json' \\")
    say(f"      -d '{json.dumps(body)}'")
    answer = httpx.post(url + path, json=body, headers={"Authorization": f"Bearer {key}"}, timeout=30)
    answer.raise_for_status()
    for memory in answer.json()["memories"]:
        say(f"    {memory['created_at'][:10]}  {shortened(memory['content'])}")


def show_npm_client(url: str, key: str) -> None:
    """Print a program for mem0's npm client, and run it where node and npm are."""
    say(f"  in TypeScript, with mem0's own client ({_NPM_CLIENT}):")
    for line in _SCRIPT.read_text(encoding="utf-8").splitlines():
        say(f"    {line}")
    printed = _run_node(url, key)
    say(
        "    (node or npm is not here, or npm cannot fetch it: not run)"
        if printed is None
        else f"    prints: {printed}"
    )


def show_mcp(url: str, key: str) -> None:
    """Call a tool as a host of MCP does, and print its answer."""
    address, arguments = f"{url}/mcp/{_AGENT}", {"query": _QUESTION, "limit": 1}
    say(f"  over MCP, at {address}: search_memory({json.dumps(arguments)})")
    for line in asyncio.run(_call_tool(address, key, arguments)).splitlines():
        say(f"    {shortened(line)}")


def show_router(url: str, key: str, model: str) -> None:
    """Ask a model as any application does whose base URL leads here, and print what became of its memory."""
    body = {"model": model, "user": PERSON, "messages": [{"role": "user", "content": ABOUT_IDA}]}
    say(f"  an application of OpenAI's API, with the base URL {url}/router/v1 and user={json.dumps(PERSON)}:")
    say(f"    {ABOUT_IDA}")
    own = os.environ.get("MEMTEND_LLM_API_KEY", "none")
    headers = {"x-memtend-key": key, "x-memtend-agent": GUIDE, "Authorization": f"Bearer {own}"}
    answer = httpx.post(f"{url}/router/v1/chat/completions", json=body, headers=headers, timeout=_MODEL_SECONDS)
    answer.raise_for_status()
    say(f"    what she said in the sessions above, before the model answers: {answer.headers['x-memtend-memory']}")


async def _call_tool(address: str, key: str, arguments: dict[str, object]) -> str:
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30.0) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        result = await client.call_tool("search_memory", arguments)
    return "\n".join(each.text for each in result.content if each.type == "text")


def _new_key(demo: FleetDemo, agent_id: str) -> str:
    verbs = (Verb.READ, Verb.WRITE)
    return demo.ledger.api_keys.create(demo.company, name=f"demo of {agent_id}", verbs=verbs, agents=[agent_id]).token


def _run_node(url: str, key: str) -> str | None:
    """Return what the program prints; None where it cannot be run."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        return None
    with tempfile.TemporaryDirectory(prefix="memtend-demo-npm-") as name:
        # A folder with a package of its own: npm would look for one in the folders above.
        (Path(name) / "package.json").write_text('{"private": true}', encoding="utf-8")
        script = shutil.copy(_SCRIPT, name)
        install = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=peer", _NPM_CLIENT]
        try:
            subprocess.run(install, cwd=name, capture_output=True, check=True, timeout=_NPM_SECONDS)
        except (subprocess.SubprocessError, OSError):
            return None
        environ = {**os.environ, "MEMTEND_URL": url, "MEMTEND_KEY": key, "MEM0_TELEMETRY": "false", "MEM0_DIR": name}
        done = subprocess.run(
            [node, str(script)],
            cwd=name,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=_NODE_SECONDS,
        )
    said = (done.stdout if done.returncode == 0 else done.stderr).strip()
    return said if done.returncode == 0 else f"failed with exit code {done.returncode}: {said[-200:]}"
