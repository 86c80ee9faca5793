"""The comparison with the base: questions of one passage count together, and those that were asked count apart."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from memcore.finetune.documents import Pair, write_lines
from memcore.finetune.evaluate import ENOUGH_ASKED, EvalReport, compare, evaluate
from memcore.finetune.markers import StageProgress

if TYPE_CHECKING:
    from numpy.typing import NDArray

THINGS = 80


#: A word for each passage, which stands in no other.
NAMES = tuple(f"{first}{second}{first}" for first in "bdfghjkl" for second in "aeiouyxwvz")


class Known:
    """Embeds as one who knows where the questions of some passages lead, and takes any other for the next one's."""

    def __init__(self, known: set[int]) -> None:
        self._known = known

    def passages(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        return np.eye(THINGS, dtype=np.float32)[[NAMES.index(text) for text in texts]]

    def queries(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        numbers = [int(text.split("-")[0]) for text in texts]
        meant = [each if each in self._known else (each + 1) % THINGS for each in numbers]
        return np.eye(THINGS, dtype=np.float32)[meant]


def judged(tmp_path: Path, asked: int, new: set[int], old: set[int], *, misled: int = 0) -> EvalReport:
    """Judge with questions of which the first were asked, and the first ``misled`` use a word of another passage."""
    pairs = [
        Pair(
            query=f"{number}-{NAMES[(number + 2) % THINGS if number < misled else number]}",
            positive_passage=NAMES[number],
            is_asked=number < asked,
        )
        for number in range(THINGS)
    ]
    write_lines(tmp_path / "validation.jsonl", pairs)
    encoders: Any = (Known(new), Known(old))
    return evaluate(tmp_path / "validation.jsonl", None, *encoders, seed=0, watch=StageProgress())


def test_what_is_gained_on_templates_does_not_count_for_what_was_asked(tmp_path: Path) -> None:
    base = set(range(20))
    report = judged(tmp_path, 60, base | set(range(60, THINGS)), base)
    assert report.asked is not None
    assert report.templates is not None
    assert (report.asked.questions, report.templates.questions) == (60, 20)
    assert report.asked.dense_lead.mean == 0.0
    assert report.templates.dense_lead.mean > 0.3
    assert report.dense_lead.mean == pytest.approx(0.25 * report.templates.dense_lead.mean)


def test_both_origins_count_alike_for_the_weight_of_meaning(tmp_path: Path) -> None:
    # What was asked is found by meaning alone, what templates made by words alone; the first are three times as many.
    report = judged(tmp_path, 60, set(range(60)), set(range(60)), misled=60)
    assert report.fusion_weight < 0.5
    only = judged(tmp_path, THINGS, set(range(60)), set(range(60)), misled=60)
    assert only.fusion_weight > 0.5


@pytest.mark.parametrize(("asked", "part"), [(0, "asked"), (THINGS, "templates")])
def test_where_there_is_no_question_of_an_origin_nothing_is_claimed_of_it(
    tmp_path: Path, asked: int, part: str
) -> None:
    report = judged(tmp_path, asked, set(range(40)), set(range(20)))
    assert getattr(report, part) is None
    assert EvalReport.model_validate_json(report.model_dump_json()) == report
    assert ENOUGH_ASKED < THINGS


def test_ten_questions_of_one_passage_are_no_ten_proofs() -> None:
    chance = np.random.default_rng(3)
    of_passages = chance.normal(0.02, 0.2, size=12)
    gains, groups = np.repeat(of_passages, 10), np.repeat(np.arange(12), 10)
    alone = compare(gains, np.zeros_like(gains), seed=0)
    together = compare(gains, np.zeros_like(gains), seed=0, groups=groups)
    assert together.mean == alone.mean
    assert together.high - together.low > 2.5 * (alone.high - alone.low)


def test_without_groups_each_question_counts_alone() -> None:
    gains = np.array([0.1, 0.3, -0.2, 0.4])
    numbered = compare(gains, np.zeros(4), seed=1, groups=np.array([7, 3, 5, 1]))
    assert compare(gains, np.zeros(4), seed=1).mean == pytest.approx(numbered.mean) == pytest.approx(0.15)
