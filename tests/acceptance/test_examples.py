"""The examples of the documentation, run as a reader would run them: beside a stack."""

import subprocess
import sys
from pathlib import Path

import pytest
from commands import CommandLine
from repository import ROOT
from stacks import clean_environ, running_stack

pytestmark = pytest.mark.acceptance

#: Seconds that all examples of one file may take on a crowded machine.
PATIENCE = 120


def run(example: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(example)],
        env={**clean_environ(), **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_every_example_runs_beside_a_stack_and_tells_what_went_wrong(tmp_path: Path) -> None:
    home = tmp_path / "home"
    # Backwards by name: memories are stored before a night looks at them.
    examples = sorted((ROOT / "docs" / "examples").glob("*.py"), reverse=True)
    assert examples
    with running_stack(home):
        said = {}
        for example in examples:
            done = run(example, MEMTEND_HOME=str(home))
            assert done.returncode == 0, f"{example.name}: {done.stdout} {done.stderr}"
            said[example.name] = done.stdout
        assert "The payment queue pages at 500 messages." in said["store_and_search.py"]

        # The client cannot know of an agent's own level where the company's takes all: the outcome tells.
        memtend = CommandLine(home=home)
        memtend.ok("agents", "set", "oncall", "--level", "session")
        refused = run(ROOT / "docs" / "examples" / "store_and_search.py", MEMTEND_HOME=str(home))
        assert refused.returncode == 1
        assert "dead: " in refused.stderr
        assert "session_id is missing, and memories of an agent of level session" in refused.stderr
