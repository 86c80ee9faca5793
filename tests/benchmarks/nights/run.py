"""``make bench-nights``: what thirty daily runs leave of what an agent knows, for every strategy."""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import psutil

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.consolidation.ways import tokens  # noqa: E402  # a script must find the tree first
from benchmarks.figure import Target  # noqa: E402
from benchmarks.nights.agents import START, Agent, person, talk  # noqa: E402
from benchmarks.nights.facts import newer  # noqa: E402
from benchmarks.report import show  # noqa: E402
from benchmarks.retrieval.conversations import conversations  # noqa: E402
from benchmarks.stack import open_home, policy_of  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from support.ledger_records import sqlite_urls  # noqa: E402
from support.stub_llm_process import stub_llm  # noqa: E402

from memcore import ids  # noqa: E402
from memcore.backends.base import fresh_record  # noqa: E402
from memcore.backends.factory import WorkerBackend  # noqa: E402
from memcore.backends.protocol import pages  # noqa: E402
from memcore.config.maintenance import ArchivalConfig, ConsolidationConfig, DualModeConfig, GateConfig  # noqa: E402
from memcore.config.policy import Policy  # noqa: E402
from memcore.evaluation.maintained import carried_out  # noqa: E402
from memcore.jobs import Done  # noqa: E402
from memcore.ledger.ledger import Ledger  # noqa: E402
from memcore.ledger.llm_usage import UsageBy  # noqa: E402
from memcore.ledger.migrate import migrate  # noqa: E402
from memcore.ledger.runs import NewRun  # noqa: E402
from memcore.llm.accounting import create_model  # noqa: E402
from memcore.llm.protocol import Model  # noqa: E402
from memcore.maintenance.consolidation.answers import SynthesisService  # noqa: E402
from memcore.maintenance.service import MaintenanceService  # noqa: E402
from memcore.models.memory import MemoryCategory, MemoryLevel, MemoryStoreRequest  # noqa: E402
from memcore.records import MemoryRecord, Where  # noqa: E402
from memcore.retrieval.context import ContextInjectionStrategy  # noqa: E402

#: Days after which it is measured; 0 is before the first.
DAYS = (0, 1, 7, 30)

#: Tokens of a prompt.
BUDGETS = (400, 1_000)

#: Least share of the evidence that a lossy run must leave in a prompt, of what it held before.
_LEAST_LEFT = 0.98

#: The strategy of a policy that names none.
DEFAULT = "default"

#: Ends the name of a way whose summaries nothing judges.
WITHOUT_GATE = "-without-gate"


def policies(model: str) -> dict[str, ConsolidationConfig]:
    """Return the maintenance of each way; the lossy ones with the gate and without it."""
    dual_mode = ArchivalConfig(age_threshold_days=7, dual_mode=DualModeConfig(enabled=True, summarization_model=model))
    lossy = {
        "condense": ConsolidationConfig(strategy="condense"),
        "simple": ConsolidationConfig(strategy="simple"),
        "dual_mode": ConsolidationConfig(strategy="dual_mode", archival=dual_mode),
        "llm": ConsolidationConfig(strategy="llm"),
    }
    off = {
        f"{way}{WITHOUT_GATE}": each.model_copy(update={"gate": GateConfig(enabled=False)})
        for way, each in lossy.items()
    }
    return {DEFAULT: ConsolidationConfig(), **lossy, **off}


@dataclass(slots=True)
class Seen:
    """What was measured of an agent after some days.

    Attributes:
        recall: by the prompt's tokens.
        kept, archived, current: shares; of the texts to keep, of those that are gone, of the values that are true.
        taken: texts that are no repetition, and are gone.
        merged: of the facts said twice, the share of which one memory is left.
        tokens: of all texts in the store.
        seconds, refused: of all runs so far; groups that the gate refused.
    """

    recall: dict[int, list[float]] = field(default_factory=dict)
    kept: float = 1.0
    archived: float = 1.0
    current: float = 1.0
    taken: int = 0
    merged: float = 0.0
    tokens: int = 0
    asked: int = 0
    seconds: float = 0.0
    refused: int = 0


