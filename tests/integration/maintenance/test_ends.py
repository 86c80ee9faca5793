"""The end of sessions, projects and tasks: asked for, or by silence."""

import itertools
from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fault_injection import Faults, crash_points
from support.maintenance_fixture import AGENT, COMPANY, START, MaintenanceFixture, MakeMaintenanceFixture, memory, uid
from support.thorough import examples

from memcore.backends.inmemory import InMemoryBackend
from memcore.config.maintenance import ConsolidationConfig, RetentionConfig, RetentionRule
from memcore.config.memory import MemoryOptionsConfig
from memcore.jobs import Deferred, Done, Skipped
from memcore.ledger.agents import AgentSpec
from memcore.ledger.runs import EndKind
from memcore.ledger.work_items import WorkState
from memcore.maintenance.rules import EndedScopes, Timeouts
from memcore.models.memory import MemoryCategory, MemoryLevel
from memcore.records import Lineage, MemoryRecord, Where

#: Much of an agent's memory ends with its session, and no removal guard may hold that.
HELD_BY_GUARD = ConsolidationConfig(max_removed_fraction=0.01, max_removed_floor=0)

HOURS = 1 / 24


def made_in(
    number: int,
    *,
    session: str | None = None,
    project: str | None = None,
    task: str | None = None,
    hours_old: float = 1.0,
    category: MemoryCategory = MemoryCategory.SEMANTIC,
) -> MemoryRecord:
    lineage = Lineage(session_id=session, project_id=project, task_id=task)
    return memory(number, days_old=hours_old * HOURS, category=category, lineage=lineage)


async def numbers(world: MaintenanceFixture) -> set[int]:
    live = await world.live()
    return {number for number in range(100) if uid(number) in live}


def everything() -> Iterable[MemoryRecord]:
    """A fact and a working memory in each scope, in another one, and in none."""
    count = itertools.count(1)
    for category in (MemoryCategory.SEMANTIC, MemoryCategory.WORKING):
        for scope in (
            Lineage(),
            Lineage(session_id="x"),
            Lineage(project_id="x"),
            Lineage(task_id="x"),
            Lineage(session_id="y", project_id="y"),
        ):
            yield memory(next(count), days_old=HOURS, category=category, lineage=scope)


#: The facts are 1 to 5, the working memories 6 to 10: in none, session x, project x, task x, session and project y.
@pytest.fixture
def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return make_maintenance_fixture(HELD_BY_GUARD)


@pytest.mark.parametrize(
    ("level", "kind", "gone"),
    [
        (MemoryLevel.PERSISTENT, "end_session", {7}),
        (MemoryLevel.PERSISTENT, "end_project", {8}),
        (MemoryLevel.PERSISTENT, "end_task", {9}),
        (MemoryLevel.PROJECT, "end_session", {7}),
        (MemoryLevel.PROJECT, "end_project", {3, 8}),
        (MemoryLevel.PROJECT, "end_task", {9}),
        (MemoryLevel.SESSION, "end_session", {2, 7}),
        (MemoryLevel.SESSION, "end_project", {3, 8}),
        (MemoryLevel.SESSION, "end_task", {9}),
        (MemoryLevel.NONE, "end_session", {7}),
    ],
)
async def test_an_end_takes_what_was_to_live_no_longer_and_an_undo_brings_it_back(
    world: MaintenanceFixture, level: MemoryLevel, kind: EndKind, gone: set[int]
) -> None:
    world.level = level
    await world.store(everything())
    before = await world.snapshot()

    run = await world.end(kind, "x")

    assert await numbers(world) == set(range(1, 11)) - gone
    assert run.counts == {"ended": len(gone)}
    assert {journal_entry.reason for journal_entry in world.ledger.journal.journal_entries(run.run_id)} == {"ended"}
    await world.check_balance()

    await world.undo(run.run_id)

    assert await world.snapshot() == before
    await world.check_balance()


async def test_the_agents_own_level_decides(world: MaintenanceFixture) -> None:
    world.ledger.agents.put(AgentSpec(company=COMPANY, agent_id=AGENT, level=MemoryLevel.SESSION))
    await world.store([made_in(1, session="s"), made_in(2, session="t")])

    await world.end("end_session", "s")

    assert await numbers(world) == {2}


