"""What a prompt holds after a run of ``condense``, and of whole sessions, by how it is packed."""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import groupby
from pathlib import Path

import numpy as np
import psutil

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.consolidation.ways import tokens  # noqa: E402  # a script must find the tree first
from benchmarks.figure import Target  # noqa: E402
from benchmarks.nights.agents import START, Agent, Memory, talk  # noqa: E402
from benchmarks.nights.run import BUDGETS, DailyRuns, policies  # noqa: E402
from benchmarks.report import show  # noqa: E402
from benchmarks.retrieval.conversations import Conversation, conversations  # noqa: E402
from benchmarks.stack import open_home, policy_of  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from support.ledger_records import sqlite_urls  # noqa: E402

from memcore.ledger.ledger import Ledger  # noqa: E402
from memcore.ledger.migrate import migrate  # noqa: E402
from memcore.retrieval.context import ContextInjectionStrategy  # noqa: E402

#: Zoom and passages of each way to pack.
PACKINGS = {"whole": (False, False), "zoom": (True, False), "passages": (False, True), "both": (True, True)}

#: What is left of the tokens in the store, at most, and of what prompts held, at least.
_MOST_STORED, _LEAST_HELD = 0.60, 1.00


@dataclass(slots=True)
class Read:
    """The evidence in each prompt by the prompt's tokens, and the milliseconds that each took."""

    held: dict[int, list[float]] = field(default_factory=lambda: {budget: [] for budget in BUDGETS})
    taken: list[float] = field(default_factory=list)


def sessions(conversation: Conversation) -> Agent:
    """Return the conversation's agent with one memory for each session."""
    days = [(day, list(turns)) for day, turns in groupby(conversation.turns, key=lambda turn: turn.day)]
    memories = [
        Memory(text="\n".join([f"[{day}]", *(f"{turn.speaker}: {turn.text}" for turn in turns)]), at=turns[0].at)
        for day, turns in days
    ]
    return replace(talk(conversation), memories=memories)


async def read(runs: DailyRuns, agents: Sequence[Agent], packing: str) -> Read:
    """Prepare a prompt for each question."""
    zoom, passages = PACKINGS[packing]
    config = runs.policy.memory.retrieval.model_copy(update={"zoom": zoom, "passages": passages})
    memory = runs.policy.memory.model_copy(update={"retrieval": config})
    policy = runs.policy.model_copy(update={"memory": memory})
    strategy = ContextInjectionStrategy.from_policy(policy, backend=runs.backend, clock=lambda: runs.now)
    found = Read()
    for agent in agents:
        for question in agent.questions:
            for budget in BUDGETS:
                begun = time.perf_counter()
                messages = await strategy.prepare_messages(agent.name, question.text, budget)
                found.taken.append(1e3 * (time.perf_counter() - begun))
                found.held[budget].append(question.found(messages[-1].content if messages else ""))
    return found


@dataclass(kw_only=True)
class Reading:
    """The rows so far, held against the first of them."""

    console: Console
    rows: Table
    before: Read | None = None
    stored: int = 0
    reached: list[Target] = field(default_factory=list)

    def add(self, name: str, size: int, packing: str, found: Read) -> None:
        before = self.before = self.before or found
        stored = self.stored = self.stored or size
        shares = {each: float(np.mean(found.held[each]) / np.mean(before.held[each])) for each in BUDGETS}
        held = [f"{np.mean(found.held[each]):.3f} ({shares[each]:.3f})" for each in BUDGETS]
        taken = [f"{np.percentile(found.taken, each):.1f}" for each in (50, 95)]
        self.rows.add_row(name, f"{size / stored:.2f}", packing, *held, *taken)
        self.console.print(f"{name}, {packing}: measured")
        if (name, packing) != (AFTER, "both"):
            return
        self.reached += [
            Target(name=f"zoom and passages: at {each:,} tokens, of before", values=[share], wanted=_LEAST_HELD)
            for each, share in shares.items()
        ]
        self.reached.append(
            Target(name="stored tokens, of before", values=[size / stored], wanted=_MOST_STORED, at_most=True)
        )


#: The remarks of a conversation as a memory each, before and after a run; its sessions as a memory each.
BEFORE, AFTER, SESSIONS = "remarks", "remarks, condensed", "sessions"


def main(argv: Sequence[str]) -> int:
    """Measure and print; 1 when a target is missed."""
    argparse.ArgumentParser(description="Prompts after a run, by how they are packed.").parse_args(argv)
    console, corpus = Console(highlight=False, width=140), conversations()
    if not corpus:
        console.print("left out (set MEMTEND_LOCOMO_DIR)")
        return 0
    rows = Table("memories", "stored", "packed", *(f"at {budget:,}" for budget in BUDGETS), "p50 ms", "p95", box=None)
    reading = Reading(console=console, rows=rows)
    with ExitStack() as opened:
        stack = opened.enter_context(open_home(policy="memory: {}\n"))
        urls = sqlite_urls(Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="memtend-bench-"))))
        migrate(urls)
        ledger = Ledger.open(urls)
        opened.callback(ledger.close)
        for name, agents in (
            (BEFORE, [talk(each) for each in corpus]),
            (SESSIONS, [sessions(each) for each in corpus]),
        ):
            company = f"reading-{name}"
            with stack.backend(company) as (backend, runner):
                runs = DailyRuns(
                    backend=backend,
                    ledger=ledger,
                    policy=policy_of(stack.settings),
                    maintenance=policies("default")["condense"],
                    company=company,
                    model=None,
                )
                runner.run(_measure(runs, agents, reading, name, ("whole", "passages")))
                if name == BEFORE:
                    runs.now = START + timedelta(days=1)
                    for agent in agents:
                        runner.run(runs.maintain(agent.name))
                    runner.run(_measure(runs, (), reading, AFTER, tuple(PACKINGS), of=agents))
    console.print(rows)
    machine = {"cores": psutil.cpu_count(), "python": platform.python_version(), "load": f"{os.getloadavg()[0]:.1f}"}
    show([], reading.reached, machine)
    return 0 if all(target.is_met for target in reading.reached) else 1


async def _measure(
    runs: DailyRuns,
    new: Sequence[Agent],
    reading: Reading,
    name: str,
    packings: Sequence[str],
    *,
    of: Sequence[Agent] = (),
) -> None:
    agents = new or of
    for agent in new:
        await runs.store(agent.name, [(each.text, each.at) for each in agent.memories])
    size = 0
    for agent in agents:
        size += tokens(await runs.records(agent.name))
    for packing in packings:
        reading.add(name, size, packing, await read(runs, agents, packing))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
