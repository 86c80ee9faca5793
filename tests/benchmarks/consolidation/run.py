"""``make bench-consolidation``: how much of the needed evidence a run keeps; see docs/benchmarks/."""

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.consolidation.contexts import BUDGET, Scores, score  # noqa: E402  # a script must find the tree first
from benchmarks.consolidation.evidence import Asked, asked_of  # noqa: E402
from benchmarks.consolidation.results import Result, halves, table, targets  # noqa: E402
from benchmarks.consolidation.shrinking import MaintenanceRuns  # noqa: E402
from benchmarks.consolidation.ways import Variant, modelled, own_ways  # noqa: E402
from benchmarks.report import show  # noqa: E402
from benchmarks.retrieval.conversations import FOLDER, Conversation, conversations  # noqa: E402
from benchmarks.retrieval.product import load  # noqa: E402
from benchmarks.stack import BenchStack, open_home, policy_of  # noqa: E402
from rich.console import Console  # noqa: E402
from support.ledger_records import sqlite_urls  # noqa: E402

from memcore.ledger.ledger import Ledger  # noqa: E402
from memcore.ledger.migrate import migrate  # noqa: E402
from memcore.llm.accounting import create_model  # noqa: E402

#: The row that the others are held against, and part of its agents' names.
_UNSHRUNK = Variant(name="unshrunk", key="unshrunk")


def main(argv: Sequence[str]) -> int:
    """Measure and print; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description="Consolidation: what it leaves of what agents need, on LoCoMo.")
    parser.add_argument("--quick", action="store_true", help="leave out the runs for each day")
    parser.add_argument("--model", default="default", help="of the server that MEMTEND_LLM_URL names")
    options = parser.parse_args(argv)
    console, corpus = Console(highlight=False, width=170), conversations()
    if not corpus:
        console.print(f"quality of consolidation: skipped: no data (set {FOLDER} to a folder of conversation_*.json)")
        return 0
    has_model = bool(os.environ.get("MEMTEND_LLM_URL"))
    ways = [way for way in own_ways() if not (options.quick and way.by_run)]
    ways += modelled(options.model) if has_model else []
    asked = {each.agent_id: asked_of(each) for each in corpus}
    with (
        open_home(policy=f"memory:\n  level: persistent\n  llm:\n    model: {options.model}\n") as stack,
        tempfile.TemporaryDirectory(prefix="memtend-bench-") as folder,
    ):
        urls = sqlite_urls(Path(folder))
        migrate(urls)
        ledger = Ledger.open(urls)
        try:
            results = _measure(stack, ledger, corpus, asked, ways, console)
        finally:
            ledger.close()
    unshrunk = results[_UNSHRUNK.key]
    for share in (0.5, 0.25):
        console.print(table(share, ways, unshrunk, results))
    console.print(halves({name: len(theirs) for name, theirs in asked.items()}, unshrunk, results))
    machine = {"cores": psutil.cpu_count(), "python": platform.python_version(), "load": f"{os.getloadavg()[0]:.1f}"}
    reached = targets(unshrunk, results)
    show([], reached, machine)
    if not has_model:
        console.print("dual_mode, llm: no model: not measured (set MEMTEND_LLM_URL, and --model to its name)")
    return 0 if all(target.is_met for target in reached) else 1


def _measure(
    stack: BenchStack,
    ledger: Ledger,
    corpus: Sequence[Conversation],
    asked: dict[str, list[Asked]],
    ways: Sequence[Variant],
    console: Console,
) -> dict[str, Result]:
    all_ways = [_UNSHRUNK, *ways]
    agents = [replace(each, agent_id=_agent(each, way)) for way in all_ways for each in corpus]
    seconds = load(stack, agents)
    stored, questions = sum(len(each.turns) for each in agents), sum(map(len, asked.values()))
    console.print(
        f"{stored:,} memories of {len(agents)} agents by client, queue and worker in {seconds:.0f} s; "
        f"{questions:,} questions, {BUDGET:,} tokens of context for each"
    )
    company, policy = stack.settings.company, policy_of(stack.settings)
    results: dict[str, Result] = {}
    with stack.backend(company) as (backend, runner):
        maintenance_runs = MaintenanceRuns(
            backend, ledger, company=company, model=create_model(stack.settings, policy, ledger)
        )
        for way in all_ways:
            result = results[way.key] = Result(scores=Scores())
            for each in corpus:
                agent_id = _agent(each, way)
                before = runner.run(maintenance_runs.records(agent_id))
                names = {record.entry.id: str(record.entry.metadata.source) for record in before}
                if way is not _UNSHRUNK:
                    result.seconds += runner.run(maintenance_runs.shrink(agent_id, way))
                held = runner.run(maintenance_runs.held(agent_id, names))
                result.tokens += held.tokens
                result.memories += len(held.terms)
                runner.run(score(backend, policy, agent_id, asked[each.agent_id], held, result.scores))
            # It takes minutes: the progress is printed.
            console.print(f"{way.key}: {result.figure:.4f}, {result.seconds:.0f} s of runs")
    return results


def _agent(conversation: Conversation, way: Variant) -> str:
    return f"{conversation.agent_id}-{way.key}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
