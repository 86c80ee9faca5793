"""Slots: fixed, spread, and always ahead."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.errors import MemoryInputError
from memcore.ledger.agents import LENGTHS, first_due, next_slot
from memcore.models.memory import ConsolidationInterval

moments = st.timedeltas(timedelta(0), timedelta(days=40_000)).map(lambda age: datetime(1990, 1, 1, tzinfo=UTC) + age)
intervals = st.sampled_from(sorted(LENGTHS))


@given(key=st.text(), interval=intervals, after=moments)
def test_the_next_slot_lies_ahead_by_at_most_one_interval(
    key: str, interval: ConsolidationInterval, after: datetime
) -> None:
    slot = next_slot(key, interval, after)
    assert after < slot <= after + LENGTHS[interval]
    assert slot.microsecond == 0


@given(key=st.text(), interval=intervals, after=moments)
def test_slots_follow_each_other_at_the_interval(key: str, interval: ConsolidationInterval, after: datetime) -> None:
    slot = next_slot(key, interval, after)
    assert next_slot(key, interval, slot) == slot + LENGTHS[interval]
    assert next_slot(key, interval, slot - timedelta(microseconds=1)) == slot


def test_a_slot_is_the_same_on_every_machine_and_in_every_release() -> None:
    after = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert next_slot("4:acme/ada", ConsolidationInterval.DAILY, after) == datetime(2026, 3, 2, 11, 3, 44, tzinfo=UTC)


def test_agents_are_spread_over_the_interval() -> None:
    after = datetime(2026, 3, 1, tzinfo=UTC)
    slots = [next_slot(f"agent-{number}", ConsolidationInterval.HOURLY, after) for number in range(6000)]
    per_minute = Counter(slot.minute for slot in slots)
    assert len(per_minute) == 60
    assert max(per_minute.values()) < 2 * 100
    assert min(per_minute.values()) > 100 // 2


def test_never_has_no_slots() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    assert first_due("acme", "ada", ConsolidationInterval.NEVER, now) is None
    with pytest.raises(MemoryInputError, match="never"):
        next_slot("key", ConsolidationInterval.NEVER, now)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(MemoryInputError, match="zone"):
        next_slot("key", ConsolidationInterval.DAILY, datetime(2026, 3, 1))  # noqa: DTZ001  # the very mistake
