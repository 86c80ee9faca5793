"""What runs with a language model make of groups of memories: which are merged, and what the merged texts lack.

The groups are in tests/fixtures/merging, with the answers of a small model as it gave them once, and what a person who
read each of them found missing there. With MEMTEND_LLM_URL a model is asked whatever was not answered yet.
"""

import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from benchmarks.figure import Figure, Target
from benchmarks.nights.agents import START
from benchmarks.nights.run import DailyRuns
from benchmarks.stack import BenchStack, open_home, policy_of
from support.ledger_records import sqlite_urls
from support.recorded_answers import RecordedAnswers, UnrecordedError

from memcore.config.maintenance import ConsolidationConfig
from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate
from memcore.llm.provider import ServerProvider

FOLDER = Path(__file__).parents[2] / "fixtures" / "merging"

#: The newest memory of an agent, which no run touches.
_NEWEST = "Nothing else today."


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What became of a group: the text in its place, or None where its memories stayed as they were."""

    group: int
    text: str | None


def merging() -> tuple[list[Figure], list[Target]]:
    """Let one run pass for each group."""
    with open_home(policy="memory:\n  llm:\n    model: small\n") as stack:
        merged = merge(stack)
    found: list[dict[str, Any]] = yaml.safe_load((FOLDER / "read.yaml").read_text(encoding="utf-8"))
    read: dict[str, dict[str, str]] = {each["text"]: each["missing"] for each in found}
    adopted = [each.text for each in merged if each.text is not None]
    missing = sum(len(read.get(text, ())) for text in adopted)
    unread = sum(text not in read for text in adopted)
    figures = {
        f"of {len(merged)} groups of three memories, merged by a small model": ("groups", len(adopted)),
        "lacking in its answers as it gave them, read by a person": ("facts", sum(map(len, read.values()))),
    }
    return [
        Figure(group="merging", name=name, unit=unit, samples=[value]) for name, (unit, value) in figures.items()
    ], [
        Target(name="facts that the merged texts lack, read by a person", values=[missing], wanted=0, at_most=True),
        Target(name="merged texts that no person has read", values=[unread], wanted=0, at_most=True),
    ]


def merge(stack: BenchStack) -> list[Merged]:
    """Return what one run makes of each group."""
    groups: list[list[str]] = yaml.safe_load((FOLDER / "groups.yaml").read_text(encoding="utf-8"))
    company = "merging"
    url = stack.settings.llm_url
    live = ServerProvider(url, model="small", timeout=timedelta(minutes=5)) if url else None
    model = RecordedAnswers.read(FOLDER / "answers.json", live=live)
    with tempfile.TemporaryDirectory(prefix="memtend-bench-") as folder:
        urls = sqlite_urls(Path(folder))
        migrate(urls)
        with closing(Ledger.open(urls)) as ledger, stack.backend(company) as (backend, runner):
            policy = policy_of(stack.settings)
            runs = DailyRuns(
                backend=backend,
                ledger=ledger,
                policy=policy,
                maintenance=ConsolidationConfig(strategy="llm"),
                company=company,
                model=model,
            )
            merged = runner.run(_merged(runs, groups))
    if len(model.given) < len(groups):
        raise UnrecordedError(f"{len(groups) - len(model.given)} groups have no answer: record them anew")
    return merged


async def _merged(runs: DailyRuns, groups: Sequence[Sequence[str]]) -> list[Merged]:
    merged = list[Merged]()
    for number, texts in enumerate(groups):
        agent = f"agent-{number:02}"
        said = [(text, START - timedelta(days=40 - place)) for place, text in enumerate(texts)]
        await runs.store(agent, [*said, (_NEWEST, START - timedelta(days=36))])
        await runs.maintain(agent)
        left = {record.entry.content for record in await runs.records(agent)} - {*texts, _NEWEST}
        merged.append(Merged(group=number, text=min(left, default=None)))
    return merged
