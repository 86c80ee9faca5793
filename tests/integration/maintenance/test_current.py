"""A memory is superseded while what superseded it is there: whatever ends that, and until that comes back."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from support.maintenance_fixture import AGENT, COMPANY, MaintenanceFixture, MakeMaintenanceFixture, memory, uid

from memcore.backends.succession import supersede
from memcore.config.maintenance import ConsolidationConfig, ConsolidationStrategyType, RetentionRule
from memcore.config.policy import Policy
from memcore.errors import MemoryInputError
from memcore.memories import Memories
from memcore.models.memory import SUPERSEDED_TAG, MemoryCategory, MemoryQuery, MemoryStoreRequest
from memcore.records import Lineage, Where
from memcore.retrieval.strategies.factory import StrategyParts

OLD, NEW = uid(1), uid(2)

#: Ends the newer memory, and returns what brings it back, if anything does.
End = Callable[[MaintenanceFixture], Awaitable[str | None]]


def memories_of(world: MaintenanceFixture) -> Memories:
    return Memories(world.backend, world.ledger, company=COMPANY, policy=Policy(), clock=world.clock)


async def superseded_by(world: MaintenanceFixture) -> str | None:
    """What superseded the older memory, as every reader says, with the prompt."""
    memories = memories_of(world)
    found = [
        await memories.get(AGENT, OLD),
        await world.backend.get(AGENT, OLD),
        *(each for each in (await memories.list(AGENT)).entries if each.id == OLD),
        *(each for each in await world.backend.retrieve(AGENT, MemoryQuery()) if each.id == OLD),
    ]
    assert len(found) == 4
    for each in found:
        assert each is not None
        assert (SUPERSEDED_TAG in each.metadata.tags) is bool(each.superseded_by)
    strategy = StrategyParts(policy=Policy(), backend=world.backend, company=COMPANY).strategy()
    messages = await strategy.prepare_messages(AGENT, "lives in", token_budget=2_000)
    (said,) = {None if each is None else each.superseded_by for each in found}
    assert any('superseded="' in (each.content or "") for each in messages) is (said is not None)
    then = await world.backend.retrieve(AGENT, MemoryQuery(as_of=world.clock()))
    assert (OLD in {each.id for each in then}) is (said is None)
    return said


async def by_forgetting(world: MaintenanceFixture) -> str | None:
    return (await memories_of(world).forget(AGENT, NEW)).run_id


async def by_a_rule(world: MaintenanceFixture) -> str | None:
    rule = RetentionRule(category=MemoryCategory.SOCIAL, retention_days=5)
    world.policy = world.policy.model_copy(
        update={"retention": world.policy.retention.model_copy(update={"rules": (rule,)})}
    )
    return (await world.maintenance_run()).run_id


async def by_the_end_of_its_task(world: MaintenanceFixture) -> str | None:
    world.clock.turn(timedelta(seconds=1))
    return (await world.end("end_task", "x")).run_id


async def by_a_limit(world: MaintenanceFixture) -> str | None:
    world.policy = world.policy.model_copy(update={"max_memories_per_agent": 1})
    return (await world.maintenance_run()).run_id


async def by_erasure(world: MaintenanceFixture) -> str | None:
    await world.backend.delete_where(Where(agent_id=AGENT, namespaces=frozenset({"person"})))
    return None


async def by_expiry(world: MaintenanceFixture) -> str | None:
    world.clock.turn(timedelta(days=400))
    return None


@pytest.mark.parametrize("end", [by_forgetting, by_a_rule, by_the_end_of_its_task, by_a_limit, by_erasure, by_expiry])
async def test_whatever_ends_the_newer_one_the_older_is_current_until_it_comes_back(
    make_maintenance_fixture: MakeMaintenanceFixture, end: End
) -> None:
    world = make_maintenance_fixture(
        ConsolidationConfig(strategy=ConsolidationStrategyType.NONE, max_removed_fraction=1.0)
    )
    category = MemoryCategory.WORKING if end is by_the_end_of_its_task else MemoryCategory.SOCIAL
    newer = memory(2, content="Ada lives in Bergen", category=category, namespace="person", days_old=9,
                   expires_in_days=300, lineage=Lineage(task_id="x"))  # fmt: skip
    await world.store([memory(1, content="Ada lives in Oslo", tags=["pinned"]), newer])
    await supersede(world.backend, *await world.backend.get_many(AGENT, [OLD, NEW]))
    assert await superseded_by(world) == NEW

    run_id = await end(world)

    assert await superseded_by(world) is None
    if run_id is not None:
        await world.undo(run_id)
        assert await superseded_by(world) == NEW


async def test_what_takes_the_newer_ones_place_supersedes_in_its_stead(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = make_maintenance_fixture(ConsolidationConfig(max_removed_fraction=1.0))
    category = MemoryCategory.SEMANTIC
    await world.store(
        [
            memory(1, content="Ada lives in Oslo", category=category),
            memory(2, content="Ada has her home in Bergen", category=category, days_old=9),
            memory(3, content="Ada has her home in Bergen!", category=category, days_old=8),
        ]
    )
    await supersede(world.backend, *await world.backend.get_many(AGENT, [OLD, NEW]))
    # Merged with a copy of it.
    await world.maintenance_run()
    (one,) = await world.summaries()
    assert await superseded_by(world) == one.entry.id
    # A new version, and a version of that.
    memories = memories_of(world)
    changed = await memories.update(AGENT, one.entry.id, content="Ada has her home in Rome")
    assert await superseded_by(world) == changed.id
    receipt = await memories.forget(AGENT, changed.id)
    assert await superseded_by(world) is None
    await world.undo(str(receipt.run_id))
    assert await superseded_by(world) == changed.id


async def test_the_next_version_under_a_key_supersedes_in_its_stead(world: MaintenanceFixture) -> None:
    memories = memories_of(world)
    await world.store([memory(1, content="Ada lives in Oslo")])

    async def put(text: str, *supersedes: str) -> str:
        world.clock.turn(timedelta(seconds=1))
        request = MemoryStoreRequest(
            category=MemoryCategory.SEMANTIC, content=text, key="home", supersedes=supersedes
        )  # fmt: skip
        return (await memories.put(AGENT, request)).id

    assert await superseded_by(world) is None
    first = await put("Ada lives in Bergen", OLD)
    assert await superseded_by(world) == first
    second = await put("Ada lives in Rome")
    assert second != first
    assert await superseded_by(world) == second


async def test_who_waits_is_refused_an_id_that_names_nothing(world: MaintenanceFixture) -> None:
    await world.store([memory(1, content="Ada lives in Oslo")])
    request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="Ada left", supersedes=(OLD, uid(77)))
    with pytest.raises(MemoryInputError, match=r"^supersedes\.1:"):
        await memories_of(world).put(AGENT, request)
    assert set(await world.live()) == {OLD}
