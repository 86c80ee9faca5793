"""Pages of evaluations in which people wrote hostile texts."""

import stat
from collections.abc import Sequence
from pathlib import Path

from memcore.client.envelopes import ImportRecord
from memcore.evaluation.asking import Judged
from memcore.evaluation.dataset import Dataset, Question
from memcore.evaluation.maintained import MaintenanceDone
from memcore.evaluation.results import Asked, PolicyResult
from memcore.models.memory import MemoryCategory
from ops.cli.memory.evaluation_report import write_report

HOSTILE = "</article><script src='http://evil'>alert(1)</script>\x07\x1b[31m\u202e & \"quoted\" {{ 7 * 7 }}"


def judged(number: int, recall: float, *shown: str) -> Judged:
    """Return a hostile question of which so much was found."""
    question = Question(agent_id="ada", question=f"{number}: {HOSTILE}", finds=("m",), kind=HOSTILE[:30].strip())
    return Judged(question=question, shown=(), scores={"recall": recall, "shown": 1.0 * len(shown)}, texts=shown)


def evaluation_page(folder: Path, *asked: Sequence[Asked]) -> tuple[str, list[PolicyResult]]:
    """Write the page of answers of each policy into a folder; return it, and the figures."""
    record = ImportRecord(agent_id="ada", id="m", category=MemoryCategory.EPISODIC, content=f"Kept {HOSTILE}" * 9)
    questions = tuple(each.question for each in asked[0][0].judged)
    results = [PolicyResult.of(f"{n}{HOSTILE}.yaml", each, asked[0]) for n, each in enumerate(asked)]
    path = folder / "report.html"
    write_report(path, Dataset(memories={"ada": (record,)}, questions=questions), results, asked, budget=1_000)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return path.read_text(encoding="utf-8"), results


BEFORE = Asked(days=0, judged=[judged(n, 1.0) for n in range(40)])
AFTER = Asked(
    days=30,
    judged=[judged(n, float(n >= 30), f"Shown {HOSTILE}") for n in range(40)],
    done=MaintenanceDone(merged=3, summaries=1, live=2, held=1, reason=HOSTILE),
)
