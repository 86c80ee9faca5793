"""A source is distrusted: all that came of it is known, and the clean memories that merges have taken come back."""

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from integration.maintenance.test_origins import POLICIES, Model, Step
from support.fake_summarizer import FakeSummarizer
from support.ledger_records import copied_urls
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    FILLER,
    SHARED_MEMORY,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    memory,
    uid,
)
from support.thorough import examples

from memcore.config.maintenance import ConsolidationApply, ConsolidationConfig, ConsolidationStrategyType
from memcore.config.policy import Policy
from memcore.errors import MemoryInputError, MemoryStoreError
from memcore.jobs import Done, Skipped
from memcore.ledger.access.distrusts import Distrust
from memcore.ledger.consolidation_groups import GroupState
from memcore.ledger.erasure.reach import reach_of
from memcore.ledger.organization.audit import Confirmation
from memcore.ledger.runs import Run
from memcore.ledger.work_items import WorkState
from memcore.maintenance.consolidation.proposals import shown_groups
from memcore.memories import Memories
from memcore.models.distrust import DistrustRule
from memcore.models.origin import Channel, Origin
from memcore.records import ORIGIN_KEY, MemoryRecord, Where

WORD = Confirmation(actor="grace", confirm=True, reason="its site was taken over")
SCRAPER = DistrustRule(principal="scraper")


def by(record: MemoryRecord, principal: str, *, source: str = "test") -> MemoryRecord:
    """Return a memory as a key's tool wrote it."""
    origin = Origin(channels=(Channel.TOOL,), principals=(principal,))
    entry = record.entry.model_copy(update={"metadata": record.entry.metadata.model_copy(update={"source": source})})
    return MemoryRecord(entry=entry, lineage=record.lineage, extra={**record.extra, ORIGIN_KEY: origin.stored()})


async def merged(world: MaintenanceFixture) -> frozenset[str]:
    """Merge memories of two keys, twice over, and return the ids of the scraper's."""
    tainted = [by(memory(n, days_old=40 - n), "scraper", source="crawler") for n in (3, 9)]
    clean = [by(memory(n, days_old=40 - n), "reader") for n in (*range(1, 3), *range(4, 9), *range(10, 15))]
    await world.store([*clean, *tainted])
    await world.maintenance_run()
    (summary,) = await world.summaries()
    assert {record.entry.id for record in tainted} < {*summary.lineage.summary_of}
    # And once more: with what came later.
    await world.store(by(memory(n, days_old=25), "reader") for n in range(20, 32))
    world.clock.turn(timedelta(days=10))
    await world.maintenance_run()
    return frozenset(record.entry.id for record in tainted)


async def restored(world: MaintenanceFixture, rule: DistrustRule) -> tuple[Distrust, Run]:
    distrust = world.ledger.distrusts.add(COMPANY, rule, WORD)
    run = world.plan_run(kind="restore", scope_id=distrust.distrust_id)
    await world.to_the_end(run.run_id)
    return distrust, world.run(run.run_id)


@pytest.mark.parametrize(
    "rule", [SCRAPER, DistrustRule(source="crawler"), DistrustRule(agent_id=AGENT, memory_id=uid(3))]
)
async def test_what_was_merged_with_it_comes_back_as_it_was(world: MaintenanceFixture, rule: DistrustRule) -> None:
    tainted = await merged(world)
    before = await world.snapshot()
    reach = reach_of(world.ledger, COMPANY, AGENT, rule)
    wanted = {uid(3)} if rule.memory_id else tainted
    # Both of them, and the merges that they went into.
    assert wanted < reach.memory_ids
    assert {*before} & reach.memory_ids == {each.entry.id for each in await world.summaries()} & reach.memory_ids
    assert {*before} & reach.memory_ids

    merges = [each for each in await world.summaries() if each.entry.id in reach.memory_ids]
    clean = {source for each in merges for source in each.lineage.summary_of} - reach.memory_ids
    assert len(clean) > 5

    distrust, run = await restored(world, rule)

    assert run.state is WorkState.DONE
    after = await world.live()
    assert clean <= {*after}
    assert wanted.isdisjoint(after)
    assert run.counts == {"restored": len(after) - len(before)}
    gone = world.all_journaled()
    assert all(after[each].entry == gone[each].entry for each in clean)
    assert world.ledger.distrusts.reached(COMPANY, distrust.distrust_id) == {AGENT: reach.memory_ids}
    await world.check_balance()

    # The next run leaves what came back alone.
    world.clock.turn(timedelta(hours=12))
    await world.maintenance_run()
    assert clean <= {*await world.live()}
    world.ledger.distrusts.lift(COMPANY, distrust.distrust_id, WORD)
    await world.undo(run.run_id)
    assert await world.snapshot() == before

    # Distrusted once more, they come back once more.
    await restored(world, rule)
    assert {*await world.live()} == {*after}
    await world.check_balance()