@dataclass(slots=True, kw_only=True)
class DailyRuns:
    """Agents of one company under one policy, day by day."""

    backend: WorkerBackend
    ledger: Ledger
    policy: Policy
    maintenance: ConsolidationConfig
    company: str
    model: Model | None
    now: datetime = START
    seconds: float = 0.0
    refused: int = 0

    async def live(self, agent_id: str, agent: Agent, *, last: int) -> dict[int, Seen]:
        """Fill the agent, and let days pass; return what was seen after some of them."""
        await self.store(agent_id, [(each.text, each.at) for each in agent.memories])
        ids_of = {record.entry.content: record.entry.id for record in await self.records(agent_id)}
        found = {0: await self._seen(agent_id, agent, ids_of)}
        for day in range(1, last + 1):
            self.now = START + timedelta(days=day)
            await self.store(agent_id, [(fact.text, self.now - timedelta(hours=6)) for fact in newer(day)])
            begun = time.perf_counter()
            await self.maintain(agent_id)
            self.seconds += time.perf_counter() - begun
            if day in DAYS:
                found[day] = await self._seen(agent_id, agent, ids_of)
        return found

    async def store(self, agent_id: str, texts: Sequence[tuple[str, datetime]]) -> None:
        made = [
            fresh_record(
                agent_id,
                MemoryStoreRequest(category=MemoryCategory.EPISODIC, content=text),
                company=self.company,
                now=at,
            )
            for text, at in texts
        ]
        for start in range(0, len(made), 256):
            await self.backend.store_many(made[start : start + 256])

    async def records(self, agent_id: str) -> list[MemoryRecord]:
        return [record async for page in pages(self.backend, Where(agent_id=agent_id)) for record in page]

    async def maintain(self, agent_id: str) -> None:
        run = self.ledger.runs.create(
            NewRun(
                run_id=ids.new_id(),
                company=self.company,
                agent_id=agent_id,
                origin="manual",
                planned_at=self.now,
                allow_large=True,
            )
        )
        if run is None:
            raise RuntimeError(f"{agent_id} has an active run")
        service = MaintenanceService(
            self.backend,
            self.ledger,
            self.maintenance,
            company=self.company,
            level=MemoryLevel.PERSISTENT,
            clock=lambda: self.now,
            has_model=self.model is not None,
            retrieval=self.policy.memory.retrieval,
        )
        synthesis = SynthesisService(
            self.backend, self.ledger, self.maintenance, company=self.company, model=self.model
        )
        outcome = await carried_out(service, synthesis, run)
        if not isinstance(outcome, Done):
            raise TypeError(f"the run of {agent_id} ended with {outcome}")
        self.refused += outcome.facts.get("gate_refused", 0)

    async def _seen(self, agent_id: str, agent: Agent, ids_of: dict[str, str]) -> Seen:
        records = await self.records(agent_id)
        there = {record.entry.content for record in records}
        gone = [text for text in ids_of if text not in there]
        archived = [self.ledger.archive.find(self.company, agent_id, ids_of[text]) is not None for text in gone]
        # A summary may say it word for word, too.
        said = "\n".join(there)
        pairs = [sum(text in there for text in pair) for pair in agent.again]
        strategy = ContextInjectionStrategy.from_policy(self.policy, backend=self.backend, clock=lambda: self.now)
        seen = Seen(
            kept=_share([any(text in said for text in each) for each in agent.keep]),
            archived=_share(archived),
            current=_share([text in said for text in agent.current]),
            taken=sum(text not in said for text in agent.alike),
            merged=_share([left == 1 for left in pairs]) if pairs else 0.0,
            tokens=tokens(records),
            asked=self._asked(agent_id),
            seconds=self.seconds,
            refused=self.refused,
        )
        for budget in BUDGETS:
            seen.recall[budget] = []
            for question in agent.questions:
                messages = await strategy.prepare_messages(agent_id, question.text, budget)
                seen.recall[budget].append(question.found(messages[-1].content if messages else ""))
        return seen

    def _asked(self, agent_id: str) -> int:
        rows = self.ledger.usage.report(
            self.company, UsageBy.PURPOSE, since=date(2020, 1, 1), until=date(2100, 1, 1), agent_id=agent_id
        )
        return sum(row.prompt_tokens + row.completion_tokens for row in rows)


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else 1.0


