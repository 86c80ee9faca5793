"""Recorded questions in the gate: what an agent asked before is asked of a summary too."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event
from support.fault_injection import Crash, Faults, crash_points
from support.maintenance_fixture import AGENT, COMPANY, MaintenanceFixture, MakeMaintenanceFixture, memory, uid
from support.vector_backend import VectorInMemory

from memcore.config.maintenance import ConsolidationConfig, ConsolidationStrategyType
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.jobs import Done, RecordedQuery
from memcore.ledger.runs import Run
from memcore.maintenance.consolidation.factory import ConsolidationDeps
from memcore.maintenance.consolidation.strategy import (
    ChunkLimits,
    CompositeConsolidationStrategy,
    HighestRelevanceSelector,
    SummaryDraft,
)
from memcore.records import MemoryRecord
from memcore.retrieval.context import ContextInjectionStrategy

#: The drawn probes ask what was eaten, which the summary says; of the bowl nobody asks who has not asked before.
TEXTS = [
    f"On day {n} the tortoise ate {food}.{more}"
    for n, (food, more) in enumerate(
        [("lettuce", ""), ("carrots", " Amara carried the bowl."), ("clover", ""), ("radish", ""), ("spinach", "")], 1
    )
]
BOWL = uid(2)
QUESTION = "Who carried the bowl?"

KEPT = MemoryRetrievalConfig(zoom=False, record_queries=True)


class Writes:
    """Writes a summary of all food, and of nobody."""

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        del kept
        return SummaryDraft(content=" ".join(source.entry.content.partition(".")[0] for source in sources) + ".")


def build(_deps: ConsolidationDeps) -> CompositeConsolidationStrategy:
    return CompositeConsolidationStrategy(HighestRelevanceSelector(), Writes(), name="test", limits=ChunkLimits())


async def filled(make: MakeMaintenanceFixture, groups: int = 1) -> MaintenanceFixture:
    policy = ConsolidationConfig(strategy=ConsolidationStrategyType.CONDENSE, max_removed_fraction=1.0)
    world = make(policy)
    world.backend = VectorInMemory(company=COMPANY, clock=world.clock)
    for group in range(groups):
        # Of another animal, and without a bowl, but in the first group.
        other = {"tortoise": f"animal {group}", "Amara carried the bowl": "The day was calm"}
        texts = list(TEXTS)
        for old, new in other.items() if group else ():
            texts = [text.replace(old, new) for text in texts]
        await world.store(
            memory(n + 10 * group, days_old=60 - n, content=text, namespace=f"group {group}")
            for n, text in enumerate(texts, 1)
        )
    return world


def asked(world: MaintenanceFixture, *memory_ids: str, question: str = QUESTION, days_ago: int = 1) -> RecordedQuery:
    at = world.clock() - timedelta(days=days_ago)
    return RecordedQuery(agent_id=AGENT, question=question, memory_ids=memory_ids or (BOWL,), asked_at=at)


async def ran(
    world: MaintenanceFixture, *, retrieval: MemoryRetrievalConfig = KEPT, faults: Faults | None = None
) -> Run:
    return await finished(world, world.plan_run().run_id, retrieval=retrieval, faults=faults)


async def finished(
    world: MaintenanceFixture,
    run_id: str,
    *,
    retrieval: MemoryRetrievalConfig = KEPT,
    faults: Faults | None = None,
) -> Run:
    backend, ledger = world.backend, world.ledger
    given = (faults.backend(backend), faults.ledger(ledger)) if faults else (backend, ledger)
    assert isinstance(await world.service(*given, build_strategy=build, retrieval=retrieval).run(run_id), Done)
    return world.run(run_id)


async def texts_of(world: MaintenanceFixture) -> list[str]:
    return sorted(record.entry.content for record in (await world.live()).values())


@pytest.fixture
async def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return await filled(make_maintenance_fixture)


async def test_a_question_that_was_asked_refuses_what_drawn_ones_let_pass(world: MaintenanceFixture) -> None:
    go_back = world.keep()
    before = await ran(world)
    assert (before.counts["gate_refused"], before.counts["summaries"]) == (0, 1)
    assert not any("Amara" in text for text in await texts_of(world))
    go_back()
    world.ledger.recorded_queries.record(COMPANY, [asked(world)])
    outlook = await world.service(build_strategy=build, retrieval=KEPT).foresee(AGENT)
    assert (outlook.refused, dict(outlook.gone), outlook.after) == (1, {}, len(TEXTS))
    after = await ran(world)
    assert after.counts["gate_refused"] == 1
    assert after.counts["gate_probes"] == before.counts["gate_probes"] + 1
    assert after.counts["gate_found_before"] == after.counts["gate_found_after"] + 1
    assert await texts_of(world) == sorted(TEXTS)


@contextmanager
def reads_of_questions(world: MaintenanceFixture) -> Iterator[list[str]]:
    """Every statement that reads the table."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if "recorded_queries" in statement:
            seen.append(statement)

    engine = world.ledger.recorded_queries._database.engine()
    event.listen(engine, "before_cursor_execute", note)
    yield seen
    event.remove(engine, "before_cursor_execute", note)


