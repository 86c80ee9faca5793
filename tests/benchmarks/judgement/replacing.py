"""What becomes of facts of people when something new is said, in other words: which are replaced, and which wrongly.

The facts are in tests/fixtures/fact_changes, with the answers of a small model as it gave them once. With
MEMTEND_LLM_URL a model is asked whatever was not answered yet, and its answers are kept there.
"""

import asyncio
import os
from collections.abc import Sequence
from datetime import timedelta

from benchmarks.figure import Figure, Target
from support.fact_changes import ANSWERS, Judged, judged, people, replayed
from support.recorded_answers import RecordedAnswers

from memcore.llm.provider import ServerProvider


def replacing() -> tuple[list[Figure], list[Target]]:
    """Let each person say each new thing."""
    found = asyncio.run(_found(os.environ.get("MEMTEND_LLM_URL")))
    changes = [each for each in found if each.is_change]
    group = f"{len(found)} new facts, {len(changes)} of them changes in other words"

    def share(some: Sequence[bool]) -> float:
        return sum(some) / len(some)

    listed = sum(each.listed for each in changes)
    idle = sum(len(each.idle) for each in found)
    return [
        Figure(
            group=group, name="changes superseded", unit="share", samples=[share([each.replaced for each in changes])]
        ),
        Figure(group=group, name="pairs listed for a person", unit="", samples=[listed + idle], note=f"{idle} hold"),
    ], [
        Target(
            name=f"of {len(changes)} changes of facts, superseded or listed for a person",
            values=[share([each.is_noticed for each in changes])],
            wanted=0.8,
        ),
        Target(
            name=f"of {len(found)} new facts, superseded what holds",
            values=[share([bool(each.wrong) for each in found])],
            wanted=0.02,
            at_most=True,
        ),
    ]


async def _found(url: str | None) -> list[Judged]:
    if url is None:
        return [*await replayed("seen"), *await replayed("unseen")]
    live = ServerProvider(url, model="small", timeout=timedelta(minutes=5))
    try:
        return await judged(RecordedAnswers.read(ANSWERS, live=live), [*people("seen"), *people("unseen")])
    finally:
        await live.close()