async def test_ending_twice_or_what_nobody_knows_is_harmless(world: MaintenanceFixture) -> None:
    world.level = MemoryLevel.SESSION
    await world.store([made_in(1, session="s"), made_in(2, session="t")])

    first = await world.end("end_session", "s")
    assert isinstance(await world.service().run(first.run_id), Skipped)
    assert (await world.end("end_session", "s")).counts == {"ended": 0}
    assert (await world.end("end_session", "never")).counts == {"ended": 0}

    assert await numbers(world) == {2}
    await world.check_balance()


async def test_what_was_made_after_the_end_was_asked_for_stays(world: MaintenanceFixture) -> None:
    world.level = MemoryLevel.SESSION
    await world.store([made_in(1, session="s")])
    run = world.plan_run(kind="end_session", scope_id="s")
    await world.store([made_in(2, session="s", hours_old=-1)])

    await world.to_the_end(run.run_id)

    assert await numbers(world) == {2}


@pytest.mark.parametrize("level", [MemoryLevel.SESSION, MemoryLevel.PROJECT])
async def test_a_store_that_came_after_the_end_had_run_goes_with_the_next_run(
    world: MaintenanceFixture, level: MemoryLevel
) -> None:
    world.level = level
    await world.store([made_in(1, session="s", project="s")])
    await world.end("end_session" if level is MemoryLevel.SESSION else "end_project", "s")
    late, later = made_in(2, session="s", project="s"), made_in(3, session="s", project="s", hours_old=-1)
    await world.store([late, later, made_in(4)])
    plan = await world.service().plan(AGENT)

    maintenance_run = await world.maintenance_run()

    assert (plan.removed, plan.is_held, maintenance_run.counts["ended"]) == (1, False, 1)
    assert await numbers(world) == {3, 4}
    await world.check_balance()


async def test_what_an_undone_end_brought_back_stays_after_its_hold_has_ended(world: MaintenanceFixture) -> None:
    world.level = MemoryLevel.SESSION
    await world.store([made_in(1, session="s")])
    run = await world.end("end_session", "s")
    await world.undo(run.run_id)
    world.clock.turn(timedelta(days=world.policy.restored_hold_days + 1))

    await world.maintenance_run()

    assert await numbers(world) == {1}


async def test_a_silent_session_is_over_and_a_session_that_goes_on_is_not(world: MaintenanceFixture) -> None:
    world.level = MemoryLevel.SESSION
    world.timeouts = Timeouts(session=timedelta(hours=24))
    await world.store(made_in(n, session="silent", hours_old=25 + n) for n in range(1, 5))
    await world.store(made_in(n, session="long", hours_old=20 * n) for n in range(1 + 4, 4 + 4))
    await world.store([made_in(8, session="long", hours_old=1), made_in(9, hours_old=900)])
    plan = await world.service().plan(AGENT)

    maintenance_run = await world.maintenance_run()

    assert await numbers(world) == {5, 6, 7, 8, 9}
    assert (plan.removed, plan.is_held) == (4, False)
    assert (maintenance_run.counts["planned"], maintenance_run.counts["ended"]) == (0, 4)
    await world.undo(maintenance_run.run_id)
    await world.maintenance_run()
    assert await numbers(world) == set(range(1, 10)), "a hold keeps them from the next night"
    await world.check_balance()


async def test_persistent_memories_know_no_time_out(world: MaintenanceFixture) -> None:
    world.timeouts = Timeouts.of(MemoryOptionsConfig(project_timeout_hours=1))
    await world.store([made_in(1, session="s", project="p", hours_old=900)])

    assert (await world.maintenance_run()).counts["ended"] == 0
    assert await numbers(world) == {1}


async def test_a_project_rests_for_ever_unless_somebody_sets_a_limit(world: MaintenanceFixture) -> None:
    world.level = MemoryLevel.PROJECT
    world.timeouts = Timeouts.of(MemoryOptionsConfig())
    await world.store([made_in(1, project="p", hours_old=900)])
    await world.maintenance_run()
    assert await numbers(world) == {1}

    world.timeouts = Timeouts.of(MemoryOptionsConfig(project_timeout_hours=899))
    await world.maintenance_run()
    assert await numbers(world) == set()


