"""What the fine-tuning demo counts as found, and what its report calls a gain."""

import numpy as np
import pytest

from examples.demo.finetuning.judging import Figures
from examples.demo.finetuning.report import show_figures, show_improvements
from examples.demo.finetuning.traffic import Traffic


def figures(*ranks: int) -> Figures:
    return Figures(dense=np.array(ranks), fused=np.array(ranks))


def test_what_stands_first_counts_whole_and_what_stands_eleventh_not_at_all() -> None:
    assert figures(0, 0).means() == (1.0, 1.0, 1.0, 1.0)
    assert figures(10, 10).means() == (0.0, 0.0, 0.0, 0.0)
    assert figures(9, 10).means()[1] == 0.5


def test_figures_are_equal_question_by_question() -> None:
    assert figures(0, 3).equals(figures(0, 3))
    assert not figures(0, 3).equals(figures(3, 0))
    assert not figures(0).equals(Figures(dense=np.array([0]), fused=np.array([1])))


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ([5] * 40, [0] * 40, ": it gained"),
        ([0] * 40, [5] * 40, ": it lost"),
        ([0, 5] * 20, [5, 0] * 20, ": it did not gain: not told from chance"),
    ],
)
def test_a_gain_is_called_so_only_where_its_interval_is_above_zero(
    before: list[int], after: list[int], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_improvements(figures(*after), figures(*before))
    said = capsys.readouterr().out.splitlines()
    assert [line.endswith(word) for line in said] == [True, True]


def test_the_table_has_a_row_for_each_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    show_figures({"MiniLM": figures(0, 10), "the checkpoint": figures(0, 0)})
    assert [line.split()[-4:] for line in capsys.readouterr().out.splitlines()[1:]] == [["0.500"] * 4, ["1.000"] * 4]


def test_whoever_failed_or_lost_anything_was_hurt() -> None:
    assert Traffic(reads=3, writes=["a"], lost=0).is_unaffected
    for hurt in (Traffic(failed_reads=1, lost=0), Traffic(failed_writes=1, lost=0), Traffic(lost=1)):
        assert not hurt.is_unaffected


def test_nobody_is_called_unhurt_before_somebody_has_looked_for_what_was_stored() -> None:
    assert not Traffic(reads=3, writes=["a"]).is_unaffected