def main(argv: Sequence[str]) -> int:
    """Measure and print; 1 when a target is missed."""
    parser = argparse.ArgumentParser(description="Daily runs: what maintenance leaves of what an agent knows.")
    parser.add_argument("--days", type=int, default=max(DAYS), help="days that pass")
    parser.add_argument(
        "--ways",
        nargs="*",
        help="of default, condense, simple, dual_mode, llm, and each but the first with -without-gate; left out, all",
    )
    parser.add_argument("--model", default="default", help="of the server that MEMTEND_LLM_URL names")
    options = parser.parse_args(argv)
    console, corpus = Console(highlight=False, width=170), conversations()
    agents = [person(), *map(talk, corpus)]
    if not corpus:
        console.print("conversations: left out (set MEMTEND_LOCOMO_DIR)")
    reached: list[Target] = []
    with ExitStack() as opened:
        stack = opened.enter_context(open_home(policy=f"memory:\n  llm:\n    model: {options.model}\n"))
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="memtend-bench-")))
        urls = sqlite_urls(folder)
        migrate(urls)
        ledger = Ledger.open(urls)
        opened.callback(ledger.close)
        url = os.environ.get("MEMTEND_LLM_URL")
        if url is None:
            console.print("dual_mode, llm: a deterministic stub writes the summaries, not a model (MEMTEND_LLM_URL)")
            url = opened.enter_context(stub_llm()).url
        policy = policy_of(stack.settings)
        rows = Table("agents", "way", "days", *(f"at {each:,}" for each in BUDGETS), *_COLUMNS, box=None)
        for way, maintenance in policies(options.model).items():
            if options.ways and way not in options.ways:
                continue
            company = f"days-{way.replace('_', '-')}"
            settings = stack.settings.model_copy(update={"llm_url": url, "company": company})
            model = create_model(settings, policy, ledger)
            with stack.backend(company) as (backend, runner):
                seen = [
                    runner.run(
                        DailyRuns(
                            backend=backend,
                            ledger=ledger,
                            policy=policy,
                            maintenance=maintenance,
                            company=company,
                            model=model,
                        ).live(agent.name, agent, last=options.days)
                    )
                    for agent in agents
                ]
            reached += _rows(rows, way, seen)
            console.print(f"{way}: measured")
    console.print(rows)
    machine = {"cores": psutil.cpu_count(), "python": platform.python_version(), "load": f"{os.getloadavg()[0]:.1f}"}
    show([], reached, machine)
    return 0 if all(target.is_met for target in reached) else 1


_COLUMNS = ("word for word", "gone: archived", "current", "taken", "merged", "tokens", "model tokens", "refused", "s")


def _rows(rows: Table, way: str, seen: Sequence[dict[int, Seen]]) -> list[Target]:
    """Add the rows of a way; return what it must reach."""
    someone, talks = seen[0], seen[1:]
    for day, each in someone.items():
        recall = [f"{np.mean(each.recall[budget]):.3f}" for budget in BUDGETS]
        shares = [f"{share:.3f}" for share in (each.kept, each.archived, each.current)]
        left = f"{each.tokens / someone[0].tokens:.2f}"
        figures = [
            str(each.taken),
            f"{each.merged:.2f}",
            left,
            f"{each.asked:,}",
            str(each.refused),
            f"{each.seconds:.1f}",
        ]
        rows.add_row("person", way, str(day), *recall, *shares, *figures)
    reached = []
    if way == DEFAULT:
        last = someone[max(someone)]
        reached += [
            Target(name="default: facts left word for word", values=[last.kept], wanted=1.0),
            Target(name="default: of what is gone, in the archive", values=[last.archived], wanted=1.0),
            Target(name="default: look-alikes taken for repetitions", values=[last.taken], wanted=0.0, at_most=True),
            Target(name="default: facts said twice that became one", values=[last.merged], wanted=0.95),
        ]
    if not talks:
        return reached
    for day in talks[0]:
        after = {budget: [value for each in talks for value in each[day].recall[budget]] for budget in BUDGETS}
        before = {budget: [value for each in talks for value in each[0].recall[budget]] for budget in BUDGETS}
        size = sum(each[day].tokens for each in talks) / sum(each[0].tokens for each in talks)
        of_before = {budget: float(np.mean(after[budget]) / np.mean(before[budget])) for budget in BUDGETS}
        recall = [f"{np.mean(after[budget]):.3f} ({of_before[budget]:.2f})" for budget in BUDGETS]
        archived = f"{np.mean([each[day].archived for each in talks]):.3f}"
        rest = ["", "", "", f"{size:.2f}", f"{sum(each[day].asked for each in talks):,}"]
        rest.append(str(sum(each[day].refused for each in talks)))
        taken = f"{sum(each[day].seconds for each in talks):.1f}"
        rows.add_row("conversations", way, str(day), *recall, "", archived, *rest, taken)
        if day == 1 and not way.endswith(WITHOUT_GATE):
            reached += [
                Target(
                    name=f"{way}: evidence at {budget:,} tokens after one run, of before",
                    values=[share],
                    wanted=_LEAST_LEFT,
                )
                for budget, share in of_before.items()
            ]
    return reached


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
