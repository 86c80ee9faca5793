"""Another policy is tried on the memories that are there: what goes, and what questions then find."""

from datetime import timedelta

import pytest
from support.job_contexts import PLACELESS
from support.maintenance_fixture import AGENT, COMPANY, MaintenanceFixture, MakeMaintenanceFixture, memory, uid
from support.vector_backend import VectorInMemory

from memcore.config.policy import Policy
from memcore.evaluation.whatif import WhatIf, WhatIfs
from memcore.jobs import RecordedQuery
from memcore.models.memory_test import MemoryTest, NamedMemory

TEXTS = (
    "Rosa leads the north team.",
    "The door code of the archive is 4711.",
    "The kiln is fired on Thursdays.",
    "The kiln is fired on Thursdays.",
    "Amara carried the bowl.",
)


@pytest.fixture
async def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    """Five old memories, two of which say the same, and a question for each of three."""
    world = make_maintenance_fixture()
    world.backend = VectorInMemory(company=COMPANY, clock=world.clock)
    await world.store(memory(n, days_old=60 - n, content=text) for n, text in enumerate(TEXTS, 1))
    questions = {"Who leads the north team?": 1, "When is the kiln fired?": 3, "Who carried the bowl?": 5}
    world.ledger.recorded_queries.record(
        COMPANY,
        [
            RecordedQuery(
                agent_id=AGENT, question=text, memory_ids=(uid(n),), asked_at=world.clock() - timedelta(days=1)
            )
            for text, n in questions.items()
        ],
    )
    return world


def policy(**memory: object) -> Policy:
    return Policy.model_validate({"memory": memory})


async def tried(world: MaintenanceFixture, then: Policy, *, now: Policy | None = None) -> WhatIf:
    before = await world.snapshot()
    compared = WhatIfs(
        settings=PLACELESS.model_copy(update={"company": COMPANY}),
        backend=world.backend,
        ledger=world.ledger,
        now=now or policy(),
        then=then,
        clock=world.clock,
    )
    found = await compared.of(AGENT)
    assert await world.snapshot() == before
    assert world.ledger.runs.list(COMPANY, agent_id=AGENT, limit=10) == ()
    return found


async def test_the_same_policy_changes_nothing(world: MaintenanceFixture) -> None:
    found = await tried(world, policy())
    assert found.now == found.then
    assert (found.live, found.now.after, found.now.merged, found.now.summaries) == (5, 4, 2, 1)
    assert (found.questions, found.more, found.fewer) == (3, 0, 0)


async def test_what_a_retention_removes_is_found_by_no_question(world: MaintenanceFixture) -> None:
    # One is 59 days old, the next one half a day younger than the limit.
    world.clock.turn(-timedelta(hours=12))
    found = await tried(world, policy(consolidation={"retention": {"default_retention_days": 58}}))
    assert (found.then.expired, found.then.after) == (1, 3)
    assert (found.more, found.fewer) == (0, 1)


async def test_what_stands_for_a_memory_counts_as_it(world: MaintenanceFixture) -> None:
    found = await tried(world, policy(), now=policy(consolidation={"strategy": "none"}))
    assert (found.now.merged, found.then.merged, found.then.after) == (0, 2, 4)
    assert (found.more, found.fewer) == (0, 0)


async def test_a_limit_is_tried_too(world: MaintenanceFixture) -> None:
    limited = {"max_memories_per_agent": 2, "max_removed_fraction": 1.0}
    found = await tried(world, policy(consolidation=limited))
    assert (found.then.over_limit, found.then.after) == (2, 2)
    assert found.fewer >= 1


async def test_a_run_that_would_be_held_says_so(world: MaintenanceFixture) -> None:
    limited = {"max_memories_per_agent": 1, "max_removed_floor": 0, "max_removed_fraction": 0.1}
    found = await tried(world, policy(consolidation=limited))
    assert found.then.stops is not None
    assert "max_removed_fraction" in found.then.stops
    assert (found.then.after, found.then.merged, found.fewer) == (5, 0, 0)


async def test_a_policy_of_prompts_changes_what_questions_find(world: MaintenanceFixture) -> None:
    few = policy(retrieval={"standing": "strong", "min_relevance": 1.0})
    found = await tried(world, few)
    assert found.now == found.then
    assert found.fewer == found.questions == 3
    back = await tried(world, policy(), now=few)
    assert (back.more, back.fewer) == (3, 0)


async def test_an_agent_without_memories_has_nothing_to_lose(world: MaintenanceFixture) -> None:
    named = MemoryTest(agent=AGENT, name="team", question="Who leads?", finds=(NamedMemory(id=uid(1)),))
    world.ledger.memory_tests.register(COMPANY, [named], notes=[])
    await world.backend.delete_many(AGENT, [uid(n) for n in range(1, 6)])
    found = await tried(world, policy(consolidation={"strategy": "none"}))
    assert (found.live, found.then.after, found.questions, found.fewer, found.broken) == (0, 0, 3, 0, ())


async def test_tests_that_would_break_are_named(world: MaintenanceFixture) -> None:
    named = {"team": (uid(1), "Who leads the north team?"), "kiln": (uid(3), "When is the kiln fired?")}
    tests = [
        MemoryTest(agent=AGENT, name=name, question=question, finds=(NamedMemory(id=memory_id),))
        for name, (memory_id, question) in named.items()
    ]
    world.ledger.memory_tests.register(COMPANY, tests, notes=[])
    limited = policy(consolidation={"retention": {"default_retention_days": 58}})
    world.clock.turn(-timedelta(hours=12))
    found = await tried(world, limited)
    # The kiln's memory is merged, and the test by its id follows its text.
    assert (found.tests, found.broken, found.mended) == (2, ("team",), ())
    back = await tried(world, policy(), now=limited)
    assert (back.broken, back.mended) == ((), ("team",))
