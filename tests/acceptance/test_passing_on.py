"""Lessons in a real stack: the run copies them to an agent's peers, and removes those over the limit."""

from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import pytest
from support.command_line import CommandLine
from support.execution_traces import trace
from support.running_stack import StackAddress, running_stack, wait_until
from support.stub_llm_process import stub_llm

from memcore.client import MemoryClient
from memcore.models.execution import ExecutionTrace, Recovery, TerminationReason, Turn

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

#: Lessons that one agent draws, and so many each agent keeps.
DRAWN, KEPT = 4, 3

POLICY = f"""\
memory:
  level: persistent
  llm:
    model: stub
  procedural:
    pruning:
      type: pareto
      max_entries: {KEPT}
    propagation:
      type: role
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    home = tmp_path_factory.mktemp("passing-on") / "home"
    home.mkdir()
    (home / "policy.yaml").write_text(POLICY, encoding="utf-8")
    with stub_llm() as model, running_stack(home, MEMTEND_LLM_URL=model.url) as address:
        yield address


def failed(number: int) -> ExecutionTrace:
    return trace(
        f"task-{number}",
        ended_at=datetime.now(UTC),
        termination_reason=TerminationReason.ERROR,
        error_category=f"walrus_{number}",
        error_message="no space left on device",
        recovery=Recovery(strategy="retry"),
        turns=(Turn(tools=("deploy", "deploy")),),
    )


def lessons(memtend: CommandLine, agent: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = memtend.ok(
        "search", agent, "--category", "procedural", "--limit", "99", "--json"
    ).value
    return found


def test_a_run_forgets_what_is_too_much_and_passes_on_the_rest(stack: StackAddress) -> None:
    memtend = CommandLine(home=stack.home)
    for agent, role in (("ada", "clerk"), ("bob", "clerk"), ("cy", "pilot")):
        memtend.ok("agents", "add", agent, "--role", role, "--interval", "never")
    with MemoryClient.from_settings(stack.settings) as client:
        for number in range(DRAWN):
            client.distill("ada", failed(number))
    wait_until(lambda: len(lessons(memtend, "ada")) == DRAWN, seconds=120, what="the lessons to be drawn")

    plan = memtend.ok("maintain", "ada", "--dry-run")
    assert "1 of them are lessons that memory.procedural.pruning forgets" in plan.out
    maintenance_run = memtend.ok("maintain", "ada", "--json").value

    assert maintenance_run["counts"]["pruned"] == 1
    wait_until(lambda: len(lessons(memtend, "bob")) == KEPT, seconds=60, what="the lessons to be passed on")
    mine, copies = lessons(memtend, "ada"), lessons(memtend, "bob")
    assert {each["text"] for each in copies} == {each["text"] for each in mine}
    assert all("propagated:ada" in each["metadata"]["tags"] for each in copies)
    assert {each["id"] for each in copies}.isdisjoint(each["id"] for each in mine)
    assert lessons(memtend, "cy") == []
    undone = memtend.ok("runs", "undo", maintenance_run["run_id"], "--json").value
    assert undone["counts"]["restored"] == 1
    assert len(lessons(memtend, "ada")) == DRAWN
