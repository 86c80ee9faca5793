"""Which memories a full agent loses: by the shipped rule, by a company's own, and by one that fails."""

import math
import random
from datetime import datetime, timedelta

import pytest
from support.maintenance_fixture import AGENT, COMPANY, MaintenanceFixture, MakeMaintenanceFixture, memory, uid

from memcore import ids
from memcore.config.maintenance import ConsolidationConfig, ConsolidationStrategyType
from memcore.jobs import Dead, Done, Use
from memcore.maintenance.enforcement import Candidate

FULL = ConsolidationConfig(strategy=ConsolidationStrategyType.NONE, max_memories_per_agent=3, max_removed_fraction=1.0)

ONES = [
    f"{one}{other}" for one in ("red", "tall", "glass", "quiet") for other in ("wood", "stone", "field", "gate", "mill")
]
COLOURS = ("Red", "Blue", "Green", "Gold", "Grey", "Pink", "White")

REPEATED = "The deploy of the billing service failed on Tuesday because the migration timed out"


async def left(world: MaintenanceFixture) -> set[str]:
    return set(await world.live())


@pytest.fixture
def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return make_maintenance_fixture(FULL)


async def test_what_is_used_stays_and_what_a_newer_memory_repeats_goes(world: MaintenanceFixture) -> None:
    await world.store(
        [
            memory(1, days_old=300),
            memory(2, days_old=200),
            memory(3, days_old=100),
            memory(4, days_old=40, content=REPEATED),
            memory(5, days_old=30, content=REPEATED + "."),
        ]
    )
    at = world.clock.at - timedelta(days=1)
    world.ledger.uses.count(COMPANY, ids.new_id(), [Use(agent_id=AGENT, memory_id=uid(1), uses=5, last_used_at=at)])

    plan = await world.service().plan(AGENT)
    run = await world.maintenance_run()

    assert run.counts["enforced"] == plan.removed == 2
    assert await left(world) == {uid(1), uid(3), uid(5)}
    assert world.ledger.uses.of(COMPANY, AGENT, [uid(1)]).keys() == {uid(1)}
    await world.check_balance()


async def test_of_memories_of_one_age_those_that_say_least_go(world: MaintenanceFixture) -> None:
    said = [
        "Thanks, that sounds great, talk to you soon",
        "Ines is allergic to hazelnuts",
        "That sounds great, thanks",
        "Invoices of ACME go to billing@acme.example as PDF",
        "Great, talk to you soon, thanks a lot for that",
        "The backup runs on host kestrel at 03:15",
    ]
    await world.store([memory(n, days_old=100, content=text) for n, text in enumerate(said)])

    await world.maintenance_run()

    assert await left(world) == {uid(1), uid(3), uid(5)}


def facts(count: int) -> list[str]:
    """Facts of one form, each another."""
    return [f"The {ONES[n % 20]} dashboard of floor {n // 20} is owned by team {COLOURS[n % 7]}" for n in range(count)]


async def test_what_is_stored_twice_goes_first_and_never_both_copies_while_another_is_there_twice(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    dice = random.Random(5)  # the same each time
    world = make_maintenance_fixture(FULL.model_copy(update={"max_memories_per_agent": 300}))
    texts = facts(350)
    texts += [f"Reminder: {text}." for text in texts[:50]]
    ages = dice.sample(range(8, 408), 400)
    await world.store(
        memory(n, content=text, days_old=age) for n, (text, age) in enumerate(zip(texts, ages, strict=True), start=1)
    )
    at = world.clock.at
    uses = [Use(agent_id=AGENT, memory_id=uid(n), uses=9, last_used_at=at) for n in dice.sample(range(1, 401), 150)]
    world.ledger.uses.count(COMPANY, ids.new_id(), uses)

    run = await world.maintenance_run()

    assert run.counts["enforced"] == 100
    live = await left(world)
    copies = [{uid(n), uid(350 + n)} & live for n in range(1, 51)]
    # A hundred go: the fifty copies, then fifty facts by their value alone.
    assert all(len(each) < 2 for each in copies)
    used = {each.memory_id for each in uses}
    single = {uid(n) for n in range(51, 351)}
    assert used & single <= live
    assert not any(used & {uid(n), uid(350 + n)} and not copies[n - 1] for n in range(1, 51))
    assert world.ledger.archive.count(COMPANY, AGENT) == 100
    await world.check_balance()


@pytest.mark.parametrize("limit", [50, 60, 99])
async def test_with_little_excess_only_copies_go(make_maintenance_fixture: MakeMaintenanceFixture, limit: int) -> None:
    world = make_maintenance_fixture(FULL.model_copy(update={"max_memories_per_agent": limit}))
    texts = facts(50) * 2
    await world.store(memory(n, content=text, days_old=300 - n) for n, text in enumerate(texts, start=1))

    await world.maintenance_run()

    live = [record.entry.content for record in (await world.live()).values()]
    assert len(live) == limit
    assert set(live) == set(texts)


async def test_uses_by_another_agent_say_nothing(world: MaintenanceFixture) -> None:
    await world.store(memory(n, days_old=400 - 10 * n) for n in range(1, 5))
    use = Use(agent_id="bob", memory_id=uid(1), uses=50, last_used_at=world.clock.at)
    world.ledger.uses.count(COMPANY, ids.new_id(), [use])

    await world.maintenance_run()

    assert await left(world) == {uid(2), uid(3), uid(4)}


async def test_a_companys_own_rule_decides_and_protection_comes_before_it(world: MaintenanceFixture) -> None:
    await world.store([memory(1, tags=["pinned"]), memory(2), memory(3), memory(4), memory(5, tags=["core"])])

    def newest_number_first(candidate: Candidate, now: datetime) -> float:
        del now
        return -float(int(candidate.entry.id.replace("-", ""), 16))

    outcome = await world.service(value=newest_number_first).run(world.plan_run().run_id)

    assert isinstance(outcome, Done)
    assert await left(world) == {uid(1), uid(2), uid(5)}


def fails(candidate: Candidate, now: datetime) -> float:
    raise ZeroDivisionError(f"{candidate.entry.content} {now}")


def gives_nothing(candidate: Candidate, now: datetime) -> float:
    del candidate, now
    return None  # type: ignore[return-value]  # as a rule in untyped code may


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        (fails, "ZeroDivisionError"),
        (gives_nothing, "TypeError"),
        (lambda _one, _now: math.nan, "nan, not a finite number"),
    ],
)
async def test_a_rule_that_fails_ends_the_run_after_retention_and_before_all_else(
    world: MaintenanceFixture, rule: object, word: str
) -> None:
    # One that has expired, too: retention does not wait for the rule.
    await world.store([*(memory(n) for n in range(6)), memory(9, days_old=2, expires_in_days=-1)])

    for allow_large in (False, True):
        run = world.plan_run(allow_large=allow_large)
        outcome = await world.service(value=rule).run(run.run_id)
        assert isinstance(outcome, Dead)
        assert word in outcome.reason
        assert "memory number" not in outcome.reason
        if not allow_large:
            assert set(await world.live()) == {uid(n) for n in range(6)}
    assert {uid(n) for n in range(6)} <= await left(world)
    await world.check_balance()
