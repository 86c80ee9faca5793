"""Days of maintenance in an evaluation: which are read, and what each does."""

from pathlib import Path

import pytest
from support.daily_maintenance import maintained

from memcore.errors import MemoryInputError
from memcore.evaluation.maintained import MaintenanceDone, read_days
from memcore.evaluation.results import done_in_words


def test_days_are_read_in_order() -> None:
    assert read_days("30, 1,7") == (1, 7, 30)


@pytest.mark.parametrize("text", ["", "0", "366", "1,,2", "1,1", "-1", "one", "1.5", "\u0661", "9" * 5_000])
def test_other_days_are_refused(text: str) -> None:
    with pytest.raises(MemoryInputError, match="nights: must be different numbers from 1 to 365"):
        read_days(text)


def test_repetitions_are_merged_and_what_replaced_them_holds_both(tmp_path: Path) -> None:
    done, kept, left = maintained(tmp_path, 8)
    assert (done.merged, done.summaries, done.removed, done.live) == (2, 1, 0, 2)
    assert kept["ferry"] == kept["ferry, said again"]
    assert {each.memory_id for each in kept.values()} == left


def test_what_is_too_old_is_removed_when_its_day_has_come(tmp_path: Path) -> None:
    rules = {"default_retention_days": 20}
    done, _, left = maintained(tmp_path, 30, retention=rules, strategy="none")
    assert (done.removed, done.live, left) == (3, 0, set())


def test_before_that_day_it_stays(tmp_path: Path) -> None:
    done, _, _ = maintained(tmp_path, 19, retention={"default_retention_days": 20}, strategy="none")
    assert (done.removed, done.live) == (0, 3)


def test_no_run_is_made_where_none_is_due(tmp_path: Path) -> None:
    done, _, _ = maintained(tmp_path, 8, interval="never")
    assert done == MaintenanceDone(live=3)


def test_a_weekly_run_is_made_each_week(tmp_path: Path) -> None:
    rules = {"default_retention_days": 8}
    assert maintained(tmp_path, 13, interval="weekly", retention=rules, strategy="none")[0].removed == 0


def test_a_run_that_waits_for_a_person_is_said_and_retention_goes_on(tmp_path: Path) -> None:
    done, _, _ = maintained(tmp_path / "a", 12, apply="propose")
    assert (done.held, done.merged, done.live) == (1, 0, 3)
    assert "runs that wait for a person: 1 (proposes 1 groups of 2 memories" in done_in_words(done)
    done, _, _ = maintained(tmp_path / "b", 12, apply="propose", retention={"default_retention_days": 10})
    assert (done.held, done.removed) == (0, 3)
