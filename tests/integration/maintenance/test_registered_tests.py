"""Registered memory tests: a group whose summary would break one stays, and all are asked after a run."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from support.fault_injection import Crash, Faults, crash_points
from support.job_contexts import ScriptedContext
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    FILLER,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    memory,
    uid,
)
from support.vector_backend import VectorInMemory

from memcore.config.maintenance import ConsolidationConfig, ConsolidationStrategyType, GateConfig
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.errors import MemoryConnectionError
from memcore.jobs import Done, MaintenancePayload, Skipped
from memcore.ledger.consolidation_groups import GroupState
from memcore.ledger.organization.audit import done_by
from memcore.ledger.runs import Run
from memcore.maintenance import shadow
from memcore.maintenance.consolidation.factory import ConsolidationDeps
from memcore.maintenance.consolidation.proposals import shown_groups
from memcore.maintenance.consolidation.strategy import (
    ChunkLimits,
    CompositeConsolidationStrategy,
    HighestRelevanceSelector,
    SummaryDraft,
)
from memcore.maintenance.provenance import trace_memory
from memcore.maintenance.registered import RegisteredTests, following
from memcore.maintenance.service import MaintenanceService
from memcore.models.memory_test import MemoryTest, NamedMemory, Outcome
from memcore.models.origin import AUTHORITIES
from memcore.records import MemoryRecord
from tasks.maintain import maintain
from workers.celery_task import perform

#: The summaries say what was eaten and what was sung, and nothing of the bowl or the day.
TEXTS = tuple(
    f"On day {n} the tortoise ate {food}.{more} {FILLER}"
    for n, (food, more) in enumerate(
        [("lettuce", ""), ("carrots", " Amara carried the bowl."), ("clover", ""), ("radish", ""), ("spinach", "")], 1
    )
)
OTHERS = tuple(
    f"On day {n} the parrot sang {song}. {FILLER}"
    for n, song in enumerate(("ballads", "hymns", "marches", "lullabies", "anthems"), 1)
)
BOWL = uid(2)

#: However much is lost, the registered tests alone refuse.
ANY_LOSS = GateConfig(max_loss=1.0)


class Writes:
    """Writes the first sentence of each memory, and what else it is given to say."""

    def __init__(self, more: str = "") -> None:
        self.more = more

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        del kept
        firsts = [source.entry.content.partition(".")[0] for source in sources]
        return SummaryDraft(content=". ".join(firsts) + "." + self.more)


def bowl(**given: Any) -> MemoryTest:
    asked = {"name": "bowl", "agent": AGENT, "question": "Who carried the bowl?", "finds": [{"text": "Amara carried"}]}
    return MemoryTest.model_validate(asked | given)


def register(world: MaintenanceFixture, *tests: MemoryTest, company: str = COMPANY) -> None:
    world.ledger.memory_tests.register(company, tests, notes=[done_by("grace", "memory_tests.register", AGENT)])


async def filled(make: MakeMaintenanceFixture, gate: GateConfig = ANY_LOSS) -> MaintenanceFixture:
    policy = ConsolidationConfig(strategy=ConsolidationStrategyType.CONDENSE, max_removed_fraction=1.0, gate=gate)
    world = make(policy)
    world.backend = VectorInMemory(company=COMPANY, clock=world.clock)
    groups = ((TEXTS, "tortoise"), (OTHERS, "parrot"))
    await world.store(
        memory(n + 10 * place, days_old=60 - n, content=text, namespace=name)
        for place, (texts, name) in enumerate(groups)
        for n, text in enumerate(texts, 1)
    )
    return world


def service(world: MaintenanceFixture, op: Writes | None = None, faults: Faults | None = None) -> MaintenanceService:
    def build(_deps: ConsolidationDeps) -> CompositeConsolidationStrategy:
        limits = ChunkLimits()
        return CompositeConsolidationStrategy(HighestRelevanceSelector(), op or Writes(), name="test", limits=limits)

    backend, ledger = world.backend, world.ledger
    given = (faults.backend(backend), faults.ledger(ledger)) if faults else (backend, ledger)
    return world.service(*given, build_strategy=build, retrieval=MemoryRetrievalConfig(zoom=False))


async def ran(world: MaintenanceFixture, op: Writes | None = None) -> Run:
    run = world.plan_run()
    assert isinstance(await service(world, op).run(run.run_id), Done)
    return world.run(run.run_id)


async def texts_of(world: MaintenanceFixture) -> list[str]:
    return sorted(record.entry.content for record in (await world.live()).values())


@pytest.fixture
async def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return await filled(make_maintenance_fixture)


async def test_a_group_that_would_break_a_test_stays_and_the_run_names_it(world: MaintenanceFixture) -> None:
    go_back = world.keep()
    without = await ran(world)
    assert (without.counts["gate_refused"], without.counts["summaries"]) == (0, 2)
    assert "gate_refused_for_tests" not in without.counts
    assert not any("Amara" in text for text in await texts_of(world))
    go_back()
    register(world, bowl())
    run = await ran(world)
    assert (run.counts["gate_refused"], run.counts["gate_refused_for_tests"], run.counts["summaries"]) == (1, 1, 1)
    assert (run.reason or "").endswith("memory tests that would have broken: 'bowl'")
    assert set(TEXTS) <= {*await texts_of(world)}
    (refused,) = world.ledger.consolidation_groups.of_run(COMPANY, run.run_id, state=GroupState.REFUSED)
    assert refused.tests == ("bowl",)
    (group,) = [each for each in await shown_groups(world.ledger, world.backend, run) if each.tests]
    assert (group.state, group.tests) == (GroupState.REFUSED, ("bowl",))
    given: Any = {"backend": world.backend, "ledger": world.ledger, "company": COMPANY, "journal_days": 30}
    assert (await trace_memory(BOWL, agent_id=AGENT, **given)).memory.kept_for == ("bowl",)
    assert (await service(world).plan(AGENT)).gate is None, "what was refused is not planned again"
    await world.check_balance()


async def test_a_plan_names_the_tests_too(world: MaintenanceFixture) -> None:
    register(world, bowl())
    gate = (await service(world).plan(AGENT)).gate
    assert gate is not None
    assert (gate.refused, gate.tests) == (1, ("bowl",))


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [
        ({"finds": [{"id": BOWL}]}, True),
        ({"finds": [{"pattern": "a??ra c*bowl"}]}, True),
        ({"finds": [{"pattern": "the tortoise ate [bc]*"}]}, False),
        ({"finds": [{"text": "of which nobody speaks"}]}, False),
        ({"finds": [{"text": "Amara carried"}, {"text": "of which nobody speaks"}]}, False),
        ({"finds": [{"text": "the tortoise ate carrots"}]}, False),
        ({"finds": [], "shows_not": [{"text": "of which nobody speaks"}]}, False),
        ({"agent": "bob"}, False),
        ({"as_of": "2026-02-01T00:00:00Z"}, False),
        ({"question": "ate carrots", "order": [{"text": "ate carrots"}, {"text": "ate clover"}], "finds": []}, True),
    ],
    ids=["by id", "by pattern", "the summary has the pattern", "broken before", "broken in one before",
         "the summary says it", "never shown", "another agent",
         "of the past", "in order"],
)  # fmt: skip
async def test_what_a_test_holds_up(world: MaintenanceFixture, given: dict[str, Any], is_kept: bool) -> None:
    register(world, bowl(**given))
    assert (await ran(world)).counts["gate_refused"] == int(is_kept)


async def test_a_test_of_what_must_not_be_shown_holds_up_the_summary_that_says_it(world: MaintenanceFixture) -> None:
    go_back = world.keep()
    secret = bowl(finds=[], question="What did the parrot sing?", shows_not=[{"text": "the vault code is 4711"}])
    op = Writes(more=" the vault code is 4711.")
    assert (await ran(world, op)).counts["gate_refused"] == 0
    by_pattern = secret.model_copy(update={"shows_not": (NamedMemory(pattern="vault code*[0-9]"),)})
    for test in (secret, by_pattern):
        go_back()
        register(world, test)
        assert (await ran(world, op)).counts["gate_refused_for_tests"] == 2
        assert sorted((*TEXTS, *OTHERS)) == await texts_of(world)


async def test_a_summary_that_takes_the_only_place_is_held_up(world: MaintenanceFixture) -> None:
    await world.store([memory(30, days_old=1, content="The heron watches the pond.", namespace="heron")])
    go_back, op = world.keep(), Writes(more=" the heron watches. the heron watches.")
    for pond in ({"text": "the pond"}, {"pattern": "the p?nd"}):
        register(world, bowl(question="the heron watches", limit=1, finds=[pond]))
        assert (await ran(world, op)).counts["gate_refused_for_tests"] == 1
        go_back()
    register(world, bowl(question="the heron watches", limit=2, finds=[{"text": "the pond"}]))
    assert (await ran(world, op)).counts["gate_refused"] == 0


async def test_a_test_by_id_follows_the_text_through_merges(world: MaintenanceFixture) -> None:
    register(world, bowl(name="by id", finds=[{"id": BOWL}]))
    first = await ran(world, Writes(more=f" {TEXTS[1]}"))
    assert first.counts["gate_refused"] == 0, "the summary says all of it"
    assert BOWL not in await world.live()
    (only,) = world.ledger.memory_tests.list(COMPANY, AGENT)
    (followed,) = following(world.ledger, COMPANY, AGENT, [only.test])
    assert followed.finds[0].text == TEXTS[1]
    assert any(followed.finds[0].names(each.entry) for each in await world.summaries())


async def test_a_memory_that_is_too_old_for_the_shadow_is_found_there_once_its_group_is_judged(
    world: MaintenanceFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "MOST_MEMORIES", 1)
    register(world, bowl())
    assert (await ran(world)).counts["gate_refused_for_tests"] == 1


async def test_what_was_refused_for_a_test_is_judged_again_without_it(world: MaintenanceFixture) -> None:
    register(world, bowl())
    await ran(world)
    assert "gate_refused" not in (await ran(world)).counts, "nothing has changed"
    note = done_by("grace", "memory_tests.remove", AGENT)
    assert world.ledger.memory_tests.remove(COMPANY, AGENT, ["bowl"], note=note) == ("bowl",)
    run = await ran(world)
    assert (run.counts["gate_refused"], run.counts["summaries"]) == (0, 1)


async def test_a_test_of_another_company_or_without_the_gate_holds_nothing_up(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = await filled(make_maintenance_fixture)
    register(world, bowl(), company="globex")
    assert (await ran(world)).counts["gate_refused"] == 0
    world = await filled(make_maintenance_fixture, GateConfig(enabled=False))
    register(world, bowl())
    assert "gate_refused" not in (await ran(world)).counts
    assert not any("Amara" in text for text in await texts_of(world))


async def test_a_crash_at_any_call_leaves_the_same_in_the_end(world: MaintenanceFixture) -> None:
    register(world, bowl())
    go_back, calm = world.keep(), Faults()
    assert isinstance(await service(world, faults=calm).run(world.plan_run().run_id), Done)
    expected = await texts_of(world)
    assert calm.calls.count("memory_tests.list") == 1
    for at in crash_points(calm.calls):
        go_back()
        run = world.plan_run()
        with pytest.raises(Crash):
            await service(world, faults=Faults(at)).run(run.run_id)
        world.end_lease()
        assert isinstance(await service(world).run(run.run_id), Done)
        assert await texts_of(world) == expected, calm.calls[at]
        assert world.run(run.run_id).counts["gate_refused_for_tests"] == 1, calm.calls[at]
        await world.check_balance()


#: The words of a memory, as this backend looks for them.
WORDS = "Amara carried the bowl."


def deliver(world: MaintenanceFixture, run: Run) -> None:
    """Deliver the message of a run that is done once more, as after a kill of its worker."""
    context = ScriptedContext(
        ledger=world.ledger, clock=world.clock, maintenance_run=lambda _run_id: Skipped(reason="it is done")
    )
    asked = RegisteredTests(world.backend, world.ledger, company=COMPANY, authorities=AUTHORITIES)
    context.services[RegisteredTests] = asked
    sent = run.model_dump(include={"company", "agent_id", "run_id", "planned_at", "kind", "undo_of"})
    assert isinstance(perform(maintain, MaintenancePayload(**sent).model_dump_json(), context), Done)


def results(world: MaintenanceFixture) -> dict[str, tuple[Outcome | None, str | None]]:
    found = world.ledger.memory_tests.list(COMPANY, AGENT)
    return {each.name: (each.outcome, each.run_id) for each in found}


def _counted(world: MaintenanceFixture, run: Run) -> dict[str, int]:
    return {name: count for name, count in world.run(run.run_id).counts.items() if name.startswith("tests_")}


async def test_tests_are_asked_once_after_a_run_also_where_its_worker_died(world: MaintenanceFixture) -> None:
    register(
        world,
        bowl(question=WORDS),
        bowl(question=WORDS, name="nobody", finds=[{"text": "of which nobody speaks"}]),
        bowl(question=WORDS, name="id", finds=[{"id": BOWL}]),
    )
    run = await ran(world)
    assert set(results(world).values()) == {(None, None)}, "the worker died before it asked"
    deliver(world, run)
    passed, failed = (Outcome.PASSED, run.run_id), (Outcome.FAILED, run.run_id)
    assert results(world) == {"bowl": passed, "id": passed, "nobody": failed}
    (kept,) = [each for each in world.ledger.memory_tests.list(COMPANY, AGENT) if each.name == "nobody"]
    assert (kept.memory_ids, kept.reasons[0].startswith("finds: text of which nobody speaks is not shown")) == (
        (),
        True,
    )
    assert world.ledger.memory_tests.list(COMPANY, AGENT)[0].memory_ids == (BOWL,)
    before = world.ledger.memory_tests.list(COMPANY, AGENT)
    deliver(world, run)
    assert world.ledger.memory_tests.list(COMPANY, AGENT) == before, "not asked again"
    assert _counted(world, run) == {"tests_asked": 3, "tests_passed": 2, "tests_failed": 1}


async def test_a_test_by_id_passes_after_its_memory_was_merged_whole_and_after_the_undo(
    world: MaintenanceFixture,
) -> None:
    register(world, bowl(question=WORDS, name="id", finds=[{"id": BOWL}]))
    run = await ran(world, Writes(more=f" {TEXTS[1]}"))
    deliver(world, run)
    assert results(world) == {"id": (Outcome.PASSED, run.run_id)}
    undone = await world.undo(run.run_id)
    deliver(world, undone)
    assert results(world) == {"id": (Outcome.PASSED, undone.run_id)}


async def test_a_run_that_moved_nothing_asks_nothing_and_a_store_that_is_away_is_an_error(
    world: MaintenanceFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ran(world)
    register(world, bowl(question=WORDS), bowl(question=WORDS, name="next"))
    deliver(world, await ran(world))
    assert set(results(world).values()) == {(None, None)}
    world.clock.turn(timedelta(days=1))
    await world.store(
        [memory(70 + n, days_old=29 - n, content=f"{text} {n}", namespace="more") for n, text in enumerate(OTHERS)]
    )
    run = await ran(world)

    async def away(*_given: object) -> None:
        raise MemoryConnectionError("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(world.backend, "retrieve", away)
        deliver(world, run)
    assert results(world) == {"bowl": (Outcome.ERROR, run.run_id), "next": (None, None)}, "the others wait"
    assert _counted(world, run) == {"tests_asked": 1, "tests_error": 1}
    deliver(world, run)
    assert _counted(world, run)["tests_asked"] == 2, "those that waited are added"
    assert results(world)["next"] != (None, None)


async def test_a_test_that_was_replaced_meanwhile_keeps_no_result_of_the_one_before(world: MaintenanceFixture) -> None:
    register(world, bowl())
    (before,) = world.ledger.memory_tests.list(COMPANY, AGENT)
    register(world, bowl(question="Who had the bowl?"))
    world.ledger.memory_tests.keep(COMPANY, [before.model_copy(update={"outcome": Outcome.PASSED})])
    assert results(world) == {"bowl": (None, None)}
