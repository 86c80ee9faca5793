"""Texts, ids and names that act on a terminal, put past every check into ledger and store: no command prints them."""

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.memories import NOW, new_agent, record
from support.repository import ROOT
from support.running_stack import StackAddress

from memcore import ids
from memcore.backends.factory import create_worker_backend
from memcore.clock import utc_now
from memcore.config.policy import Policy
from memcore.ledger.dead_letters import NewDeadLetter
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun
from memcore.models.base import escaped
from memcore.models.memory import ConsolidationInterval

#: Clears the screen, begins a line that looks like another fact, turns the direction of writing; DEL and C1 too.
HOSTILE = "x\x1b[2J\nstate  approved\x7f\x9b31m\u202egnp\u2028z"


@pytest.fixture(scope="module")
def agent(stack: StackAddress) -> Iterator[str]:
    """An agent of an older release with such an id, a memory, a run, and a job that was given up."""
    agent = f"{new_agent()}{HOSTILE}"
    settings = stack.settings
    job_id, ledger = ids.new_id(), Ledger.open(settings.ledger_urls)
    ledger.agents.register(settings.company, [agent], interval=ConsolidationInterval.NEVER)
    ledger.runs.create(NewRun(company=settings.company, agent_id=agent, planned_at=utc_now() + timedelta(days=1)))
    ledger.dead_letters.put(
        NewDeadLetter(
            job_id=job_id, company=settings.company, job="store", queue="q", payload=HOSTILE, reason=HOSTILE,
            attempts=1,
        )
    )  # fmt: skip
    backend = create_worker_backend(settings, Policy())

    async def put() -> None:
        await backend.connect()
        await backend.store_many([record(agent, f"tea {HOSTILE}", tags=(HOSTILE,), created_at=NOW)])
        await backend.disconnect()

    asyncio.run(put())
    yield agent
    ledger.dead_letters.purge(settings.company, [job_id])
    ledger.close()


COMMANDS = (
    ("agents", "list"),
    ("search", "AGENT", "tea"),
    ("ask", "AGENT", "tea"),
    ("runs", "list", "--agent", "AGENT"),
    ("dead", "list"),
    ("status",),
    ("top",),
    ("audit",),
)


@pytest.mark.parametrize("as_json", [False, True], ids=["for people", "json"])
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_no_command_prints_what_a_terminal_obeys(
    memtend: CommandLine, agent: str, words: tuple[str, ...], as_json: bool
) -> None:
    typed = [agent if word == "AGENT" else word for word in words]
    answer = memtend.ok(*typed, *(["--json"] if as_json else []))
    assert escaped(answer.out, keep="\n") == answer.out
    assert escaped(answer.err, keep="\n") == answer.err
    if as_json:
        json.loads(answer.out)
    else:
        assert "\nstate  approved" not in answer.out
    if words[0] in {"agents", "runs", "dead", "search", "ask"}:
        assert "[2J" in answer.out


def test_an_export_prints_escapes_and_loses_nothing(memtend: CommandLine, agent: str, tmp_path: Path) -> None:
    lines = memtend.ok("export", "-", "--agent", agent).out
    assert escaped(lines, keep="\n") == lines
    assert json.loads(lines)["content"] == f"tea {HOSTILE}"
    memtend.ok("export", str(tmp_path / "out"), "--agent", agent)
    assert (tmp_path / "out").read_text() == lines


def test_an_error_about_a_hostile_word_is_one_line(memtend: CommandLine) -> None:
    answer = memtend("approvals", "show", HOSTILE)
    assert answer.code == 1
    assert escaped(answer.err.removesuffix("\n")) == answer.err.removesuffix("\n")
    refused = memtend("store", f"a{HOSTILE}", "tea")
    assert refused.code == 2
    assert refused.err == "memtend: agent_id: must not contain the control character U+001B\n"
    assert memtend("store", "__shared__", "tea").err.startswith("memtend: agent_id: must not begin with '__'")


def test_every_command_prints_through_one_file_and_draws_bars_with_another() -> None:
    raw = re.compile(r"\bprint\(|typer\.echo|Console\(|\bText\(|sys\.std(?:out|err)\.write")
    found = {path.name for path in (ROOT / "ops" / "cli").rglob("*.py") if raw.search(path.read_text())}
    assert found == {"console.py", "progress.py"}
