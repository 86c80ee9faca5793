import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from stacks import clean_environ

from ops.demo.fleet import agents

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]


def test_the_demo_tells_its_story_balances_every_account_and_leaves_nothing_behind(tmp_path: Path) -> None:
    output = tmp_path / "demo.out"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with output.open("wb") as out:
        demo = subprocess.Popen(
            [sys.executable, "-m", "ops.demo"],
            env={**clean_environ(), "TMPDIR": str(temporary)},
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    seen: dict[int, psutil.Process] = {}
    try:
        while demo.poll() is None:
            for child in psutil.Process(demo.pid).children(recursive=True):
                seen.setdefault(child.pid, child)
            time.sleep(0.2)  # a look, not a wait: the loop ends when the demo does
    finally:
        demo.kill()
        demo.wait()
        left = [child for child in seen.values() if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
        for child in left:
            child.kill()
    told = output.read_text()
    assert demo.returncode == 0, told
    assert len(seen) >= 7
    assert left == []
    assert list(temporary.iterdir()) == []
    names = [agent.id for agent in agents()]
    header = next(line for line in told.splitlines() if line.startswith("agent"))
    assert header.split() == ["agent", "stored", "created", "expired", "consolidated", "enforced", "live", "run"]
    for name in names:
        account = next(line for line in told.splitlines() if re.match(rf"\s+{name}\s.*stored \+", line))
        figures = list(map(int, re.findall(r"\d+", account)))
        assert " = " in account
        assert sum(figures[:3]) == sum(figures[3:])
    assert "IS NOT" not in told
    assert len(re.findall(r" is asked: ", told)) == 3
    assert len(re.findall(r"^  0\.\d{3}  \d{4}-\d\d-\d\d  \S", told, re.MULTILINE)) >= 3
    assert re.search(r"why does oncall have .*It was made of:\n  \S{36}  full text in: archive", told)
    assert re.search(r"system:memory:compress:\w+: [1-9] asked, [1-9]\d* tokens read, [1-9]\d* written", told)
    assert re.search(r"undo of support's night .*:\n  [1-9]\d* memories came back", told)
    assert re.search(r"peak resident memory of the whole stack: [1-9]\d* MiB", told)
