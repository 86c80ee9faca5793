"""Learning in a real stack: experiences are compressed after a run, and lessons go to an agent's peers."""

from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import pytest
from support.command_line import CommandLine
from support.execution_traces import trace
from support.running_stack import StackAddress, running_stack, wait_until
from support.stub_llm_process import StubLLM, stub_llm

from memcore.client import MemoryClient
from memcore.models.execution import ExecutionTrace, Recovery, TerminationReason, Turn
from ops.cli.session import ledger_of

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

AGENT = "oncall"

#: Repeated so many times, so that a lesson is shorter.
PROMPT = "The nightly import failed at row 4711 with ENOSPC on the machine called walrus. " * 20

#: Lessons that one agent draws, and so many each agent keeps.
DRAWN, KEPT = 4, 3

POLICY = f"""\
memory:
  level: persistent
  llm:
    model: stub
  consolidation:
    experience_compressor:
      enabled: true
    wiki_export:
      enabled: true
      export_root: wiki
      trigger: on_consolidation
  procedural:
    pruning:
      type: pareto
      max_entries: {KEPT}
    propagation:
      type: role
"""


@pytest.fixture(scope="module")
def model() -> Generator[StubLLM]:
    with stub_llm() as running:
        yield running


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, model: StubLLM) -> Generator[StackAddress]:
    home = tmp_path_factory.mktemp("learning") / "home"
    home.mkdir()
    (home / "policy.yaml").write_text(POLICY, encoding="utf-8")
    with running_stack(home, MEMTEND_LLM_URL=model.url) as address:
        yield address


def test_what_was_told_is_found_as_a_lesson_after_the_run_and_stands_in_the_wiki(
    stack: StackAddress, model: StubLLM
) -> None:
    memtend, company = CommandLine(home=stack.home), stack.settings.company
    model.forget()
    with MemoryClient.from_settings(stack.settings) as client:
        receipts = [
            client.record_experience(AGENT, prompt=PROMPT, output="The disk was full.", task_id=task)
            for task in ("t-1", "t-2", "t-1")
        ]
        done = {each.job_id: each for each in client.wait([each.job_id for each in receipts], timeout_seconds=120)}
        assert sum(done[each.job_id].facts["recorded"] for each in receipts) == 2
    assert memtend.ok("search", AGENT, "walrus", "--json").value == []

    memtend.ok("maintain", AGENT)
    wiki = stack.home / "wiki" / AGENT
    with ledger_of(stack.settings) as ledger:
        wait_until(lambda: ledger.experiences.count(company, AGENT).compressed == 2, what="both to be compressed")
        wait_until(lambda: len(list(wiki.glob("wiki/*.md"))) == 2, what="the wiki to have both")
        assert not ledger.experiences.has_raw(company, AGENT)
    asked = len(model.log())
    assert asked == len(set(model.keys())) == 2

    found = memtend.ok("search", AGENT, "walrus ENOSPC", "--json").value
    assert {each["metadata"]["source"] for each in found} == {receipts[0].experience_id, receipts[1].experience_id}
    assert all(each["metadata"]["tags"] == ["compressed_experience"] for each in found)
    assert {path.name for path in wiki.glob("raw/*.md")} == {f"{each.experience_id}.md" for each in receipts}
    assert f"[{AGENT}]({AGENT}/index.md) | 2 | 2 |" in (stack.home / "wiki" / "index.md").read_text(encoding="utf-8")

    memtend.ok("maintain", AGENT)
    assert len(model.log()) == asked, "the next night asks nothing again"


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
