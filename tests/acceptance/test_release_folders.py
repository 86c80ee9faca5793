"""Data folders that earlier releases made, under today's code: all that they hold is there, searched and undone.

``tests/support/release_folder.py`` made them.
"""

import asyncio
import json
import subprocess
import tarfile
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.ledger_records import postgres_database
from support.older_ledgers import copy_to_postgresql
from support.plain_processes import fleet
from support.release_folder import ABOVE, AGENTS, FACT, LIMIT, PROPOSALS, PUBLISHED, WORKING, carried, noted
from support.repository import ROOT
from support.running_stack import MEMTEND, clean_environ, running_stack
from support.store_servers import store_server
from support.valkey_servers import valkey_server

from memcore.backends.factory import create_engine_backend
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.models.memory import MemoryQuery

pytestmark = pytest.mark.acceptance

ADA, BOB = AGENTS


@dataclass(frozen=True, kw_only=True)
class Installation:
    """A folder of an earlier release, upgraded and running."""

    settings: Settings
    memtend: Callable[..., str]

    def said(self, *words: str) -> Any:
        """The JSON that a command prints."""
        return json.loads(self.memtend(*words, "--json"))

    def texts(self, agent_id: str) -> set[str]:
        """The memories of an agent, all of them."""
        return {json.loads(line)["content"] for line in self.memtend("export", "--agent", agent_id).splitlines()}

    async def found(self, texts: set[str], agent_id: str) -> set[str]:
        """Those of the texts that the agent finds first when it asks for them."""
        memory = create_engine_backend(self.settings, Policy())
        await memory.connect()
        try:
            answers = {each: await memory.retrieve(agent_id, MemoryQuery(text=each, limit=1)) for each in texts}
        finally:
            await memory.disconnect()
        return {text for text, answer in answers.items() if [each.content for each in answer] == [text]}


def _embedded(stack: ExitStack, home: Path) -> Installation:
    running = stack.enter_context(running_stack(home))

    def memtend(*words: str) -> str:
        command = [str(MEMTEND), *words, "--home", str(home)]
        done = subprocess.run(command, env=clean_environ(), check=True, capture_output=True, text=True)
        return done.stdout

    return Installation(settings=running.settings, memtend=memtend)


def _distributed(stack: ExitStack, home: Path, postgres: str) -> Installation:
    url = stack.enter_context(postgres_database(postgres))
    copy_to_postgresql(home / "data", url)
    broker = stack.enter_context(valkey_server(home / "broker"))
    (home / "data" / "vectors").rename(home / "data" / "data")
    store = stack.enter_context(store_server(home / "data"))
    variables = {"database_url": url, "qdrant_url": store.url, "qdrant_api_key": store.api_key}
    variables |= {"broker_url": broker.url, "policy_path": str(home / "policy.yaml")}
    parts = stack.enter_context(fleet(home / "fleet", **variables))
    parts.memtend("migrate")
    parts.start_all("worker-store", "worker-night")
    return Installation(settings=parts.settings, memtend=parts.memtend)


@pytest.fixture(
    params=[
        ("0.1.0", "sqlite"),
        ("0.2.0", "sqlite"),
        # The ledger of 0.2.0 there: tests/integration/ledger/test_upgrade.py.
        pytest.param(("0.1.0", "postgresql"), marks=pytest.mark.service),
    ],
    ids="-".join,
)
def upgraded(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Installation]:
    release, database = request.param
    home = tmp_path / "home"
    with tarfile.open(ROOT / f"tests/fixtures/releases/{release}-folder.tar.xz") as archive:
        archive.extractall(home, filter="data")
    with ExitStack() as stack:
        if database == "sqlite":
            yield _embedded(stack, home)
        else:
            yield _distributed(stack, home, request.getfixturevalue("postgres"))


def test_what_an_earlier_release_kept_is_there_searched_and_undone(upgraded: Installation) -> None:
    all_of = {
        agent: {noted(agent, n) for n in range(LIMIT + ABOVE)} | {carried(agent, n) for n in range(WORKING)}
        for agent in AGENTS
    }
    kept = {agent: upgraded.texts(agent) for agent in AGENTS}
    assert (kept[BOB], len(kept[ADA])) == (all_of[BOB], LIMIT)
    for agent, texts in kept.items():
        assert asyncio.run(upgraded.found(texts, agent)) == texts

    archived = {each["text"] for each in upgraded.said("archive", "list", ADA)}
    assert len(archived) == ABOVE
    assert archived == {noted(ADA, n) for n in range(LIMIT + ABOVE)} - kept[ADA]
    runs = upgraded.said("runs", "list")
    assert {(each["agent_id"], each["kind"], each["state"]) for each in runs} == {
        (ADA, "maintenance", "done"),
        (BOB, "maintenance", "done"),
        (BOB, "undo", "done"),
    }
    (run,) = (each for each in runs if each["agent_id"] == ADA)
    upgraded.memtend("runs", "undo", run["run_id"])
    assert upgraded.texts(ADA) == all_of[ADA]

    assert [each["text"] for each in upgraded.said("org", "list")] == [FACT]
    before = {each["text"] for each in upgraded.said("shared", "search")}
    approvals = {each["state"]: each["id"] for each in upgraded.said("approvals", "list")}
    upgraded.memtend("approvals", "undo", approvals["approved"], "--by", "Ida")
    upgraded.memtend("approvals", "approve", approvals["pending"], "--by", "Ida")
    after = {each["text"] for each in upgraded.said("shared", "search")}
    assert before | after == {FACT, PUBLISHED, *PROPOSALS}
    assert before & after == {FACT, PUBLISHED}

    upgraded.memtend("store", ADA, "Ada repairs the lighthouse lamp.")
    assert asyncio.run(upgraded.found({"Ada repairs the lighthouse lamp."}, ADA))
