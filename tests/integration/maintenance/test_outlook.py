"""An outlook under another policy names exactly the memories that a run under it then takes, and changes nothing."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fake_summarizer import FakeSummarizer
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    START,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    memory,
    opened_world,
    uid,
)
from support.random_histories import POLICIES, PRUNINGS, stores
from support.thorough import examples

from memcore.config.maintenance import ConsolidationConfig, PruningConfig
from memcore.jobs import Use
from memcore.ledger.runs import RunStep
from memcore.records import MemoryRecord

#: Strategies that ask nobody.
STRATEGIES = ("dedupe", "condense", "simple", "none")

STEP_OF = {"consolidated": RunStep.CONSOLIDATION, "enforced": RunStep.ENFORCEMENT}


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(
    records=stores(),
    said=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5)), max_size=12),
    policy=POLICIES,
    pruning=PRUNINGS,
    fraction=st.sampled_from([0.3, 1.0]),
    used=st.integers(0, 3),
)
@settings(max_examples=examples(13))
def test_the_run_takes_what_the_outlook_names(
    ledger_template: Path,
    strategy: str,
    records: list[MemoryRecord],
    said: list[tuple[int, int]],
    policy: ConsolidationConfig,
    pruning: PruningConfig | None,
    fraction: float,
    used: int,
) -> None:
    facts = ("The door code is 4711.", "The door code is 4711 today.", "Rosa leads the north team.", "Tea is at four.")
    again = [
        memory(500 + place, days_old=10 + days, content=facts[fact - 1]) for place, (fact, days) in enumerate(said)
    ]
    more = {"strategy": strategy, "max_removed_fraction": fraction}
    with opened_world(ledger_template) as world:
        world.pruning = pruning
        world.policy = ConsolidationConfig.model_validate({**dict(policy), **more})
        asyncio.run(_foreseen_then_done(world, [*records, *again], used=used))


async def _foreseen_then_done(world: MaintenanceFixture, records: list[MemoryRecord], *, used: int) -> None:
    await world.store(records)
    for record in records[:used]:
        use = Use(agent_id=AGENT, memory_id=record.entry.id, uses=4, last_used_at=START)
        world.ledger.uses.count(COMPANY, f"batch of {record.entry.id}", [use])
    before = await world.snapshot()

    outlook = await world.service().foresee(AGENT)

    assert await world.snapshot() == before
    planned = world.plan_run()
    await world.to_the_end(planned.run_id)
    entries = world.ledger.journal.journal_entries(planned.run_id)
    taken = {
        record.entry.id: STEP_OF.get(entry.reason, RunStep.RETENTION) for entry in entries for record in entry.outgoing
    }
    assert outlook.gone == taken
    live = await world.live()
    assert {each.entry.id for each in outlook.summaries} - outlook.gone.keys() == live.keys() - before.keys()
    assert outlook.after == len(live)
    assert outlook.stops == world.run(planned.run_id).reason
    assert outlook.live == len(before)


async def test_what_stands_for_repetitions_is_used_as_often_as_they_were(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(
        ConsolidationConfig(strategy="dedupe", max_memories_per_agent=1, max_removed_fraction=1.0)
    )
    texts = ("Rosa leads the north team.", "Rosa leads the north team.", "Igor leads the south team.")
    await world.store(memory(n, days_old=30, content=text) for n, text in enumerate(texts, 1))
    for number, uses in ((1, 3), (2, 3), (3, 4)):
        use = Use(agent_id=AGENT, memory_id=uid(number), uses=uses, last_used_at=START)
        world.ledger.uses.count(COMPANY, f"batch {number}", [use])

    outlook = await world.service().foresee(AGENT)

    assert outlook.gone[uid(3)] is RunStep.ENFORCEMENT
    await world.maintenance_run()
    (left,) = (await world.live()).values()
    assert left.entry.content == texts[0]


async def test_what_a_model_is_asked_about_is_counted_apart(
    make_maintenance_fixture: MakeMaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    world = make_maintenance_fixture(ConsolidationConfig(strategy="llm", max_removed_fraction=1.0, min_new=1))
    world.model = fake_summarizer
    await world.store(memory(n, days_old=200 - n) for n in range(1, 5))

    outlook = await world.service().foresee(AGENT)

    assert (outlook.asking, dict(outlook.gone), outlook.after) == (1, {}, 4)
    assert not fake_summarizer.asked
