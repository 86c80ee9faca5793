"""kill -9 of the worker in the middle of erasures, of an agent and of a person: each goes on, and no byte is left.

The person's words come as mem0's clients send them: over HTTP, and through mem0's own Memory of an engine.
"""

import json
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import create_engine, update
from support.command_line import CommandLine
from support.reindex_load import kill_run
from support.running_stack import StackAddress, running_stack, wait_until

from memcore import Memory, MemoryClient
from memcore.client.envelopes import ImportRecord
from memcore.config.policy import Policy
from memcore.erasure.probe import search_files
from memcore.jobs import ErasePayload
from memcore.ledger.access.keys import Verb
from memcore.ledger.erasure.erasures import Erasure
from memcore.ledger.ledger import Ledger
from memcore.ledger.tables import OPEN_WORK, work_items
from memcore.ledger.work_items import WorkState
from memcore.models.memory import MemoryCategory
from ops.cli.session import ledger_of

pytestmark = pytest.mark.acceptance

#: Memories of the agent: enough that an erasure takes as long as a look at the ledger.
MEMORIES = 2_000

#: Of these the texts are looked for in the files.
PROBES = 100

#: The worker is killed once so many places of the erasure have been counted: at its beginning, within, at its end.
POINTS = (1, 12, 30)

#: Before every lease and every message that may still arrive.
LONG_AGO = datetime.now(UTC) - timedelta(hours=2)

SURE = ("--by", "grace", "--reason", "she has left", "--yes")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    with running_stack(tmp_path_factory.mktemp("erasures") / "home") as address:
        yield address


@pytest.fixture(scope="module")
def ledger(stack: StackAddress) -> Generator[Ledger]:
    with ledger_of(stack.settings) as opened:
        yield opened


def secrets(name: str, count: int) -> list[str]:
    return [f"{name} keeps {uuid4().hex} for number {n}" for n in range(count)]


def store(stack: StackAddress, agent_id: str, texts: list[str]) -> None:
    with MemoryClient.from_settings(stack.settings) as client:
        for at in range(0, len(texts), 200):
            client.import_many(
                [
                    ImportRecord(agent_id=agent_id, category=MemoryCategory.SEMANTIC, content=text)
                    for text in texts[at : at + 200]
                ]
            )


def erasure_of(ledger: Ledger, stack: StackAddress, agent_id: str) -> Erasure:
    (found,) = ledger.erasures.page(stack.settings.company, agent_id=agent_id)
    return found


def let_time_pass(stack: StackAddress) -> None:
    """Let the lease of the killed worker have ended long ago, so that the next sweep dispatches its item."""
    engine = create_engine(stack.settings.ledger_urls.ledger)
    with engine.begin() as connection:
        its = work_items.c.kind == ErasePayload.task
        connection.execute(
            update(work_items).where(its, OPEN_WORK).values(lease_until=LONG_AGO, dispatch_after=LONG_AGO)
        )
    engine.dispose()


def kill_within(stack: StackAddress, ledger: Ledger, agent_id: str, *, points: tuple[int, ...]) -> int:
    """Kill the worker once each of these numbers of places is noted; return how often it was within the erasure."""
    kills = 0
    for point in points:
        restarts = stack.restarts("worker-night")
        while True:
            erasure = erasure_of(ledger, stack, agent_id)
            if erasure.state is WorkState.DONE:
                return kills
            if erasure.state is WorkState.LEASED and len(erasure.found) >= point:
                break
            sleep(0.001)
        kill_run(stack)
        kills += erasure_of(ledger, stack, agent_id).state is WorkState.LEASED
        wait_until(lambda before=restarts: stack.restarts("worker-night") > before, what="the worker to be back")  # type: ignore[misc]
        wait_until(lambda: stack.is_ready("worker-night"), what="the worker to be ready")
        let_time_pass(stack)
    return kills


def wait_done(stack: StackAddress, ledger: Ledger, agent_id: str) -> Erasure:
    wait_until(lambda: erasure_of(ledger, stack, agent_id).state is WorkState.DONE, what="the erasure to end")
    return erasure_of(ledger, stack, agent_id)


def hits(stack: StackAddress, texts: list[str]) -> set[int]:
    return {hit.probe for hit in search_files(stack.home, texts)}


def verified(stack: StackAddress, erasure: Erasure, tmp_path: Path) -> dict[str, Any]:
    memtend, receipt = CommandLine(home=stack.home), tmp_path / "receipt.json"
    receipt.write_text(memtend.ok("erase", "receipt", erasure.erasure_id).out)
    shown = memtend.ok("erase", "verify", str(receipt), "--json").value
    assert shown["left"] == 0
    assert all(place["left"] == 0 for place in json.loads(receipt.read_text())["places"].values())
    return dict(shown)


def test_an_agent_is_erased_although_its_worker_is_killed_again_and_again(
    stack: StackAddress, ledger: Ledger, tmp_path: Path
) -> None:
    hers, his = secrets("ada", MEMORIES), secrets("bob", PROBES)
    store(stack, "ada", hers)
    store(stack, "bob", his)
    memtend = CommandLine(home=stack.home)
    probes = hers[:: MEMORIES // PROBES]
    everything = set(range(1, PROBES + 1))
    wait_until(lambda: hits(stack, probes) == hits(stack, his) == everything, what="the memories to be stored")
    memtend.ok("erase", "agent", "ada", *SURE)
    assert kill_within(stack, ledger, "ada", points=POINTS) >= 2
    shown = verified(stack, wait_done(stack, ledger, "ada"), tmp_path)
    assert (shown["agent_id"], shown["found in store"]) == ("ada", MEMORIES)
    assert hits(stack, probes) == set()
    assert hits(stack, his) == everything


def said_over_http(stack: StackAddress, user_id: str, texts: list[str]) -> None:
    doors = json.loads((stack.home / "run" / "doors.json").read_text())
    with ledger_of(stack.settings) as ledger:
        made = ledger.api_keys.create(
            stack.settings.company, name=f"mem0 of {user_id}", verbs=[Verb.READ, Verb.WRITE], agents=["helpdesk"]
        )
    headers = {"Authorization": f"Token {made.token}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{doors['serve_port']}", headers=headers, timeout=600) as client:
        for text in texts:
            body = {"messages": [{"role": "user", "content": text}], "user_id": user_id, "infer": False}
            client.post("/v3/memories/add/", json=body).raise_for_status()


def said_to_mem0(stack: StackAddress, user_id: str, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEM0_TELEMETRY", "False")
    with Memory.from_settings(stack.settings, Policy()) as memory:
        own = memory.mem0("helpdesk")
        for text in texts:
            own.add(text, user_id=user_id, infer=False)
        own.close()


def test_a_person_of_mem0s_calls_is_erased_although_the_worker_is_killed(
    stack: StackAddress, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = {name: secrets(name, 20) for name in ("ann", "eve")}
    for name, texts in people.items():
        said_over_http(stack, name, texts[:10])
        said_to_mem0(stack, name, texts[10:], monkeypatch)
    everything = set(range(1, 21))
    wait_until(lambda: all(hits(stack, texts) == everything for texts in people.values()), what="them to be stored")
    CommandLine(home=stack.home).ok("erase", "subject", "helpdesk", "ann", *SURE)
    assert kill_within(stack, ledger, "helpdesk", points=(1, 12)) >= 1
    shown = verified(stack, wait_done(stack, ledger, "helpdesk"), tmp_path)
    assert (shown["subject"], shown["found in store"]) == ("user:ann", 20)
    assert hits(stack, people["ann"]) == set()
    assert hits(stack, people["eve"]) == everything
