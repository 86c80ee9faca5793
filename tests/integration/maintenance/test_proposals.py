"""Propose mode: what a run proposes, what a person's decision does, and that nothing else is replaced."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

import pytest
from support.fake_summarizer import FakeSummarizer
from support.fault_injection import AT_CALLS, Faults, crash_points
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    FILLER,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    comparable,
    memory,
    uid,
)
from support.present import present

from memcore.config.maintenance import ConsolidationApply, ConsolidationConfig, ConsolidationStrategyType
from memcore.errors import MemoryInputError
from memcore.jobs import Done, Outcome, Skipped, Use
from memcore.ledger.consolidation_groups import ConsolidationGroup, GroupState
from memcore.ledger.runs import Run, RunStep
from memcore.ledger.work_items import WorkState
from memcore.maintenance.consolidation.proposals import CHANGED, shown_groups
from memcore.models.memory import MemoryMetadata
from memcore.records import MemoryRecord

APPROVED: Literal[GroupState.APPROVED] = GroupState.APPROVED
DISMISSED: Literal[GroupState.DISMISSED] = GroupState.DISMISSED
PROPOSED, ADOPTED = GroupState.PROPOSED, GroupState.ADOPTED

#: Three memories to a group; the guard would hold a run that merges two.
POLICY = ConsolidationConfig(
    strategy=ConsolidationStrategyType.CONDENSE,
    apply=ConsolidationApply.PROPOSE,
    group_max_entries=3,
    max_removed_fraction=0.01,
    max_removed_floor=0,
)


async def filled(make: MakeMaintenanceFixture, policy: ConsolidationConfig = POLICY) -> MaintenanceFixture:
    """Three groups of three, the memory that is kept beside them, and one that has expired."""
    world = make(policy)
    await world.store(memory(n, days_old=60 - n, with_vectors=n % 2 == 0) for n in range(1, 11))
    await world.store([memory(11, days_old=1, expires_in_days=-0.5)])
    return world


async def proposing(world: MaintenanceFixture) -> Run:
    planned = world.plan_run()
    outcome = await world.to_the_end(planned.run_id)
    run = world.run(planned.run_id)
    assert isinstance(outcome, Skipped), outcome
    assert (run.state, run.step, run.reason) == (WorkState.HELD, RunStep.ADOPTION, outcome.reason)
    return run


def decide(
    world: MaintenanceFixture,
    run: Run,
    *places: int,
    state: Literal[GroupState.APPROVED, GroupState.DISMISSED] = APPROVED,
) -> None:
    world.ledger.runs.decide_groups(COMPANY, run.run_id, state, by="person:Ada", places=places or None)


async def decided(world: MaintenanceFixture, run: Run, *places: int, **how: Any) -> Outcome:
    decide(world, run, *places, **how)
    return await world.to_the_end(run.run_id)


def groups(world: MaintenanceFixture, run: Run) -> tuple[ConsolidationGroup, ...]:
    return world.ledger.consolidation_groups.of_run(COMPANY, run.run_id)


def states(world: MaintenanceFixture, run: Run) -> list[GroupState]:
    return [group.state for group in groups(world, run)]


@pytest.fixture
async def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return await filled(make_maintenance_fixture)


async def test_a_run_shows_what_it_would_merge_and_removes_only_what_is_due(world: MaintenanceFixture) -> None:
    plan = await world.service().plan(AGENT)
    assert (plan.is_held, plan.is_proposal) == (True, True)
    assert "would propose 3 groups of 9 memories" in plan.reason

    run = await proposing(world)

    assert set(await world.live()) == {uid(n) for n in range(1, 11)}
    assert {name: run.counts[name] for name in ("expired", "consolidated", "planned_consolidated")} == {
        "expired": 1, "consolidated": 0, "planned_consolidated": 9,
    }  # fmt: skip
    assert "proposes 3 groups of 9 memories" in (run.reason or "")
    found = groups(world, run)
    assert [(each.place, each.source_ids) for each in found] == [
        (place + 1, tuple(uid(3 * place + n) for n in (1, 2, 3))) for place in range(3)
    ]
    assert all(each.kept_id == uid(10) and each.summary is not None for each in found)
    shown = await shown_groups(world.ledger, world.backend, run)
    assert [source.content for source in shown[0].sources] == [f"memory number {n}. {FILLER}" for n in (1, 2, 3)]
    assert shown[0].summary == found[0].summary.entry.content if found[0].summary else None
    assert not any(each.has_changed for each in shown)
    await world.check_balance()


async def test_what_is_adopted_is_what_was_shown_and_an_undo_takes_it_back(world: MaintenanceFixture) -> None:
    before = await world.snapshot()
    run = await proposing(world)
    shown = present(groups(world, run)[1].summary)

    assert isinstance(await decided(world, run, 2), Skipped)

    assert world.run(run.run_id).state is WorkState.HELD
    assert states(world, run) == [PROPOSED, ADOPTED, PROPOSED]
    live = await world.live()
    assert set(live) == {*(uid(n) for n in (1, 2, 3, 7, 8, 9, 10)), shown.entry.id}
    assert live[shown.entry.id].entry.content == shown.entry.content
    assert live[shown.entry.id].lineage == shown.lineage
    assert world.ledger.archive.find(COMPANY, AGENT, uid(4)) is not None
    again = world.run(run.run_id)
    assert (again.counts["consolidated"], again.counts["planned_consolidated"]) == (3, 6)
    assert groups(world, run)[1].body is None

    assert isinstance(await decided(world, run), Done)

    assert states(world, run) == [ADOPTED] * 3
    assert (world.run(run.run_id).state, len(await world.live())) == (WorkState.DONE, 4)
    await world.check_balance()
    await world.undo(run.run_id)
    assert await world.snapshot() == before


async def test_a_second_decision_changes_nothing(world: MaintenanceFixture) -> None:
    run = await proposing(world)
    with pytest.raises(MemoryInputError, match="9: no such group is proposed"):
        decide(world, run, 1, 9)
    with pytest.raises(MemoryInputError, match="proposes groups; use `memtend runs adopt`"):
        world.ledger.runs.approve_held(COMPANY, run.run_id)
    assert states(world, run) == [PROPOSED] * 3
    decide(world, run, 1)
    with pytest.raises(MemoryInputError, match="the run is available"):
        decide(world, run, 2)
    await world.to_the_end(run.run_id)
    for state in (APPROVED, DISMISSED):
        with pytest.raises(MemoryInputError, match="1: no such group"):
            decide(world, run, 1, state=state)
    await decided(world, run)
    before = await world.snapshot()
    with pytest.raises(MemoryInputError, match="the run is done"):
        decide(world, run)
    await world.to_the_end(run.run_id)
    assert await world.snapshot() == before


async def _delete(world: MaintenanceFixture) -> None:
    await world.backend.delete_many(AGENT, [uid(2)])


def _replaced(number: int, **entry: Any) -> Callable[[MaintenanceFixture], Any]:
    async def store(world: MaintenanceFixture) -> None:
        there = (await world.live())[uid(number)]
        await world.backend.delete_many(AGENT, [uid(number)])
        await world.backend.store_many([MemoryRecord(entry=there.entry.model_copy(update=entry), extra=there.extra)])

    return store


PINNED = MemoryMetadata(source="test", tags=("pinned",))
CHANGES = {
    "changed": _replaced(2, content="another text"),
    "pinned": _replaced(2, metadata=PINNED),
    "removed": _delete,
    "the one beside it changed": _replaced(10, content="another text"),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_group_that_is_no_longer_as_shown_stays_and_says_so(world: MaintenanceFixture, change: str) -> None:
    run = await proposing(world)
    await CHANGES[change](world)
    shown, *_ = await shown_groups(world.ledger, world.backend, run)
    assert shown.has_changed
    before = await world.snapshot()

    assert isinstance(await decided(world, run, 1), Skipped)

    assert await world.snapshot() == before
    assert (groups(world, run)[0].state, groups(world, run)[0].reason) == (PROPOSED, CHANGED)


async def test_a_dismissed_group_is_not_proposed_again_and_the_next_slot_looks_anew(world: MaintenanceFixture) -> None:
    first = await proposing(world)
    await decided(world, first, 1, state=DISMISSED)
    assert states(world, first) == [DISMISSED, PROPOSED, PROPOSED]
    world.clock.turn(timedelta(days=1))

    second = await proposing(world)

    assert [each.source_ids[0] for each in groups(world, second)] == [uid(4), uid(7)]
    assert (world.run(first.run_id).state, states(world, first)) == (WorkState.DISMISSED, [DISMISSED])
    world.ledger.runs.dismiss(COMPANY, second.run_id, by="person:Ada")
    assert states(world, second) == [DISMISSED] * 2
    assert all(each.body is None for each in groups(world, second))
    third = await world.maintenance_run()
    assert (third.counts["consolidated"], groups(world, third)) == (0, ())
    world.ledger.consolidation_groups.expire(COMPANY, before=world.clock())
    assert len(groups(world, await proposing(world))) == 3, "decisions are kept as long as the journal"


async def test_a_proposal_goes_when_the_next_run_finds_nothing_to_propose(world: MaintenanceFixture) -> None:
    run = await proposing(world)
    await world.backend.delete_many(AGENT, [uid(n) for n in range(2, 11)])
    await world.maintenance_run()
    assert (world.run(run.run_id).state, groups(world, run)) == (WorkState.DISMISSED, ())


@pytest.mark.parametrize("flips", [False, True])
async def test_a_run_waits_for_the_model_then_proposes_what_it_wrote(
    make_maintenance_fixture: MakeMaintenanceFixture, flips: bool
) -> None:
    policy = POLICY.model_copy(update={"strategy": ConsolidationStrategyType.LLM})
    world = await filled(make_maintenance_fixture, policy)
    world.model = FakeSummarizer()
    planned = world.plan_run()
    await world.service().run(planned.run_id)
    assert world.run(planned.run_id).step is RunStep.PROPOSAL
    if flips:
        # Nobody judged the run under the guard: it must not merge because the policy has changed meanwhile.
        world.policy = world.policy.model_copy(update={"apply": ConsolidationApply.AUTO})

    assert isinstance(await world.to_the_end(planned.run_id), Skipped)

    run = world.run(planned.run_id)
    assert (run.step, len(await world.live())) == (RunStep.ADOPTION, 10)
    before = [each.summary.entry.content for each in groups(world, run) if each.summary]
    assert len(before) == len(groups(world, run)) > 0
    asked = len(world.model.asked)
    await decided(world, run)
    assert sorted(each.entry.content for each in await world.summaries()) == sorted(before)
    assert len(world.model.asked) == asked, "what was shown is adopted, and nobody is asked again"


async def test_a_run_that_was_allowed_to_be_large_proposes_too(world: MaintenanceFixture) -> None:
    planned = world.plan_run(allow_large=True)
    assert isinstance(await world.to_the_end(planned.run_id), Skipped)
    assert (world.run(planned.run_id).step, len(await world.live())) == (RunStep.ADOPTION, 10)


async def test_the_limit_waits_for_the_decision_and_then_removes_what_was_shown(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = await filled(make_maintenance_fixture, POLICY.model_copy(update={"max_memories_per_agent": 3}))
    run = await proposing(world)
    assert (run.counts["planned_consolidated"], run.counts["planned_enforced"]) == (9, 1)
    assert len(await world.live()) == 10
    await decided(world, run, 1, 2)
    assert (len(await world.live()), world.run(run.run_id).counts["enforced"]) == (6, 0)

    assert isinstance(await decided(world, run, 3, state=DISMISSED), Done)

    # Three are over it now, and a person was shown one.
    assert (len(await world.live()), world.run(run.run_id).counts["enforced"]) == (5, 1)


async def test_the_limit_is_under_the_guard_where_nothing_is_proposed(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = await filled(make_maintenance_fixture, POLICY.model_copy(update={"max_memories_per_agent": 3}))
    world.ledger.runs.dismiss(COMPANY, (await proposing(world)).run_id, by="person:Ada")

    planned = world.plan_run()
    assert isinstance(await world.to_the_end(planned.run_id), Skipped)

    run = world.run(planned.run_id)
    assert (run.state, run.step, run.counts["planned_enforced"]) == (WorkState.HELD, RunStep.CONSOLIDATION, 7)
    world.ledger.runs.approve_held(COMPANY, run.run_id)
    assert isinstance(await world.to_the_end(run.run_id), Done)
    assert len(await world.live()) == 3


async def test_a_repetition_keeps_its_words_tags_and_uses(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(POLICY.model_copy(update={"strategy": ConsolidationStrategyType.DEDUPE}))
    text = "Ada is allergic to peanuts and to nothing else"
    await world.store([memory(n, content=text, tags=(f"tag-{n}",), days_old=30 - n) for n in (1, 2)])
    world.ledger.uses.count(
        COMPANY, "batch", [Use(agent_id=AGENT, memory_id=uid(1), uses=3, last_used_at=world.clock())]
    )
    run = await proposing(world)
    (group,) = groups(world, run)
    assert not world.ledger.uses.of(COMPANY, AGENT, [group.summary_id or ""])

    await decided(world, run)

    ((memory_id, merged),) = (await world.live()).items()
    assert (merged.entry.content, set(merged.entry.metadata.tags)) == (text, {"tag-1", "tag-2"})
    assert world.ledger.uses.of(COMPANY, AGENT, [memory_id])[memory_id].uses == 3


@pytest.mark.slow(because="dozens of crashes, each with the run that follows")
@pytest.mark.parametrize("is_after", AT_CALLS)
@pytest.mark.parametrize("places", [None, (), (1, 3)], ids=["proposing", "adopting all", "adopting two"])
async def test_a_crash_at_any_call_loses_nothing_and_adopts_what_was_shown(
    make_maintenance_fixture: MakeMaintenanceFixture, places: tuple[int, ...] | None, is_after: bool
) -> None:
    world = await filled(make_maintenance_fixture, POLICY.model_copy(update={"max_memories_per_agent": 3}))
    first = await world.snapshot()
    if places is None:
        run = world.plan_run()
    else:
        run = await proposing(world)
        decide(world, run, *places)
    go_back = world.keep()
    faultless = Faults()
    await world.watched(faultless).run(run.run_id)
    after, end, shown = await world.snapshot(), world.run(run.run_id), groups(world, run)
    assert end.state is (WorkState.DONE if places == () else WorkState.HELD)
    assert len(faultless.calls) >= 20, "the scenario has become too small to mean anything"

    for point in crash_points(faultless.calls):
        go_back()
        await world.crash(run.run_id, Faults(point, is_after=is_after))

        await world.to_the_end(run.run_id)

        found, where = world.run(run.run_id), (point, faultless.calls[point])
        assert (found.state, found.step, found.counts) == (end.state, end.step, end.counts), where
        assert await world.snapshot() == after, where
        assert [(each.source_ids, each.state) for each in groups(world, run)] == [
            (each.source_ids, each.state) for each in shown
        ], where
        await world.check_balance()
        await world.undo(run.run_id)
        assert await world.snapshot() == first, where


async def test_a_memory_that_changes_while_it_is_adopted_is_not_lost(world: MaintenanceFixture) -> None:
    run = await proposing(world)
    decide(world, run, 1)
    go_back = world.keep()
    faultless = Faults()
    await world.watched(faultless).run(run.run_id)
    claimed = faultless.calls.index("backend.claim")
    for point in range(claimed + 1):
        go_back()
        faults = Faults(point, strike=lambda: CHANGES["changed"](world))
        await world.watched(faults).run(run.run_id)
        changed = (await world.live())[uid(2)]
        assert changed.entry.content == "another text", (point, faultless.calls[point])
        assert comparable(changed)
        assert states(world, run)[0] is PROPOSED
