"""Undo of any run, whatever later runs, undos, ends and agents have done since."""

import asyncio
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from support.fake_summarizer import FakeSummarizer
from support.maintenance_fixture import MaintenanceFixture, memory, opened_world
from support.random_histories import HISTORIES, POLICIES, Step, stores
from support.thorough import examples
from support.undo_checks import run_and_record, undo_and_check

from memcore.config.maintenance import ConsolidationConfig
from memcore.records import MemoryRecord


@given(records=stores(), policy=POLICIES, history=HISTORIES, pick=st.integers(0, 99))
@settings(max_examples=examples(6))
def test_an_undo_reverses_what_nobody_has_touched_since_and_lists_the_rest(
    ledger_template: Path,
    records: list[MemoryRecord],
    policy: ConsolidationConfig,
    history: list[Step],
    pick: int,
) -> None:
    with opened_world(ledger_template, policy) as world:
        world.model = FakeSummarizer()
        asyncio.run(_run_and_undone(world, records, [Step(act="night"), *history], pick))


async def _run_and_undone(
    world: MaintenanceFixture, records: list[MemoryRecord], history: list[Step], pick: int
) -> None:
    await world.store(records)
    recorded_run = await run_and_record(world, history)
    await undo_and_check(world, recorded_run[pick % len(recorded_run)])


async def test_what_a_later_run_decided_anew_is_left_alone_by_plan_and_undo(world: MaintenanceFixture) -> None:
    history = [Step(act="night"), Step(act="undo"), Step(act="night", days=2)]
    await _run_and_undone(world, [memory(number, days_old=40 - number) for number in range(1, 6)], history, 0)
