"""The unmodified npm client of mem0, the example, and ``Memory.mem0``, on what a real ``serve`` serves."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.repository import ROOT
from support.running_stack import StackAddress
from support.serve_process import ServeProcess

from memcore import AsyncMemory
from memcore.config.loader import effective_policy

#: The npm client, in the version that was read for the paths.
NPM_CLIENT = "mem0ai@3.3.1"


pytestmark = pytest.mark.slow(because="it starts a stack with a language model, and a server")


@pytest.fixture(scope="module")
def npm_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the npm client of mem0, as the registry has it."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("npm")
    (folder / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
    argv = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=peer", NPM_CLIENT]
    installed = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    if installed.returncode:
        pytest.skip(f"npm cannot install {NPM_CLIENT} here: {installed.stderr[-300:]}")
    return folder


def test_the_npm_client_does_the_same(
    npm_package: Path, server: ServeProcess, key: Callable[..., str], agent: str, inferring: StackAddress
) -> None:
    script = shutil.copy(Path(__file__).with_name("mem0_client.mjs"), npm_package)
    environ = {**os.environ, "MEM0_TELEMETRY": "false", "MEM0_DIR": str(npm_package)}
    argv = ["node", str(script), server.url, key(agents=[agent])]
    ended = subprocess.run(argv, cwd=npm_package, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr[-2_000:]
    said = json.loads(ended.stdout)

    assert said["project"] == inferring.settings.company
    assert [(one["memory"], one["event"]) for one in said["added"]] == [
        ("I drink green tea in the morning", "ADD"),
        ("I like jazz", "ADD"),
    ]
    (best,) = said["search"]
    assert (best["id"], best["memory"]) == (said["added"][0]["id"], "I drink green tea in the morning")
    assert (best["userId"], best["agentId"], best["runId"]) == ("mara", agent, "r1")
    assert best["metadata"] == {"someMood": "calm"}
    assert said["filtered"] == ["I like jazz"]
    assert (said["listed"]["count"], len(said["listed"]["results"])) == (2, 1)
    assert said["record"]["memory"] == "I drink green tea in the morning"
    assert (said["updated"]["memory"], said["updated"]["metadata"]) == ("I drink coffee", {"someMood": "awake"})
    assert said["history"][0] == ["ADD", None, "I drink green tea in the morning"]
    assert said["history"][-1][0::2] == ["UPDATE", "I drink coffee"]
    assert said["feedback"]["feedback"] == "POSITIVE"
    assert said["batch"] == ["I drink coffee", "I like opera"]
    assert said["deleted"] == 0
    assert (said["gone"]["name"], said["gone"]["code"]) == ("MemoryNotFoundError", "HTTP_404")
    assert said["users"] == [["agent", agent, 1], ["user", "lena", 1]]
    assert said["left"] == ["I like the blues"]
    assert said["empty"] == 0
    assert [(one["event"], one["memory"]) for one in said["drawn"]] == [("ADD", "User lives in Lisbon")]
    assert len(said["refused"]) == 14
    for method, refusal in said["refused"].items():
        assert refusal is not None, method
        assert refusal["code"] == "HTTP_501", method
        assert "not supported" in refusal["message"], method
    assert said["unauthorised"]["name"] == "AuthenticationError"


def test_the_example_runs(server: ServeProcess, key: Callable[..., str], agent: str, tmp_path: Path) -> None:
    environ = {**os.environ, "MEM0_API_KEY": key(agents=[agent]), "MEM0_HOST": server.url, "MEM0_DIR": str(tmp_path)}
    argv = [sys.executable, str(ROOT / "examples" / "mem0_client.py")]
    ended = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "I drink green tea in the morning  {'from': 'chat'}" in ended.stdout
    assert ended.stdout.endswith("UPDATE  I drink coffee in the morning\n0 memories left\n")


async def test_memory_mem0_opens_the_memories_that_this_server_serves(inferring: StackAddress, agent: str) -> None:
    async with AsyncMemory.from_settings(inferring.settings, effective_policy(None)) as memory:
        stored = await memory.put(agent, "The payment queue pages at 500", namespace="user:mara")
        opened = await memory.mem0(agent)
        try:
            assert [one["id"] for one in opened.get_all(filters={"agent_id": agent})["results"]] == [stored.id]
            added = opened.add("I like jazz", user_id="mara", infer=False)["results"][0]["id"]
        finally:
            opened.close()
        found = await memory.search(agent, "jazz")
    assert added in {entry.id for entry in found}