async def test_what_an_undo_of_an_undo_merges_again_comes_back(world: MaintenanceFixture) -> None:
    await world.store(by(memory(n, days_old=40 - n), "scraper" if n == 3 else "reader") for n in range(1, 15))
    merge = await world.maintenance_run()
    undo = await world.undo(merge.run_id)
    await world.undo(undo.run_id)
    (summary,) = await world.summaries()
    await restored(world, SCRAPER)
    assert {*summary.lineage.summary_of} - {uid(3)} <= {*await world.live()}


async def test_later_runs_merge_the_clean_memories_without_what_is_distrusted(world: MaintenanceFixture) -> None:
    await merged(world)
    distrust, run = await restored(world, DistrustRule(source="crawler"))
    reached = world.ledger.distrusts.reached(COMPANY, distrust.distrust_id)[AGENT]
    await world.store(
        by(memory(n, days_old=9), "reader", source="crawler" if n % 3 == 0 else "test") for n in range(40, 52)
    )
    before = {*await world.live()}
    world.clock.turn(timedelta(days=40))
    await world.maintenance_run()
    hidden = world.ledger.hidden.of(COMPANY)
    made = {memory_id: each for memory_id, each in (await world.live()).items() if memory_id not in before}
    assert made
    for each in made.values():
        assert not hidden.distrusts_memory(each.entry)
        assert reached.isdisjoint(each.lineage.summary_of)
    live = {*await world.live()}
    assert {uid(n) for n in (42, 45, 48, 51)} <= live
    assert run.counts["restored"]


async def test_what_is_distrusted_keeps_no_clean_memory_from_being_merged(world: MaintenanceFixture) -> None:
    world.ledger.distrusts.add(COMPANY, DistrustRule(source="crawler"), WORD)
    await world.store(
        by(memory(n, days_old=40), "reader", source="crawler" if n == 5 else "test") for n in range(1, 12)
    )
    await world.maintenance_run()
    (summary,) = await world.summaries()
    assert {uid(n) for n in range(1, 10) if n != 5} <= {*summary.lineage.summary_of}
    assert uid(5) in await world.live()


