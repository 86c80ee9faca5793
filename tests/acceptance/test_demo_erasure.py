"""The erase drill on the folder of the demo, whose agents have used every feature: no byte of an agent and a person."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, select
from support.command_line import CommandLine
from support.running_stack import StackAddress, clean_environ, running_stack, wait_until

from examples.demo.fleet import experience
from examples.demo.talking import GUIDE, PERSON
from memcore.backends.factory import create_engine_backend
from memcore.config.policy import Policy
from memcore.erasure.probe import MOST, search_files
from memcore.ledger.tables import archive
from memcore.programs import program_argv
from memcore.records import Where
from ops.cli.session import ledger_of

pytestmark = pytest.mark.acceptance

#: The agent that goes: it has experiences, lessons, summaries, an archive, and a run with its story.
GONE = experience().agent

#: Shortest text that is looked for, in characters: a shorter one may stand in another's words.
SHORTEST = 24

SURE = ("--by", "grace", "--reason", "the drill", "--yes")


def live(stack: StackAddress) -> dict[str, list[str]]:
    """Return the texts of every agent's memories."""
    with ledger_of(stack.settings) as ledger:
        agents = ledger.agents.list(stack.settings.company)

    async def texts() -> dict[str, list[str]]:
        backend = create_engine_backend(stack.settings, Policy())
        await backend.connect()
        try:
            return {
                each.agent_id: [entry.content async for entry in _entries(backend, each.agent_id)] for each in agents
            }
        finally:
            await backend.disconnect()

    return asyncio.run(texts())


async def _entries(backend: Any, agent_id: str) -> AsyncIterator[Any]:
    cursor = None
    while True:
        page = await backend.scan(Where(agent_id=agent_id), cursor=cursor)
        for each in page.records:
            yield each.entry
        cursor = page.cursor
        if cursor is None:
            return


def archived(stack: StackAddress) -> dict[str, list[str]]:
    """Return the texts of every agent's archived memories."""
    engine, found = create_engine(stack.settings.ledger_urls.journal), dict[str, list[str]]()
    with engine.connect() as connection:
        for agent_id, body in connection.execute(select(archive.c.agent_id, archive.c.body)):
            found.setdefault(agent_id, []).append(json.loads(body)["entry"]["content"])
    engine.dispose()
    return found


def said(kept: Any) -> list[str]:
    """Return the sentences of what is kept of a person, at any depth: no ids and no times, which have no spaces."""
    if isinstance(kept, dict):
        return [text for value in kept.values() for text in said(value)]
    if isinstance(kept, list):
        return [text for value in kept for text in said(value)]
    return [kept] if isinstance(kept, str) and " " in kept and len(kept) >= SHORTEST else []


def hits(stack: StackAddress, probes: list[str]) -> set[str]:
    """Return which of the texts stand in any file of the folder."""
    found: set[str] = set()
    for at in range(0, len(probes), MOST):
        part = probes[at : at + MOST]
        found |= {part[hit.probe - 1] for hit in search_files(stack.home, part)}
    return found


def erased(stack: StackAddress, agent_id: str, tmp_path: Path, *words: str) -> dict[str, Any]:
    """Erase, wait for the end, and return what ``erase verify`` says of the receipt."""
    memtend = CommandLine(home=stack.home)
    erasure_id = memtend.ok("erase", *words, *SURE, "--json").value["erasure_id"]

    def state() -> str:
        listed = memtend.ok("erase", "list", "--agent", agent_id, "--json").value
        return str(next(each["state"] for each in listed if each["erasure_id"] == erasure_id))

    wait_until(lambda: state() == "done", what=f"the erasure of {words}")
    receipt = tmp_path / "receipt.json"
    receipt.write_text(memtend.ok("erase", "receipt", erasure_id).out)
    return dict(memtend.ok("erase", "verify", str(receipt), "--json").value)


def test_behind_the_demo_an_agent_and_a_person_are_erased_to_the_last_byte(tmp_path: Path) -> None:
    home = tmp_path / "home"
    demo = subprocess.run(
        [*program_argv("examples.demo"), "--home", str(home)],
        env=clean_environ(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert demo.returncode == 0, demo.stdout[-2_000:] + demo.stderr[-2_000:]
    with running_stack(home) as stack:
        memories, old = live(stack), archived(stack)
        others = "\n".join(
            text
            for source in (memories, old)
            for agent_id, texts in source.items()
            if agent_id != GONE
            for text in texts
        )
        mine = {text for text in memories[GONE] + old.get(GONE, []) if len(text) >= SHORTEST and text not in others}
        memtend = CommandLine(home=home)
        person = sorted(
            set(said(memtend.ok("conversation", "export", "--agent", GUIDE, "--user", PERSON, "--json").value))
        )
        probes = sorted(mine)
        kept = sorted({text for text in memories["support"] if len(text) >= SHORTEST})
        assert GONE != "support"
        before = hits(stack, probes), hits(stack, person), hits(stack, kept)
        assert min(map(len, before)) > 0
        assert len(before[0]) > 20  # an agent of the demo has hundreds

        shown = erased(stack, GONE, tmp_path, "agent", GONE)
        assert (shown["agent_id"], shown["left"], shown["is_signed"]) == (GONE, 0, True)
        assert hits(stack, probes) == set()

        shown = erased(stack, GUIDE, tmp_path, "subject", GUIDE, PERSON)
        assert (shown["subject"], shown["left"], shown["is_signed"]) == (f"user:{PERSON}", 0, True)
        assert hits(stack, person) == set()
        assert hits(stack, kept) == before[2]
        assert live(stack)["support"] == memories["support"]
