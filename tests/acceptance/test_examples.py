"""The examples of the documentation, run as a reader would run them: beside a stack."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT
from stacks import running_stack

pytestmark = pytest.mark.acceptance

#: Seconds that all examples of one file may take on a crowded machine.
PATIENCE = 120


def test_every_example_runs_beside_a_stack(tmp_path: Path) -> None:
    home = tmp_path / "home"
    # Backwards by name: memories are stored before a night looks at them.
    examples = sorted((ROOT / "docs" / "examples").glob("*.py"), reverse=True)
    assert examples
    with running_stack(home):
        said = {}
        for example in examples:
            done = subprocess.run(
                [sys.executable, str(example)],
                env={**os.environ, "MEMTEND_HOME": str(home)},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            assert done.returncode == 0, f"{example.name}: {done.stderr}"
            said[example.name] = done.stdout
    assert "The payment queue pages at 500 messages." in said["store_and_search.py"]
    assert said["maintain_and_undo.py"].count("done") == 2
