"""What a run asks of the store: counts where nothing is due, and elsewhere no more than what is."""

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from support.fault_injection import Faults
from support.lesson_memories import lesson_memory
from support.maintenance_fixture import CONDENSE, MaintenanceFixture, MakeMaintenanceFixture, memory

from memcore.config.maintenance import ConsolidationConfig, PruningConfig, RetentionConfig
from memcore.jobs import Done
from memcore.maintenance.rules import Timeouts
from memcore.models.memory import MemoryCategory, MemoryLevel
from memcore.records import Lineage, MemoryRecord, Page

POLICY = ConsolidationConfig(
    strategy=CONDENSE, retention=RetentionConfig(default_retention_days=90), max_removed_fraction=1.0
)

#: Calls of a store that look at memories or change them; the marks are taken off whatever is due.
CHECKS = {"scan", "get_many", "claim", "store_many", "delete_where", "delete_many", "set_metadata_many"}


class Store:
    """Counts what a run asks of a world's store, and the memories that it is shown."""

    def __init__(self, world: MaintenanceFixture) -> None:
        self._faults = Faults()
        self._world = world
        self.shown = 0

    @property
    def calls(self) -> Counter[str]:
        names = (call.split(".") for call in self._faults.calls)
        return Counter(name for capacity, name in names if capacity == "backend")

    async def maintenance_run(self) -> Done:
        real = self._world.backend.scan

        async def scan(*args: Any, **kwargs: Any) -> Page:
            page = await real(*args, **kwargs)
            self.shown += len(page.records)
            return page

        self._world.backend.scan = scan  # type: ignore[method-assign]  # the same, and counted
        run = self._world.plan_run()
        outcome = await self._world.service(self._faults.backend(self._world.backend)).run(run.run_id)
        assert isinstance(outcome, Done), outcome
        return outcome


def fresh(numbers: Iterable[int]) -> list[MemoryRecord]:
    """Memories of a few open sessions, too young to be merged."""
    return [
        memory(n, days_old=1 + n / 1_000, lineage=Lineage(session_id=f"s-{n % 7}", project_id="p")) for n in numbers
    ]


def made(
    make_maintenance_fixture: MakeMaintenanceFixture, level: MemoryLevel = MemoryLevel.PERSISTENT
) -> MaintenanceFixture:
    world = make_maintenance_fixture(POLICY)
    world.level = level
    world.timeouts = Timeouts(session=timedelta(days=3), project=timedelta(days=3), task=timedelta(days=3))
    return world


@pytest.fixture
def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return made(make_maintenance_fixture)


@pytest.mark.parametrize("level", MemoryLevel)
async def test_a_run_with_nothing_due_looks_at_no_memory_and_asks_the_same_of_few_and_many(
    make_maintenance_fixture: MakeMaintenanceFixture, level: MemoryLevel
) -> None:
    asked = []
    for size in (10, 600):
        world = made(make_maintenance_fixture, level)
        await world.store(fresh(range(size)))
        store = Store(world)
        await store.maintenance_run()
        assert CHECKS.isdisjoint(store.calls), store.calls
        assert store.shown == 0
        asked.append(store.calls)

    assert asked[0] == asked[1]
    assert asked[0].total() < 20


@pytest.mark.parametrize("pruning", ["ttl", "pareto", "hybrid"])
async def test_lessons_that_all_stay_are_counted_and_not_looked_at(world: MaintenanceFixture, pruning: str) -> None:
    world.pruning = PruningConfig.model_validate({"type": pruning, "max_entries": 300})
    await world.store(lesson_memory(n, days_old=n / 5) for n in range(300))
    await world.store(memory(n, days_old=80, category=MemoryCategory.PROCEDURAL, tags=["core"]) for n in range(99))
    store = Store(world)

    await store.maintenance_run()

    assert CHECKS.isdisjoint(store.calls), store.calls


async def test_of_many_lessons_those_that_are_too_old_are_all_that_a_run_is_shown(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(ConsolidationConfig())
    await world.store(lesson_memory(n, days_old=n / 5) for n in range(300))
    await world.store(lesson_memory(n, days_old=95) for n in range(300, 304))
    store = Store(world)

    done = await store.maintenance_run()

    assert done.facts["pruned"] == 4
    # The plan finds them, the step finds them again, and reads what carries the mark.
    assert store.shown == 3 * 4


async def test_a_run_over_a_few_expired_memories_is_shown_these_alone(world: MaintenanceFixture) -> None:
    await world.store(fresh(range(600)))
    await world.store(memory(n, days_old=2, expires_in_days=-1) for n in range(1_000, 1_006))
    store = Store(world)

    done = await store.maintenance_run()

    assert done.facts["expired"] == 6
    # The plan's five examples, the walk that names them, and the reading of what carries the mark.
    assert store.shown == 5 + 6 + 6
    assert store.calls["claim"] == store.calls["delete_where"] == 1


async def test_what_goes_with_a_session_is_all_that_a_run_is_shown(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = made(make_maintenance_fixture, MemoryLevel.SESSION)
    await world.store(fresh(range(600)))
    await world.store(memory(n, days_old=5, lineage=Lineage(session_id="silent")) for n in range(1_000, 1_004))
    store = Store(world)

    done = await store.maintenance_run()

    assert done.facts["ended"] == 4
    # The plan walks once and shows examples; the step walks again, and reads what carries the mark.
    assert store.shown == 4 * 4
    assert store.calls["delete_where"] == 1


async def test_old_memories_of_open_sessions_are_not_looked_at_run_after_run(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(ConsolidationConfig())
    world.level = MemoryLevel.SESSION
    await world.store(memory(n, days_old=60, lineage=Lineage(session_id=f"s-{n % 7}")) for n in range(300))
    store = Store(world)

    await store.maintenance_run()

    assert CHECKS.isdisjoint(store.calls), store.calls


async def test_summaries_of_one_category_share_a_round_trip_to_the_store(world: MaintenanceFixture) -> None:
    await world.store(memory(n, days_old=60 - n / 100) for n in range(251))
    store = Store(world)

    done = await store.maintenance_run()

    assert done.facts["consolidated"] == 250
    assert done.facts["summaries"] > 10
    assert store.calls["claim"] == store.calls["store_many"] == store.calls["delete_where"] == 1
    await world.check_balance()
