"""Asks a real model the questions of asking.py, and keeps what it was shown and what it said.

``python tests/benchmarks/judgement/ask_model.py URL FILE``: every answer goes to FILE as it comes, and is not asked for
again there. A question at a time: small machines serve one.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.judgement.asking import AGENT, ANSWERS, COMPANY, cases, entries, targets  # noqa: E402  # see above
from benchmarks.report import show  # noqa: E402
from benchmarks.stack import BenchStack, open_home, policy_of  # noqa: E402
from support.recorded_answers import RecordedAnswers  # noqa: E402

from memcore.llm.provider import ServerProvider  # noqa: E402
from memcore.models.asking import Answer, MemoryQuestion  # noqa: E402
from memcore.records import MemoryRecord  # noqa: E402
from memcore.retrieval.strategies.factory import StrategyParts  # noqa: E402

#: When the questions are asked.
_NOW = datetime(2026, 7, 2, 12, tzinfo=UTC)


async def _asked(stack: BenchStack, backend: Any, model: RecordedAnswers) -> tuple[dict[str, Any], list[Any]]:
    made = entries()
    await backend.store_many([MemoryRecord(entry=each) for each in made])
    places = {each.id: place for place, each in enumerate(made)}
    parts = StrategyParts(
        policy=policy_of(stack.settings), backend=backend, company=COMPANY, model=model, clock=lambda: _NOW
    )
    answering, kept, answers = parts.answering(), dict[str, Any](), list[Any]()
    for case in cases():
        model.given.clear()
        finding = await answering.find(AGENT, MemoryQuestion(question=case.question, timeout_seconds=600.0))
        answer: Answer = await answering.answer(finding)
        shown = [places[each.entry.id] for each in finding.memories]
        kept[case.question] = {
            "shown": shown,
            "is_strong": finding.is_strong,
            "said": [each["text"] for each in model.given.values()],
        }
        answers.append((case, answer))
        mark = "+" if case.says and case.is_right(answer) else " " if not case.says and not answer.sentences else "-"
        sys.stdout.write(f"{mark} {case.question} {shown} {answer.reason or answer.text}\n")
        sys.stdout.flush()
    return kept, answers


def main(url: str, file: str) -> int:
    """Ask every question, keep the answers, and print the figures."""
    provider = ServerProvider(url, model="local", timeout=timedelta(minutes=5))
    model = RecordedAnswers.read(Path(file), live=provider)
    with open_home(policy="memory: {}\n") as stack, stack.backend(COMPANY, clock=lambda: _NOW) as (backend, runner):
        kept, answers = runner.run(_asked(stack, backend, model))
    ANSWERS.write_text(f"{json.dumps(kept, ensure_ascii=False, indent=1)}\n", encoding="utf-8")
    show([], targets(answers), {})
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