async def test_an_attempt_goes_on_where_the_last_one_stopped(
    world: MaintenanceFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memcore.maintenance.distrust.MAX_ENTRY", 5)
    await merged(world)
    distrust = world.ledger.distrusts.add(COMPANY, SCRAPER, WORD)
    run = world.plan_run(kind="restore", scope_id=distrust.distrust_id)
    store_many, times = world.backend.store_many, iter(range(100))

    async def failing(records: object) -> None:
        if next(times) == 1:
            raise MemoryStoreError("the disk is full")
        await store_many(records)  # type: ignore[arg-type]  # as it was given

    monkeypatch.setattr(world.backend, "store_many", failing)
    assert not isinstance(await world.service().run(run.run_id), Done)
    monkeypatch.setattr(world.backend, "store_many", store_many)
    assert isinstance(await world.to_the_end(run.run_id), Done)
    entries = world.ledger.lineage.of_run(run.run_id)
    assert len(entries) > 2
    assert sorted(each for entry in entries for each in entry.incoming) == sorted(
        {each for entry in entries for each in entry.incoming}
    )
    await world.check_balance()


async def test_what_a_person_deleted_with_its_summary_stays_away(world: MaintenanceFixture) -> None:
    await merged(world)
    memories = Memories(world.backend, world.ledger, company=COMPANY, policy=Policy(), clock=world.clock)
    await world.backend.connect()
    reach = reach_of(world.ledger, COMPANY, AGENT, SCRAPER)
    for summary in await world.summaries():
        if summary.entry.id in reach.memory_ids:
            await memories.forget(AGENT, summary.entry.id)
    assert reach_of(world.ledger, COMPANY, AGENT, SCRAPER).taken == {}
    run = world.plan_run(kind="restore", scope_id=world.ledger.distrusts.add(COMPANY, SCRAPER, WORD).distrust_id)
    assert isinstance(await world.to_the_end(run.run_id), Skipped)


async def test_what_is_trusted_again_brings_nothing_back(world: MaintenanceFixture) -> None:
    await merged(world)
    distrust = world.ledger.distrusts.add(COMPANY, SCRAPER, WORD)
    world.ledger.distrusts.lift(COMPANY, distrust.distrust_id, WORD)
    run = world.plan_run(kind="restore", scope_id=distrust.distrust_id)
    assert isinstance(await world.to_the_end(run.run_id), Skipped)


HISTORIES = st.lists(
    st.builds(
        Step,
        act=st.sampled_from(["put", "put", "put", "edit", "supersede", "run", "run"]),
        channel=st.sampled_from([Channel.PERSON, Channel.AGENT, Channel.TOOL, Channel.DOCUMENT]),
        text=st.sampled_from(
            [*("The queue pages at 500.", "Note: the queue pages at 500."), *(f"Day {n}. {FILLER}" for n in range(6))]
        ),
        pick=st.integers(0, 99),
    ),
    min_size=6,
    max_size=16,
)


@given(policy=POLICIES, history=HISTORIES, channel=st.sampled_from([Channel.TOOL, Channel.DOCUMENT, Channel.AGENT]))
@settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_after_any_history_what_is_shown_is_what_the_others_have_said(
    ledger_template: Path, tmp_path: Path, policy: ConsolidationConfig, history: list[Step], channel: Channel
) -> None:
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else tmp_path
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        world = MaintenanceFixture(copied_urls(ledger_template, Path(folder) / "ledger"), policy)
        world.model = FakeSummarizer()
        try:
            asyncio.run(_distrusted(world, history, channel))
        finally:
            world.ledger.close()


async def _distrusted(world: MaintenanceFixture, history: list[Step], channel: Channel) -> None:
    await world.backend.connect()
    memories = Memories(world.backend, world.ledger, company=COMPANY, policy=Policy(), clock=world.clock)
    model = Model(world=world, memories=memories)
    for step in history:
        try:
            await model.play(step)
        except MemoryInputError:
            await model.check()
    before = await world.snapshot()
    distrust, run = await restored(world, DistrustRule(channel=channel))
    of_it = {memory_id for memory_id, channels in model.made_of.items() if channel in channels}

    reached = world.ledger.distrusts.reached(COMPANY, distrust.distrust_id).get(AGENT, frozenset())
    # What is in the store tells by itself; what has left it is known by its id.
    known = {*world.all_journaled(), *reached}
    assert reached == of_it & known
    hidden = world.ledger.hidden.of(COMPANY)
    live = await world.live()
    for memory_id, record in live.items():
        assert hidden.distrusts_memory(record.entry) == (memory_id in of_it)
    for record in [*live.values(), *world.all_journaled().values()]:
        if record.entry.id in of_it:
            # Each clean memory that it was made of is shown again.
            assert {each for each in record.lineage.summary_of if each not in of_it} <= {*live}
    if run.state is WorkState.DONE:
        world.ledger.distrusts.lift(COMPANY, distrust.distrust_id, WORD)
        await world.undo(run.run_id)
    assert await world.snapshot() == before


PROPOSING = ConsolidationConfig(
    strategy=ConsolidationStrategyType.CONDENSE, apply=ConsolidationApply.PROPOSE, group_max_entries=3
)


async def test_no_approval_merges_what_is_distrusted_by_then(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(PROPOSING)
    await world.store(memory(n, days_old=60 - n) for n in range(1, 11))
    run = world.plan_run()
    await world.to_the_end(run.run_id)
    groups = world.ledger.consolidation_groups
    tainted, *_ = [each for each in groups.of_run(COMPANY, run.run_id) if uid(2) in each.source_ids]
    assert all(each.summary for each in await shown_groups(world.ledger, world.backend, run))
    distrust = world.ledger.distrusts.add(COMPANY, DistrustRule(agent_id=AGENT, memory_id=uid(2)), WORD)
    world.ledger.distrusts.reach(COMPANY, distrust.distrust_id, AGENT, [uid(2)])

    # Its text is in the summary that was proposed.
    shown = {each.group: each.summary is None for each in await shown_groups(world.ledger, world.backend, run)}
    assert shown == {each.place: each.place == tainted.place for each in groups.of_run(COMPANY, run.run_id)}

    world.ledger.runs.decide_groups(COMPANY, run.run_id, GroupState.APPROVED, by="person:Ada")
    await world.to_the_end(run.run_id)
    states = {each.place: each.state for each in groups.of_run(COMPANY, run.run_id)}
    assert states.pop(tainted.place) is GroupState.PROPOSED
    assert set(states.values()) == {GroupState.ADOPTED}
    assert {*tainted.source_ids} <= {*await world.live()}
    await world.check_balance()


async def test_a_run_merges_nothing_that_is_distrusted_while_it_works(
    world: MaintenanceFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.store(memory(n, days_old=60 - n) for n in range(1, 11))
    claim = world.backend.claim

    async def distrusting(where: Where, token: str) -> int:
        if not world.ledger.distrusts.in_force(COMPANY):
            world.ledger.distrusts.add(COMPANY, DistrustRule(agent_id=AGENT, memory_id=uid(2)), WORD)
        return await claim(where, token)

    monkeypatch.setattr(world.backend, "claim", distrusting)
    await world.to_the_end(world.plan_run().run_id)
    assert uid(2) in await world.live()
    assert [each for each in await world.summaries() if uid(2) in each.lineage.summary_of] == []
    await world.check_balance()


async def test_what_another_distrust_gives_back_stays_when_one_is_lifted(world: MaintenanceFixture) -> None:
    await merged(world)
    first, run = await restored(world, SCRAPER)
    clean = {*await world.live()} - reach_of(world.ledger, COMPANY, AGENT, SCRAPER).memory_ids
    # All is back already.
    second, later = await restored(world, DistrustRule(source="crawler"))
    assert later.state is WorkState.SKIPPED

    world.ledger.distrusts.lift(COMPANY, first.distrust_id, WORD)
    await world.undo(run.run_id)

    # The second one hides what they went into.
    hidden = world.ledger.hidden.of(COMPANY)
    assert clean == {each for each, record in (await world.live()).items() if not hidden.distrusts_memory(record.entry)}
    await world.check_balance()
    assert world.ledger.distrusts.in_force(COMPANY) == (world.ledger.distrusts.get(COMPANY, second.distrust_id),)
