"""The report of a cycle."""

from datetime import timedelta

import pytest
from pydantic import ValidationError
from support.memories import DAWN

from memcore.skills.report import MAX_LISTED, Conflict, EvolverReport

HOUR = timedelta(hours=1)


def test_a_window_does_not_end_before_it_begins() -> None:
    assert EvolverReport(cycle_id="c", window_start=DAWN, window_end=DAWN).patterns_found == 0
    with pytest.raises(ValidationError, match="window_end: lies before window_start"):
        EvolverReport(cycle_id="c", window_start=DAWN, window_end=DAWN - HOUR)


def test_it_survives_the_ledgers_json() -> None:
    report = EvolverReport(
        cycle_id="c",
        window_start=DAWN,
        window_end=DAWN + HOUR,
        conflicts=1,
        conflict_list=(Conflict(pattern_id="p", standing_id="s"),),
    )
    assert EvolverReport.model_validate(report.model_dump(mode="json")) == report


def test_it_lists_only_so_many_contradictions() -> None:
    one = Conflict(pattern_id="p", standing_id="s")
    with pytest.raises(ValidationError, match="conflict_list"):
        EvolverReport(cycle_id="c", window_start=DAWN, window_end=DAWN, conflict_list=(one,) * (MAX_LISTED + 1))
