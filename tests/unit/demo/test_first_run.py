"""What the demo's policy will take from each agent in its first run, reckoned here without memtend's own code."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from examples.demo.fleet import FleetAgent, FleetMemory, agents, fleet
from memcore.models.memory import MemoryCategory

#: The demo's policy: what is older is folded, and working memories are kept two weeks.
MIN_AGE = timedelta(days=120)
WORKING = timedelta(days=14)

#: Memories that consolidation leaves alone, and the smallest group that it folds.
SPARED = {"core", "pinned", "distillation"}
SMALLEST_GROUP = 3


@dataclass(frozen=True, kw_only=True)
class MaintenanceRun:
    stored: int
    retained_away: int
    expired: int
    folded: int
    enforced: int

    @property
    def removed(self) -> float:
        return (self.retained_away + self.expired + self.folded + self.enforced) / self.stored


def first_run(agent: FleetAgent, memories: list[FleetMemory], now: datetime) -> MaintenanceRun:
    def old(memory: FleetMemory) -> bool:
        kept = agent.retention(memory.request.category)
        if kept is None and memory.request.category is MemoryCategory.WORKING:
            kept = WORKING
        return kept is not None and now - memory.created_at > kept

    def over(memory: FleetMemory) -> bool:
        return memory.request.expires_at is not None and memory.request.expires_at <= now

    retained_away = [memory for memory in memories if old(memory)]
    expired = [memory for memory in memories if over(memory) and not old(memory)]
    left = [memory for memory in memories if not old(memory) and not over(memory)]
    groups = Counter(
        (memory.request.category, memory.request.namespace)
        for memory in left
        if now - memory.created_at > MIN_AGE
        and memory.request.category is MemoryCategory.EPISODIC
        and not SPARED & set(memory.request.metadata.tags)
    )
    folded = sum(count for count in groups.values() if count >= SMALLEST_GROUP)
    live = len(left) - folded + sum(count >= SMALLEST_GROUP for count in groups.values())
    enforced = 0 if agent.max_memories is None else max(0, live - agent.max_memories)
    return MaintenanceRun(
        stored=len(memories), retained_away=len(retained_away), expired=len(expired), folded=folded, enforced=enforced
    )


def maintenance_runs(now: datetime) -> Iterator[tuple[FleetAgent, MaintenanceRun]]:
    everything = list(fleet(now))
    for agent in agents():
        yield agent, first_run(agent, [memory for memory in everything if memory.agent_id == agent.id], now)


@pytest.fixture(
    scope="module",
    params=[
        datetime(2026, 11, 21, 0, 0, tzinfo=UTC),
        datetime(2026, 11, 23, 23, 59, tzinfo=UTC),
        datetime(2028, 2, 29, 12, 0, tzinfo=UTC),
    ],
    ids=lambda day: day.isoformat(),
)
def by_agent(request: pytest.FixtureRequest) -> dict[str, MaintenanceRun]:
    now: datetime = request.param
    return {agent.id: maintenance_run for agent, maintenance_run in maintenance_runs(now)}


def test_only_the_archivist_loses_more_than_half(by_agent: dict[str, MaintenanceRun]) -> None:
    assert {agent_id for agent_id, maintenance_run in by_agent.items() if maintenance_run.removed > 0.5} == {
        "archivist"
    }
    assert by_agent["archivist"].retained_away > 20
    assert all(
        maintenance_run.removed < 0.47 for agent_id, maintenance_run in by_agent.items() if agent_id != "archivist"
    )


def test_the_agent_over_its_limit_loses_to_enforcement_and_little_else(by_agent: dict[str, MaintenanceRun]) -> None:
    maintenance_run = by_agent["oncall"]
    assert 250 <= maintenance_run.stored <= 275
    assert maintenance_run.enforced > 80
    assert (
        maintenance_run.retained_away + maintenance_run.expired + maintenance_run.folded < 0.1 * maintenance_run.stored
    )


def test_about_a_sixth_of_all_memories_is_episodic_and_old_enough_to_be_folded(
    by_agent: dict[str, MaintenanceRun],
) -> None:
    folded = sum(maintenance_run.folded for maintenance_run in by_agent.values())
    stored = sum(maintenance_run.stored for maintenance_run in by_agent.values())
    assert 0.12 < folded / stored < 0.2


def test_every_step_of_the_run_has_something_to_do(by_agent: dict[str, MaintenanceRun]) -> None:
    assert sum(maintenance_run.retained_away for maintenance_run in by_agent.values()) >= 30
    assert sum(maintenance_run.expired for maintenance_run in by_agent.values()) >= 10
    assert all(maintenance_run.folded >= 3 for maintenance_run in by_agent.values())
