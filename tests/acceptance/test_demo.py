import re
import subprocess
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from support.repository import ROOT
from support.running_stack import clean_environ
from support.stub_llm_process import stub_llm
from support.thorough import only_thorough

from examples.demo.fleet import NEWCOMER, SHARED_FAILURE, agents, traces
from examples.stub_llm.fault import Fault, Scripted
from memcore.programs import program_argv

pytestmark = pytest.mark.acceptance

#: Where the pictures of the documentation are.
HOW_TO = ROOT / "docs" / "how-to"


def played(tmp_path: Path, environ: Mapping[str, str]) -> str:
    """Run the demo, make sure that it ends well and leaves nothing behind, and return what it printed."""
    output = tmp_path / "demo.out"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    pictures = tmp_path / "pictures"
    with output.open("wb") as out:
        demo = subprocess.Popen(
            (*program_argv("examples.demo"), "--pictures", str(pictures)),
            env={**clean_environ(), **environ, "TMPDIR": str(temporary)},
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    seen: dict[int, psutil.Process] = {}
    try:
        while demo.poll() is None:
            for child in psutil.Process(demo.pid).children(recursive=True):
                seen.setdefault(child.pid, child)
            time.sleep(0.5)  # a look, not a wait: the loop ends when the demo does
    finally:
        demo.kill()
        demo.wait()
        left = [child for child in seen.values() if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
        for child in left:
            child.kill()
    printed = output.read_text()
    assert demo.returncode == 0, printed
    assert len(seen) >= 7
    assert left == []
    assert list(temporary.iterdir()) == []
    assert (pictures / "evaluation.html").stat().st_size > 1_000
    if "no Chromium" not in printed:
        assert {path.name for path in pictures.glob("*.png")} == {path.name for path in HOW_TO.glob("*.png")}
    assert_balanced(printed)
    return printed


def assert_balanced(printed: str) -> None:
    for agent in agents():
        account = next(line for line in printed.splitlines() if re.match(rf"\s+{agent.id}\s.*stored \+", line))
        figures = list(map(int, re.findall(r"\d+", account)))
        assert " = " in account
        assert sum(figures[:3]) == sum(figures[3:])
    assert "IS NOT" not in printed


def line(printed: str, pattern: str) -> re.Match[str]:
    found = re.search(pattern, printed, re.MULTILINE)
    assert found, f"{pattern} is not in:\n{printed}"
    return found


def test_the_demo_tells_its_history_balances_every_account_and_leaves_nothing_behind(tmp_path: Path) -> None:
    printed = played(tmp_path, {})
    header = next(line for line in printed.splitlines() if line.startswith("agent"))
    assert header.split() == ["agent", "stored", "created", "expired", "consolidated", "enforced", "live", "run"]
    assert len(re.findall(r"^\w+ is asked: ", printed, re.MULTILINE)) == 3
    assert len(re.findall(r"^  0\.\d{3}  \d{4}-\d\d-\d\d  \S", printed, re.MULTILINE)) >= 3
    line(printed, r"^the gate refused [1-9]\d* groups, .*\n  one is of \d+ memories of \w+: of [1-9]\d* answers")
    asked = line(
        printed,
        # Which memories make a group, and which answers the limits of age take, depends on the day.
        r"^5 memory tests were registered; summaries would have broken (?:none|[1-5]: '.*; so their memories stayed)\n"
        r"  asked after the runs, ([1-5]) passed(?:, ([1-4]) failed: '.*)?$",
    )
    assert sum(int(each or 0) for each in asked.groups()) == 5
    line(printed, r"why does oncall have .*It was made of:\n  \S{36}  full text in: archive")
    line(printed, r"system:memory:compress:\w+: [1-9] asked, [1-9]\d* tokens read, [1-9]\d* written")
    line(printed, r"undo of support's maintenance run .*:\n  [1-9]\d* memories came back")
    line(printed, r"a run in propose mode, .*: proposes [1-9]\d* groups of [1-9]\d* memories")
    line(printed, r"adopted the first of [1-9]\d* groups: \d+ memories became \d+ \(adopted")
    line(
        printed,
        r"^the console, for people: http://127\.0\.0\.1:\d+/console .*\n  (no Chromium|pictures of Last night, .*: /)",
    )
    line(printed, r"^the same memories for every engine, at http://127\.0\.0\.1:\d+$")
    line(printed, r"^ +curl -s http://127\.0\.0\.1:\d+/v1/agents/oncall/search .*\n.*\n +\d{4}-\d\d-\d\d  \S")
    line(printed, r"^ +(?:prints: I drink green tea in the morning|not run: node or npm is not here, .*)$")
    line(printed, r"^ +over MCP, at http://127\.0\.0\.1:\d+/mcp/oncall: search_memory.*\n +1 memory found")
    line(printed, r"^  an application of OpenAI's API, .*/router/v1 and .*\n.*\n    what she said .*: shown$")
    line(
        printed,
        r"^what 30 days of maintenance do to [1-9]\d* memories of .*, and [1-9]\d* questions .*:\n"
        r"  before: evidence found [01]\.\d{3}, .*\n  after:  evidence found [01]\.\d{3}, .* were merged into .*\n"
        r"(?:  policy\.yaml after 30 days: evidence .*: (?:no difference .*|better|worse)\n){2}"
        r"  the report, which took \d+\.\d s: /.*evaluation\.html$",
    )
    line(printed, r"peak resident memory of the whole stack: [1-9]\d* MiB")
    assert_learned(printed)


def assert_learned(printed: str) -> None:
    tasks = list(traces(datetime.now(UTC)))
    assert f"what the fleet learns: {len(tasks)} tasks of {len(agents())} agents" in printed
    kept = line(printed, r"they left (\d+) memories, (\d+) trajectories and (\d+) lessons: (.*)$")
    assert {int(kept[1]), int(kept[2])} == {len(tasks)}
    assert sum(map(int, re.findall(r"\d+", kept[4]))) == int(kept[3])
    assert "stored" in kept[4]
    assert "waiting" not in kept[4]
    for kind in ("failure", "success"):
        line(printed, rf"system:memory:propose:{kind}: [1-9]\d* asked, [1-9]\d* tokens read, [1-9]\d* written")
    cycle = line(printed, r"the evolver looked at (\d+) executions .* found (\d+) patterns:\n((?:  \d+ \w+\n)+)")
    # What was interrupted says nothing about how it is done.
    assert int(cycle[1]) == sum(not trace.termination_reason.is_interruption for _, trace in tasks)
    assert sum(map(int, re.findall(r"\d+", cycle[3]))) == int(cycle[2])
    shared = [agent_id for agent_id, trace in tasks if trace.failure == SHARED_FAILURE]
    line(
        printed, rf"agents={len(set(shared))} occurrences={len(shared)} confidence=0\.\d+ precision=0\.\d+ recall=1\.0"
    )
    line(printed, rf"^  \+.*{SHARED_FAILURE}")
    published = line(printed, r"^\$ memtend approvals approve \S+ --by Odile .*\n  approved by Odile: .* as (\S{36})$")[
        1
    ]
    line(printed, r"^\$ memtend approvals approve \S+ --by Rafael .*\n  refused, exit code 1: .* approved by Odile")
    asked = printed[line(printed, rf"^{NEWCOMER}, who met {SHARED_FAILURE} 0 times, is asked: ").end() :]
    line(asked, rf"before the approval: 0 skills of others; after it:\n  \d\.\d{{3}}  {published}  \S.*\n +1\. \S")
    line(asked, r"it helped; applications: 1, successes: 1$")
    line(asked, rf"^\$ memtend skills list .*\n  state .*\n  active .* Odile .*{published}$")


@only_thorough(because="the demo's other story costs another stack, and its lines have tests of their own")
def test_with_a_model_of_which_nothing_comes_it_says_so_and_ends_well(tmp_path: Path) -> None:
    with stub_llm() as model:
        model.order(Scripted(fault=Fault.OTHER_JSON, times=None))
        printed = played(tmp_path, {"MEMTEND_LLM_URL": model.url})
        assert model.log()
    line(printed, r"compressed by a language model \(stub-small at MEMTEND_LLM_URL\):\n  no lesson came of it")
    line(printed, r"^  [1-9]\d* skipped_without_lesson\n  no proposal waits for a person")
    assert "approvals approve" not in printed
