"""Lessons in a real stack: tasks are sent over the queue, and agents find what they teach; the worker dies meanwhile.

The model is the stub, which bills a question once by its key.
"""

import os
import signal
from collections import Counter
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import pytest
from support.command_line import CommandLine
from support.execution_traces import trace
from support.running_stack import StackAddress, running_stack, wait_until
from support.skill_format import problems_of
from support.stored import history_events, memory_ids
from support.stub_llm_process import StubLLM, stub_llm
from support.thorough import sized

from memcore.client import MemoryClient
from memcore.ledger.ledger import Ledger
from memcore.models.execution import ExecutionTrace, Recovery, TerminationReason, Turn
from ops.cli.session import ledger_of

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

AGENTS = ("ada", "bob", "cleo")

#: Tasks of the fleet: of six, four fail, one goes well with tools, and one goes well and says too little.
TASKS = sized(24, thorough=60)

#: Lessons drawn when the model falls silent and the worker is killed.
BEFORE = sized(3, thorough=6)

#: What ended long ago is kept no longer.
NOW = datetime.now(UTC)

POLICY = """\
memory:
  level: persistent
  llm:
    model: stub
  procedural:
    skill_md_directory: skills
"""


@pytest.fixture(scope="module")
def model() -> Generator[StubLLM]:
    with stub_llm() as running:
        yield running


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, model: StubLLM) -> Generator[StackAddress]:
    home = tmp_path_factory.mktemp("lessons") / "home"
    home.mkdir()
    (home / "policy.yaml").write_text(POLICY, encoding="utf-8")
    with running_stack(home, MEMTEND_LLM_URL=model.url) as address:
        yield address


def trace_of(number: int) -> ExecutionTrace:
    failed: dict[str, Any] = {
        "termination_reason": TerminationReason.ERROR,
        "error_category": f"walrus_{number}",
        "error_message": "no space left on device",
        "recovery": Recovery(strategy="retry"),
        "turns": (Turn(tools=("deploy", "deploy")),),
        "prompt": "a word that no model may read: Zanzibar-4711",
    }
    if number % 6 < 4:
        return trace(f"task-{number}", ended_at=NOW, **failed)
    tools = ("search", "write_file") if number % 6 == 4 else ()
    return trace(f"task-{number}", ended_at=NOW, turns=(Turn(tools=tools),))


def expected(number: int) -> str:
    return "low_confidence" if number % 6 == 5 else "stored"


def outcomes(ledger: Ledger, company: str) -> dict[str, str | None]:
    """Return what became of the lesson of each task."""
    pages = (ledger.lessons.page(company, agent_id) for agent_id in AGENTS)
    return {str(each.task_id): each.outcome for page in pages for each in page}


def test_a_worker_killed_while_it_asks_costs_no_lesson_doubles_none_and_pays_none_twice(
    stack: StackAddress, model: StubLLM
) -> None:
    settings, company, part = stack.settings, stack.settings.company, "worker-llm"
    memtend = CommandLine(home=stack.home)
    with ledger_of(settings) as ledger:
        with MemoryClient.from_settings(settings) as client:
            # Slow, so that the model can fall silent in the middle.
            model.order(seconds=0.3)
            receipts = [client.distill(AGENTS[number % 3], trace_of(number)) for number in range(TASKS)]
        wait_until(lambda: sum(map(bool, outcomes(ledger, company).values())) >= BEFORE, what="some lessons")
        model.order(seconds=3600.0)
        asked = len(model.log())
        wait_until(lambda: len(model.log()) > asked, what="the model to be asked once more")
        worker, restarts = stack.pid(part), stack.restarts(part)
        assert worker is not None
        os.kill(worker, signal.SIGKILL)
        assert sum(map(bool, outcomes(ledger, company).values())) < TASKS
        model.order()
        wait_until(lambda: stack.restarts(part) > restarts, seconds=120, what="the worker to be back")
        wait_until(
            lambda: all(outcomes(ledger, company).values()) and len(outcomes(ledger, company)) == TASKS,
            seconds=400,
            what="every lesson to be drawn",
        )
        assert outcomes(ledger, company) == {f"task-{number}": expected(number) for number in range(TASKS)}
        pages = [ledger.lessons.page(company, agent_id) for agent_id in AGENTS]
        lessons = {each.memory_id for page in pages for each in page if each.memory_id}
        assert ledger.dead_letters.count(company) == 0

    traces = {each.trace_id for each in receipts if each is not None}
    assert len(traces) == TASKS
    assert len(lessons) == TASKS * 5 // 6
    assert memory_ids(settings) == Counter(traces | lessons), "one memory a task, and one a lesson"
    assert history_events(settings) == {(memory_id, "ADD"): 1 for memory_id in traces | lessons}
    bills = Counter(each["key"] for each in model.log() if each["billed_tokens"])
    assert set(bills.values()) == {1}, "no question is billed twice"
    # Successes of equal turns and tools are told apart by their tasks alone, which the model is not told.
    assert len(bills) == TASKS
    assert "Zanzibar" not in str(model.log())

    found = memtend.ok("search", "ada", "walrus_3 fails with deploy", "--json").value
    assert found[0]["metadata"]["source"] == "failure:task-3"
    assert found[0]["category"] == "procedural"
    assert "Do not repeat deploy at once" in found[0]["text"]
    listed = memtend.ok("agents", "lessons", "ada", "--limit", "128", "--json").value
    assert {each["task_id"]: each["outcome"] for each in listed} == {
        f"task-{number}": expected(number) for number in range(0, TASKS, 3)
    }
    folders = list((stack.home / "skills").iterdir())
    assert len(folders) == len(lessons)
    assert [problems_of(folder) for folder in folders if problems_of(folder)] == []
