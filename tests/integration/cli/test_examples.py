"""Every example runs as a reader runs it: alone, or beside the embedded stack that this folder's tests share."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.repository import ROOT
from support.running_stack import StackAddress, clean_environ

EXAMPLES = ROOT / "examples"

#: Seconds that one example may take on a crowded machine.
TIMEOUT_SECONDS = 600

#: A part of what each example prints.
ALONE = {
    "custom_backend.py": "The payment queue pages at 500 messages.",
    "custom_strategy.py": "3 memories become one summary:\nThe import stopped at row 4711.",
    "custom_value_rule.py": " 100.00  an old contract",
}
BESIDE_A_STACK = {
    "async_engine.py": "The payment queue pages at 500 messages.",
    "langgraph_store.py": "You are the first.\nAda said: I like tea with lemon.\n['Bob'] [('users', 'friends')]\n",
    "undo.py": "\nundone {'restored': 3, 'removed': 1}",
}
EXPORT = "import_export.py"
PLAIN_CELERY = "plain_celery.py"
#: What runs in tests/acceptance, on servers of one's own and with no more than an engine installs, and what runs with
#: the tests of mem0's clients.
ELSEWHERE = {"quickstart.py", "mem0_client.py"}


def run(name: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        env={**clean_environ(), **environ},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def test_every_example_is_run() -> None:
    run_by_a_test = {*ALONE, *BESIDE_A_STACK, EXPORT, PLAIN_CELERY, *ELSEWHERE}
    assert {path.name for path in EXAMPLES.glob("*.py")} - {"__init__.py"} == run_by_a_test


@pytest.mark.parametrize("name", ALONE)
def test_an_example_that_needs_no_stack_runs_alone(name: str) -> None:
    done = run(name)
    assert done.returncode == 0, done.stderr
    assert ALONE[name] in done.stdout


@pytest.mark.parametrize("name", BESIDE_A_STACK)
def test_an_example_runs_beside_a_stack(name: str, stack: StackAddress) -> None:
    done = run(name, MEMTEND_HOME=str(stack.home))
    assert done.returncode == 0, f"{done.stdout} {done.stderr}"
    assert BESIDE_A_STACK[name] in done.stdout


def test_a_plain_celery_app_stores_and_is_told_what_is_refused(stack: StackAddress, memtend: CommandLine) -> None:
    settings = stack.settings
    addresses = {"MEMTEND_BROKER_URL": settings.broker_url, "MEMTEND_RESULT_URL": settings.result_url}
    done = run(PLAIN_CELERY, **addresses, MEMTEND_COMPANY=settings.company)
    assert done.returncode == 0, f"{done.stdout} {done.stderr}"
    assert done.stdout.splitlines() == [
        "{'outcome': 'done', 'facts': {'stored': 1, 'buried': 0}}",
        "FAILURE ('headers.expires', 'must not be set: this job comes but once')",
    ]
    assert done.stderr == ""
    memtend.purge_dead_letters()


def test_what_the_export_example_prints_can_be_imported(
    memtend: CommandLine, stack: StackAddress, tmp_path: Path
) -> None:
    done = run(EXPORT, MEMTEND_HOME=str(stack.home))
    assert done.returncode == 0, f"{done.stdout} {done.stderr}"
    assert '"content":"The vault is open."' in done.stdout
    file = tmp_path / "memories.jsonl"
    file.write_text(done.stdout, encoding="utf-8")
    imported = memtend.ok("import", str(file), "--json")
    assert (imported.value["lines"], imported.value["memories"]) == (2, 2)
    assert json.loads(file.read_text(encoding="utf-8").splitlines()[0])["agent_id"] == "archivist"
