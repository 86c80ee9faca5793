"""The demo's last page: ``memtend eval`` of the fleet's own questions, before and after a month of maintenance."""

import json
import subprocess
import tempfile
import time
from datetime import datetime
from pathlib import Path

from examples.demo.fleet import FleetMemory, FleetQuestion, evaluation, fleet, searches, tests
from memcore.errors import MemoryStoreError
from memcore.evaluation.asking import HEADLINES, Measured
from memcore.evaluation.results import PolicyResult, done_in_words
from memcore.programs import program_argv
from ops.cli.console import say

#: Whose memories are evaluated: of all eight agents it would take four times as long.
_AGENTS = ("backend", "scribe")

#: Days of maintenance, and longest time for all of them, in seconds.
_DAYS, _SECONDS = 30, 600


def show_evaluation(policy: Path, now: datetime, *, report: Path) -> None:
    """Print how well the agents' questions are answered at first and after a month, and write the report."""
    memories = [each for each in fleet(now) if each.agent_id in _AGENTS]
    questions = [each for part in (tests, evaluation, searches) for each in part(now) if each.agent_id in _AGENTS]
    about = f"{len(memories)} memories of {' and '.join(_AGENTS)}, and {len(questions)} questions"
    say(f"\nwhat {_DAYS} days of maintenance do to {about} (memtend eval, a stack of its own):")
    since = time.monotonic()
    report.parent.mkdir(parents=True, exist_ok=True)
    result = _evaluated(data_of(memories, questions), policy, report)
    (after,) = result.after
    say(f"  before: {_figures(result.measures)}")
    say(f"  after:  {_figures(after.measures)}; {done_in_words(after.done)}")
    for verdict in result.verdicts():
        say(f"  {verdict}")
    say(f"  the report, which took {time.monotonic() - since:.1f} s: {report}")


def data_of(memories: list[FleetMemory], questions: list[FleetQuestion]) -> list[dict[str, object]]:
    """Return the lines of an evaluation's file: each question finds the memories that it expects, or that say so."""
    lines = [{"id": f"m{number}", **memory.line()} for number, memory in enumerate(memories)]
    for question in questions:
        finds = [
            line["id"]
            for line, memory in zip(lines, memories, strict=False)
            if memory.agent_id == question.agent_id
            and (memory.key in question.expects if question.expects else question.answer in memory.request.content)
        ]
        lines.append({"agent_id": question.agent_id, "question": question.text, "finds": finds})
    return lines


def _evaluated(lines: list[dict[str, object]], policy: Path, report: Path) -> PolicyResult:
    with tempfile.TemporaryDirectory(prefix="memtend-demo-eval-") as folder:
        data = Path(folder) / "fleet.jsonl"
        data.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        argv = [*program_argv("ops.cli.main"), "eval", str(data), "--json"]
        # Named as it lies: the verdict names the policy by its path.
        argv += ["--policy", policy.name, "--nights", str(_DAYS), "--report", str(report)]
        done = subprocess.run(
            argv,
            cwd=policy.parent,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    if done.returncode:
        raise MemoryStoreError(f"memtend eval ended with exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    (found,) = json.loads(done.stdout)
    return PolicyResult.model_validate(found)


def _figures(measures: tuple[Measured, ...]) -> str:
    return ", ".join(f"{HEADLINES[each.measure]} {each.mean:.3f}" for each in measures if each.measure in HEADLINES)
