"""What people see of lessons: one row a task, and how many ended how."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from support.execution_traces import trajectory
from support.ledger_records import finish_lesson
from support.lessons import CANARY
from typer.testing import CliRunner, Result

from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.jobs import AppliedPayload
from memcore.ledger.agents import AgentSpec
from memcore.ledger.ledger import Ledger
from ops.cli.main import build

NOW = datetime.now(UTC)


@pytest.fixture(autouse=True)
def tasks(sqlite_ledger: LedgerUrls) -> Iterator[None]:
    """Three tasks of ada, and one agent that has done nothing yet."""
    ledger = Ledger.open(sqlite_ledger)
    ledger.agents.put(AgentSpec(company="default", agent_id="idle"))
    for number in range(3):
        made = trajectory(f"l-{number}", task_id=f"ticket-{number}", task_title=CANARY)
        ledger.trajectories.append("default", made, lesson_at=NOW)
    finish_lesson(ledger, "default", "l-0", "stored", memory_id="m-0", confidence=0.9, text=f'"{CANARY}"')
    finish_lesson(ledger, "default", "l-1", "malformed")
    ledger.skills.apply(
        AppliedPayload(
            company="default", agent_id="ada", application_id="a", skill_id="m-0", outcome="success", applied_at=NOW
        ),
        skill_id="m-0",
    )
    yield
    ledger.close()


def typed(environ: dict[str, str], *words: str) -> Result:
    return CliRunner().invoke(build("agents"), ["agents", "lessons", *words], env=environ)


def rows(environ: dict[str, str], *words: str) -> list[dict[str, Any]]:
    done = typed(environ, *words, "--json")
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_an_agents_lessons_are_shown_with_their_tasks_and_without_their_words(environ: dict[str, str]) -> None:
    found = {each["lesson_id"]: each for each in rows(environ, "ada")}
    shown = {name: (each["task_id"], each["outcome"], each["memory_id"]) for name, each in found.items()}
    assert shown == {
        "l-0": ("ticket-0", "stored", "m-0"),
        "l-1": ("ticket-1", "malformed", None),
        "l-2": ("ticket-2", "waiting", None),
    }
    assert found["l-0"]["confidence"] == 0.9
    assert (found["l-0"]["applications"], found["l-0"]["successes"]) == (1, 1)
    assert (found["l-1"]["applications"], found["l-1"]["last_applied_at"]) == (0, None)
    table = typed(environ, "ada").stdout
    assert "ticket-1" in table
    assert "malformed" in table
    assert CANARY not in table + json.dumps(list(found.values()))
    assert len(rows(environ, "ada", "--limit", "2")) == 2


def test_without_an_agent_all_are_counted(environ: dict[str, str]) -> None:
    counted = {each["outcome"]: each["lessons"] for each in rows(environ)}
    assert counted == {"stored": 1, "malformed": 1, "waiting": 1}


def test_who_has_done_nothing_has_no_lessons_and_who_is_unknown_is_told_so(environ: dict[str, str]) -> None:
    assert rows(environ, "idle") == []
    assert isinstance(typed(environ, "nobody").exception, MemoryNotFoundError)


@pytest.mark.parametrize("limit", ["0", "129"])
def test_a_limit_that_is_none_is_refused(environ: dict[str, str], limit: str) -> None:
    assert isinstance(typed(environ, "ada", "--limit", limit).exception, MemoryInputError)
