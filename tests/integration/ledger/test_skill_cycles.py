"""The evolver's cycles, on each database."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ledger_records import COMPANY, StoppedClock, finish_cycle
from support.present import present
from support.thorough import examples

from memcore import ids
from memcore.errors import LeaseLostError, MemoryInputError, MemoryNotFoundError
from memcore.jobs import EvolvePayload
from memcore.ledger.learning.skill_cycles import MAX_PAGE, Cycle
from memcore.ledger.ledger import Ledger
from memcore.ledger.work_items import REDISPATCH_AFTER, WorkState

SLOT = datetime(2026, 3, 1, 11, tzinfo=UTC)
HOUR = timedelta(hours=1)
WINDOW = timedelta(days=30)


def planned(ledger: Ledger, number: int = 0) -> Cycle:
    """Plan the cycle of a slot, and return it."""
    return present(
        ledger.skill_cycles.plan(COMPANY, origin="scheduled", planned_at=SLOT + number * HOUR, window=WINDOW)
    )


def test_a_cycle_looks_back_from_the_time_it_was_planned_for(ledger: Ledger) -> None:
    cycle = planned(ledger)
    assert cycle == Cycle(
        cycle_id=ids.cycle_id(company=COMPANY, planned_at="2026-03-01T11:00:00+00:00"),
        origin="scheduled",
        planned_at=SLOT,
        window_start=SLOT - WINDOW,
        window_end=SLOT,
    )
    assert ledger.skill_cycles.get(COMPANY, cycle.cycle_id) == cycle
    assert ledger.skill_cycles.get(COMPANY, "another") is None


def test_a_time_is_planned_once_whoever_asks_and_in_whichever_zone(ledger: Ledger) -> None:
    cycle = planned(ledger)
    tokyo = SLOT.astimezone(timezone(9 * HOUR))
    assert ledger.skill_cycles.plan(COMPANY, origin="manual", planned_at=tokyo, window=HOUR) is None
    assert ledger.skill_cycles.page(COMPANY) == (cycle,)


def test_of_many_that_plan_a_slot_at_once_one_is_told_to_dispatch(ledger: Ledger) -> None:
    at_once = threading.Barrier(4)

    def plan() -> Cycle | None:
        at_once.wait(timeout=600)
        return ledger.skill_cycles.plan(COMPANY, origin="scheduled", planned_at=SLOT, window=WINDOW)

    with ThreadPoolExecutor(4) as beats:
        results = [each.result(timeout=600) for each in [beats.submit(plan) for _ in range(4)]]
    assert sum(each is not None for each in results) == 1
    assert len(ledger.skill_cycles.page(COMPANY)) == 1


def test_a_cycle_is_finished_once(ledger: Ledger, clock: StoppedClock) -> None:
    cycle = planned(ledger)
    done = finish_cycle(ledger, COMPANY, cycle.cycle_id, {"proposals_emitted": 2, "text": "naïve, 日本"})
    assert (done.state, done.finished_at) == (WorkState.DONE, clock())
    assert done.report == {"proposals_emitted": 2, "text": "naïve, 日本"}
    assert ledger.skill_cycles.get(COMPANY, cycle.cycle_id) == done
    assert ledger.skill_cycles.claim(COMPANY, cycle.cycle_id, lease=HOUR) is None
    with pytest.raises(LeaseLostError, match="is done"):
        ledger.skill_cycles.finish(COMPANY, cycle.cycle_id, "token", {"proposals_emitted": 0})
    with pytest.raises(MemoryNotFoundError):
        ledger.skill_cycles.finish(COMPANY, "another", "token", {})


def test_a_cycles_message_names_it(ledger: Ledger, clock: StoppedClock) -> None:
    cycle = planned(ledger)
    clock.advance(REDISPATCH_AFTER)
    (item,) = ledger.work.take_due(limit=9)
    assert item.key == cycle.cycle_id
    message = EvolvePayload.model_validate_json(item.payload or "")
    assert message == EvolvePayload(company=COMPANY, cycle_id=cycle.cycle_id, planned_at=SLOT)


@settings(max_examples=examples(4), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(size=st.integers(1, 5))
def test_pages_follow_each_other_newest_first(ledger: Ledger, size: int) -> None:
    for number in range(9):
        ledger.skill_cycles.plan(COMPANY, origin="scheduled", planned_at=SLOT + number * HOUR, window=WINDOW)
    found: list[Cycle] = []
    while page := ledger.skill_cycles.page(COMPANY, before=found[-1] if found else None, limit=size):
        assert len(page) <= size
        found.extend(page)
    assert [each.planned_at for each in found] == [SLOT + number * HOUR for number in reversed(range(9))]


def test_a_page_has_a_limit(ledger: Ledger) -> None:
    for number in range(MAX_PAGE + 1):
        planned(ledger, number)
    assert len(ledger.skill_cycles.page(COMPANY, limit=10 * MAX_PAGE)) == MAX_PAGE


def test_the_last_that_was_finished_is_known(ledger: Ledger, clock: StoppedClock) -> None:
    older, newer = planned(ledger), planned(ledger, 1)
    assert ledger.skill_cycles.last_finished(COMPANY) is None
    finish_cycle(ledger, COMPANY, newer.cycle_id, {})
    clock.advance(HOUR)
    finish_cycle(ledger, COMPANY, older.cycle_id, {})
    last = present(ledger.skill_cycles.last_finished(COMPANY))
    assert last.cycle_id == older.cycle_id


def test_cycles_are_kept_for_a_while_finished_or_not(ledger: Ledger) -> None:
    made = [planned(ledger, number) for number in range(4)]
    finish_cycle(ledger, COMPANY, made[0].cycle_id, {})
    assert ledger.skill_cycles.expire(COMPANY, before=SLOT + 2 * HOUR) == 2
    assert ledger.skill_cycles.page(COMPANY) == (made[3], made[2])
    assert ledger.skill_cycles.expire(COMPANY, before=SLOT + 2 * HOUR) == 0


def test_a_time_without_a_zone_and_a_company_without_a_name_are_refused(ledger: Ledger) -> None:
    naive = datetime(2026, 3, 1)  # noqa: DTZ001  # the very mistake
    with pytest.raises(MemoryInputError, match="planned_at: needs a time zone"):
        ledger.skill_cycles.plan(COMPANY, origin="manual", planned_at=naive, window=HOUR)
    with pytest.raises(MemoryInputError, match="company"):
        ledger.skill_cycles.plan(" ", origin="manual", planned_at=SLOT, window=HOUR)
