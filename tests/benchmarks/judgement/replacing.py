"""What becomes of facts of people when something new is said, in other words: which are replaced, and which wrongly.

The facts are in tests/fixtures/fact_changes, with the answers of a small model as it gave them once. With
MEMTEND_LLM_URL a model is asked whatever was not answered yet.
"""

import asyncio
import tempfile
from contextlib import closing
from pathlib import Path

from benchmarks.figure import Figure, Target
from benchmarks.stack import open_home, policy_of
from support.fact_changes import ANSWERS, Judged, judged, people, replayed
from support.ledger_records import sqlite_urls
from support.recorded_answers import RecordedAnswers

from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate
from memcore.llm.accounting import create_model
from memcore.llm.protocol import Model


def replacing() -> tuple[list[Figure], list[Target]]:
    """Let each person say each new thing."""
    with open_home(policy="memory:\n  llm:\n    model: small\n") as stack, tempfile.TemporaryDirectory() as folder:
        urls = sqlite_urls(Path(folder))
        migrate(urls)
        with closing(Ledger.open(urls)) as ledger:
            live = create_model(stack.settings, policy_of(stack.settings), ledger)
            found = asyncio.run(_found(live))
    changes = [each for each in found if each.is_change]
    wrong = sum(bool(each.wrong) for each in found) / len(found)
    return [], [
        Target(
            name=f"of {len(changes)} changes of facts in other words, superseded",
            values=[sum(each.replaced for each in changes) / len(changes)],
            wanted=0.8,
        ),
        Target(name=f"of {len(found)} new facts, superseded what holds", values=[wrong], wanted=0.02, at_most=True),
    ]


async def _found(live: Model | None) -> list[Judged]:
    if live is None:
        return [*await replayed("seen"), *await replayed("unseen")]
    return await judged(RecordedAnswers.read(ANSWERS, live=live), [*people("seen"), *people("unseen")])
