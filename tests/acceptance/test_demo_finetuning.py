"""The demo of fine-tuning from its first line to its last; needs torch, and MEMTEND_TEST_TORCH=1."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from support.running_stack import clean_environ

from examples.demo.finetuning.corpus import notes, questions
from memcore.programs import program_argv

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.environ.get("MEMTEND_TEST_TORCH") != "1", reason="MEMTEND_TEST_TORCH is not 1"),
]


def row(printed: str, name: str) -> list[str]:
    return [line.removeprefix(name).split() for line in printed.splitlines() if line.startswith(f"{name}  ")][-1]


def test_the_demo_trains_deploys_and_goes_back_while_agents_go_on(tmp_path: Path) -> None:
    environ = {**clean_environ(), "TMPDIR": str(tmp_path)}
    demo = subprocess.run(
        program_argv("examples.demo.finetuning"), env=environ, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    printed = demo.stdout
    assert demo.returncode == 0, printed + demo.stderr
    assert list(tmp_path.glob("memtend-*")) == []
    assert f"{len(notes())} notes of 4 agents are stored" in printed
    assert f"{len(questions())} questions" in printed
    for stage in ("generating_data", "mining_negatives", "training", "evaluating", "deploying"):
        assert f"{stage}: 100%" in demo.stderr
    # Notes hold no talk: there is no question by which the gate could promote.
    assert re.search(r"^\S+ .* undecided ", printed, re.MULTILINE)
    for change in ("deploy", "rollback"):
        seen = re.search(
            rf"^during the {change}: (\d+) searches, 0 failed; (\d+) .* 0 failed, 0 lost$", printed, re.MULTILINE
        )
        assert seen
        assert int(seen[1]) > 0
        assert int(seen[2]) > 0
    base, trained, back = row(printed, "MiniLM"), row(printed, "the checkpoint"), row(printed, "MiniLM again")
    assert back == base
    assert float(trained[0]) > float(base[0])
    assert "torch in the process that searched: no" in printed
    assert "every question finds its note where it did" in printed