async def test_the_questions_are_read_once_in_a_run_and_never_without_the_key(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world = await filled(make_maintenance_fixture, groups=3)
    world.ledger.recorded_queries.record(COMPANY, [asked(world)])
    go_back = world.keep()
    with reads_of_questions(world) as seen:
        run = await ran(world)
    assert (run.counts["gate_refused"], run.counts["summaries"]) == (1, 2)
    assert len(seen) == 1
    go_back()
    with reads_of_questions(world) as seen:
        run = await ran(world, retrieval=MemoryRetrievalConfig(zoom=False))
    assert (run.counts["gate_refused"], run.counts["summaries"]) == (0, 3)
    assert not seen


@pytest.mark.parametrize(
    "changed",
    [
        {"memory_ids": (uid(99),)},
        {"asked_at": -timedelta(days=31)},
        {"question": "Whose turn is it?"},
        {"question": TEXTS[1]},
        {"agent_id": "bob"},
    ],
    ids=["a memory that is gone", "too long ago", "not a word in common", "no word beside it", "another agent"],
)
async def test_a_question_that_says_nothing_of_the_group_is_not_asked(
    world: MaintenanceFixture, changed: dict[str, Any]
) -> None:
    if "asked_at" in changed:
        changed = {"asked_at": world.clock() + changed["asked_at"]}
    world.ledger.recorded_queries.record(COMPANY, [asked(world).model_copy(update=changed)])
    world.ledger.recorded_queries.record("globex", [asked(world)])
    run = await ran(world)
    assert (run.counts["gate_probes"], run.counts["gate_refused"], run.counts["summaries"]) == (2, 0, 1)


async def test_the_newest_for_which_a_memory_came_first_is_asked_beside_the_drawn_ones(
    world: MaintenanceFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, older, second = (f"What did the tortoise eat {when}?" for when in ("on day 1", "before", "at last"))
    world.ledger.recorded_queries.record(
        COMPANY,
        [
            asked(world, uid(3), question=older, days_ago=3),
            asked(world, uid(1), question=wanted, days_ago=2),
            asked(world, uid(99), uid(4), question=second, days_ago=1),
            asked(world, days_ago=9),
        ],
    )
    prepare, prepared = ContextInjectionStrategy.prepare_messages, list[str]()

    async def noting(self: ContextInjectionStrategy, agent_id: str, query_text: str, token_budget: int) -> Any:
        prepared.append(query_text)
        return await prepare(self, agent_id, query_text, token_budget)

    monkeypatch.setattr(ContextInjectionStrategy, "prepare_messages", noting)
    run = await ran(world)
    assert {wanted, older, second, QUESTION}.intersection(prepared) == {wanted}
    assert prepared[0] == wanted
    assert (run.counts["gate_probes"], run.counts["gate_refused"], run.counts["summaries"]) == (3, 0, 1)


async def test_a_crash_at_any_call_leaves_the_same_in_the_end(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    world = await filled(make_maintenance_fixture, groups=2)
    world.ledger.recorded_queries.record(COMPANY, [asked(world)])
    go_back, calm = world.keep(), Faults()
    await ran(world, faults=calm)
    expected = await texts_of(world)
    assert calm.calls.count("recorded_queries.of") == 1
    for at in sorted({*crash_points(calm.calls), calm.calls.index("recorded_queries.of")}):
        go_back()
        with pytest.raises(Crash):
            await ran(world, faults=Faults(at))
        world.end_lease()
        (run_id,) = [run.run_id for run in world.ledger.runs.list(COMPANY)]
        await finished(world, run_id)
        assert await texts_of(world) == expected, calm.calls[at]
        assert world.run(run_id).counts["gate_refused"] == 1, calm.calls[at]
        await world.check_balance()