async def test_working_memories_are_over_after_a_day_and_no_guard_holds_that(world: MaintenanceFixture) -> None:
    world.timeouts = Timeouts.of(MemoryOptionsConfig())
    working = MemoryCategory.WORKING
    await world.store([made_in(1, category=working, hours_old=25), made_in(2, category=working, hours_old=23)])
    await world.store([made_in(3, hours_old=25)])

    maintenance_run = await world.maintenance_run()

    assert (maintenance_run.state, maintenance_run.counts["retention"]) == (WorkState.DONE, 1)
    assert await numbers(world) == {2, 3}


async def test_a_rule_for_working_memories_stands_in_place_of_their_time_out(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    rule = RetentionRule(category=MemoryCategory.WORKING, retention_days=14)
    world = make_maintenance_fixture(
        ConsolidationConfig(retention=RetentionConfig(rules=(rule,)), max_removed_fraction=1.0)
    )
    world.timeouts = Timeouts.of(MemoryOptionsConfig())
    working = MemoryCategory.WORKING
    await world.store([made_in(1, category=working, hours_old=300), made_in(2, category=working, hours_old=400)])

    await world.maintenance_run()

    assert await numbers(world) == {1}


async def test_the_guard_still_holds_what_was_to_stay(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = make_maintenance_fixture(
        ConsolidationConfig(max_memories_per_agent=3, max_removed_fraction=0.5, max_removed_floor=0)
    )
    world.level = MemoryLevel.SESSION
    world.timeouts = Timeouts(session=timedelta(hours=24))
    await world.store(made_in(n, session="silent", hours_old=30) for n in range(1, 11))
    await world.store(made_in(n, hours_old=30) for n in range(11, 21))

    assert (await world.service().plan(AGENT)).is_held


async def test_an_end_waits_while_maintenance_is_paused_and_not_for_a_policy_without_maintenance(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(ConsolidationConfig(enabled=False))
    world.level = MemoryLevel.SESSION
    await world.store([made_in(1, session="s")])
    world.ledger.companies.pause(COMPANY)
    run = world.plan_run(kind="end_session", scope_id="s")
    assert isinstance(await world.service().run(run.run_id), Deferred)
    assert await numbers(world) == {1}

    world.ledger.companies.resume(COMPANY)
    assert isinstance(await world.to_the_end(run.run_id), Done)
    assert await numbers(world) == set()


async def test_a_crash_at_any_call_of_an_end_loses_nothing_and_ends_all_the_same(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture()
    world.level = MemoryLevel.SESSION
    await world.store(made_in(n, session="s" if n % 3 else "t") for n in range(1, 10))
    go_back = world.keep()
    seen = Faults()
    run = world.plan_run(kind="end_session", scope_id="s")
    await world.watched(seen).run(run.run_id)
    after = await world.snapshot()
    assert len(after) == 3
    assert len(seen.calls) >= 15, "the scenario has become too small to mean anything"

    for point in crash_points(seen.calls):
        go_back()
        run = world.plan_run(kind="end_session", scope_id="s")
        faults = Faults(point)
        await world.crash(run.run_id, faults)

        outcome = await world.to_the_end(run.run_id)

        assert isinstance(outcome, Done), (point, seen.calls[point], outcome)
        assert await world.snapshot() == after, (point, seen.calls[point])
        assert world.run(run.run_id).counts == {"ended": 6}
        await world.check_balance()


SCOPES = st.none() | st.sampled_from("abc")
MOMENTS = st.integers(0, 5).map(lambda hours: START - timedelta(hours=hours))


@settings(max_examples=examples(20), deadline=None)
@given(
    sessions=st.dictionaries(st.sampled_from("abc"), MOMENTS),
    projects=st.dictionaries(st.sampled_from("abc"), MOMENTS),
    made=st.lists(st.tuples(SCOPES, SCOPES, st.integers(0, 5)), max_size=12),
)
async def test_what_a_plan_counts_is_what_the_filters_match(
    sessions: dict[str, datetime], projects: dict[str, datetime], made: list[tuple[str | None, str | None, int]]
) -> None:
    backend = InMemoryBackend(company=COMPANY)
    await backend.connect()
    records = [
        made_in(number, session=session, project=project, hours_old=hours)
        for number, (session, project, hours) in enumerate(made, start=1)
    ]
    await backend.store_many(records)
    ended_scopes = EndedScopes(sessions=sessions, projects=projects)

    matched: set[str] = set()
    for where in ended_scopes.filters(Where(agent_id=AGENT)):
        matched |= {record.entry.id for record in (await backend.scan(where)).records}

    assert matched == {record.entry.id for record in records if ended_scopes.takes(record)}
