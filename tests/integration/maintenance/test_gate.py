"""The gate in a run: a group whose summary costs answers stays, one whose summary does not is replaced."""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from support.fault_injection import Crash, Faults, crash_points
from support.maintenance_fixture import AGENT, COMPANY, CONDENSE, MaintenanceFixture, MakeMaintenanceFixture, memory
from support.present import present
from support.vector_backend import VectorInMemory

from memcore.backends.fusion import RankedLists
from memcore.config.maintenance import ConsolidationConfig, GateConfig
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.errors import MemoryRetrievalError
from memcore.jobs import Done
from memcore.ledger.consolidation_groups import GroupState
from memcore.maintenance.consolidation.factory import ConsolidationDeps
from memcore.maintenance.consolidation.strategy import (
    ChunkLimits,
    CompositeConsolidationStrategy,
    HighestRelevanceSelector,
    SummaryDraft,
    summary_record,
)
from memcore.maintenance.gate import Gate
from memcore.maintenance.probes import MOST_PROBES
from memcore.maintenance.service import MaintenanceService
from memcore.maintenance.shadow import ShadowMemories
from memcore.models.memory import ABSTRACTIVE_TAG, SYNTHESIZED_TAG, MemoryQuery
from memcore.records import MemoryRecord

#: Facts of which nothing can be left out, and their namespace.
FACTS = (
    "Amara must never eat peanuts or sesame.",
    "Kwame keeps the spare key under the blue flowerpot.",
    "Halina pays the invoice 4711 on every 17 March.",
    "Okello asks for Gideon when the boiler is cold.",
    "Zofia parks the van behind the old brewery.",
)
#: Small talk of a second group.
TALK = tuple(f"The standup number {n} was short and friendly as always." for n in range(5))

NO_ZOOM = MemoryRetrievalConfig(zoom=False)


class Writes:
    """Writes a summary of its choice: all facts, or nothing that anybody would ask for."""

    def __init__(self, *, lossless: bool = False, tags: tuple[str, ...] = ()) -> None:
        self.asked: list[Sequence[str]] = []
        self._lossless = lossless
        self._tags = tags

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        del kept
        self.asked.append([source.entry.id for source in sources])
        texts = [source.entry.content for source in sources]
        if sources[0].entry.namespace == "talk":
            return SummaryDraft(content="\n".join(texts), tags=self._tags)
        return SummaryDraft(content="Several things were said.", tags=self._tags, is_lossless=self._lossless)


async def filled(make: MakeMaintenanceFixture, gate: GateConfig | None = None) -> MaintenanceFixture:
    policy = ConsolidationConfig(strategy=CONDENSE, max_removed_fraction=1.0, gate=gate or GateConfig())
    world = make(policy)
    world.backend = VectorInMemory(company=COMPANY, clock=world.clock)
    facts = [memory(n, days_old=60 - n, content=text, namespace="facts") for n, text in enumerate(FACTS, 1)]
    talk = [memory(n, days_old=60 - n, content=text, namespace="talk") for n, text in enumerate(TALK, 11)]
    await world.store([*facts, *talk])
    return world


def service(world: MaintenanceFixture, op: Writes, *, faults: Faults | None = None, **more: Any) -> MaintenanceService:
    def build(_deps: ConsolidationDeps) -> CompositeConsolidationStrategy:
        return CompositeConsolidationStrategy(HighestRelevanceSelector(), op, name="test", limits=ChunkLimits())

    backend, ledger = world.backend, world.ledger
    given = (faults.backend(backend), faults.ledger(ledger)) if faults else (backend, ledger)
    return world.service(*given, build_strategy=build, **({"retrieval": NO_ZOOM} | more))


async def live_texts(world: MaintenanceFixture) -> set[str]:
    return {record.entry.content for record in (await world.live()).values()}


@pytest.fixture
async def world(make_maintenance_fixture: MakeMaintenanceFixture) -> MaintenanceFixture:
    return await filled(make_maintenance_fixture)


async def test_a_group_that_would_lose_answers_stays_and_another_is_replaced(world: MaintenanceFixture) -> None:
    before = await world.snapshot()
    run = world.plan_run()
    assert isinstance(await service(world, Writes()).run(run.run_id), Done)

    done = world.run(run.run_id)
    assert done.counts["gate_refused"] == 1
    assert (done.counts["consolidated"], done.counts["summaries"]) == (4, 1)
    assert done.counts["gate_probes"] >= done.counts["gate_found_before"] > done.counts["gate_found_after"]
    assert "refused 1 of 2 groups" in (done.reason or "")
    assert set(FACTS) <= await live_texts(world)
    groups = world.ledger.consolidation_groups.of_run(COMPANY, run.run_id)
    assert Counter(group.state for group in groups) == {GroupState.REFUSED: 1, GroupState.ADOPTED: 1}
    (refused,) = [group for group in groups if group.state is GroupState.REFUSED]
    assert set(refused.source_ids) <= set(before)
    await world.check_balance()

    await world.undo(run.run_id)
    assert await world.snapshot() == before


async def test_a_refused_group_is_not_judged_or_written_again_while_it_is_the_same(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    world, op = await filled(make_maintenance_fixture), Writes()
    await service(world, op).run(world.plan_run().run_id)
    run = world.plan_run()
    assert isinstance(await service(world, op).run(run.run_id), Done)
    assert len(op.asked) == 2, "each group once"
    assert "gate_refused" not in world.run(run.run_id).counts
    await world.store([memory(30, days_old=30, content="Yusuf paints the fence in May.", namespace="facts")])
    await service(world, op).run(world.plan_run().run_id)
    assert len(op.asked) == 3, "the group has changed"


@pytest.mark.parametrize(
    ("gate", "lossless"),
    [(GateConfig(enabled=False), False), (GateConfig(max_loss=1.0), False), (GateConfig(), True)],
    ids=["off", "may lose all", "lossless"],
)
async def test_nothing_is_refused_where_nothing_is_judged_or_all_may_be_lost(
    make_maintenance_fixture: MakeMaintenanceFixture, gate: GateConfig, *, lossless: bool
) -> None:
    world = await filled(make_maintenance_fixture, gate)
    run = world.plan_run()
    assert isinstance(await service(world, Writes(lossless=lossless)).run(run.run_id), Done)
    assert world.run(run.run_id).counts["summaries"] == 2
    assert not world.run(run.run_id).counts.get("gate_refused")


async def test_with_the_archive_in_prompts_nothing_is_lost(world: MaintenanceFixture) -> None:
    run = world.plan_run()
    await service(world, Writes(), retrieval=MemoryRetrievalConfig()).run(run.run_id)
    counts = world.run(run.run_id).counts
    assert counts["gate_found_before"] == counts["gate_found_after"] > 0
    assert counts["summaries"] == 2


@pytest.mark.parametrize("tag", [SYNTHESIZED_TAG, ABSTRACTIVE_TAG])
@pytest.mark.parametrize("zoom", [False, True])
async def test_the_archive_does_not_answer_for_what_a_model_wrote(
    make_maintenance_fixture: MakeMaintenanceFixture, monkeypatch: pytest.MonkeyPatch, tag: str, zoom: bool
) -> None:
    async def searched(*_: object) -> bool:
        return True

    # Search has no archive: what is to be seen is the prompt.
    monkeypatch.setattr(Gate, "_is_searched", searched)
    world = await filled(make_maintenance_fixture)
    run = world.plan_run()
    await service(world, Writes(tags=(tag,)), retrieval=MemoryRetrievalConfig(zoom=zoom)).run(run.run_id)
    counts = world.run(run.run_id).counts
    assert counts["gate_found_before"] > counts["gate_found_after"]
    assert (counts["gate_refused"], counts["summaries"]) == (1, 1)


async def test_what_a_prompt_shows_and_search_does_not_is_not_found(
    world: MaintenanceFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Writes(tags=(SYNTHESIZED_TAG,))
    assert (await service(world, written).plan(AGENT)).gate is not None

    async def unseen(*_: object) -> bool:
        return False

    monkeypatch.setattr(Gate, "_is_searched", unseen)
    plan = await service(world, written).plan(AGENT)
    assert plan.gate is not None
    assert (plan.gate.found_before, plan.gate.found_after) == (0, 0)


async def test_a_plan_says_what_the_gate_would_refuse(world: MaintenanceFixture) -> None:
    plan = await service(world, Writes()).plan(AGENT)
    assert plan.gate is not None
    assert (plan.gate.judged, plan.gate.refused) == (2, 1)
    assert plan.gate.greatest_loss == 1.0
    assert plan.gate.found_after < plan.gate.found_before
    assert await live_texts(world) == {*FACTS, *TALK}


async def test_a_crash_at_any_call_leaves_the_same_in_the_end(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    calm = Faults()
    world = await filled(make_maintenance_fixture)
    go_back = world.keep()
    await service(world, Writes(), faults=calm).run(world.plan_run().run_id)
    expected = await live_texts(world)
    assert {"backend.query_vectors", "consolidation_groups.note"} <= set(calm.calls)
    for at in crash_points(calm.calls):
        go_back()
        run = world.plan_run()
        with pytest.raises(Crash):
            await service(world, Writes(), faults=Faults(at)).run(run.run_id)
        world.end_lease()
        assert isinstance(await service(world, Writes()).run(run.run_id), Done), calm.calls[at]
        assert await live_texts(world) == expected, calm.calls[at]
        assert world.run(run.run_id).counts["gate_refused"] == 1, calm.calls[at]
        await world.check_balance()


@pytest.mark.parametrize("seed", range(5))
async def test_a_summary_that_says_all_loses_nothing(world: MaintenanceFixture, seed: int) -> None:
    world.backend = VectorInMemory(company=COMPANY, clock=world.clock)
    texts = [" ".join(text.split()[seed % 3 :]) for text in (*FACTS, *TALK)]
    sources = [memory(n, content=text) for n, text in enumerate(texts[seed : seed + 5], 1)]
    await world.store(sources)
    gate = Gate(world.service()._snapshot(AGENT), GateConfig(max_loss=0.0), NO_ZOOM)
    summary = summary_record(sources, SummaryDraft(content="\n".join(texts)), company=COMPANY, strategy="test")
    verdict = present(await gate.judge(sources, summary))
    assert verdict.figures.found_before > 0
    assert verdict.figures.loss == 0.0
    assert not verdict.is_refused
    assert verdict.summary.vectors is not None


async def test_judging_again_in_the_same_order_gives_the_same(world: MaintenanceFixture) -> None:
    world.backend = VectorInMemory(company=COMPANY, clock=world.clock)
    sources = [memory(n, content=text) for n, text in enumerate((*FACTS, *TALK), 1)]
    await world.store(sources)
    parts = [sources[:5], sources[5:]]
    seen = []
    for _ in range(2):
        gate = Gate(world.service()._snapshot(AGENT), GateConfig(), NO_ZOOM)
        drafts = [
            summary_record(part, SummaryDraft(content="Things."), company=COMPANY, strategy="t") for part in parts
        ]
        verdicts = [await gate.judge(part, draft) for part, draft in zip(parts, drafts, strict=True)]
        # A refused group is as it was before it was judged.
        again = summary_record(parts[0], SummaryDraft(content="Again."), company=COMPANY, strategy="u")
        verdicts.append(await gate.judge(parts[0], again))
        assert [verdict and verdict.is_refused for verdict in verdicts] == [True, True, True]
        assert len({verdict.figures for verdict in (verdicts[0], verdicts[2]) if verdict}) == 1
        seen.append([verdict and (verdict.figures, verdict.is_refused) for verdict in verdicts])
    assert seen[0] == seen[1]


@pytest.mark.parametrize(("fails_from", "kept"), [(0, FACTS), (MOST_PROBES, ["Things."])], ids=["with it", "without"])
async def test_a_group_whose_prompt_fails_is_refused(
    world: MaintenanceFixture, monkeypatch: pytest.MonkeyPatch, fails_from: int, kept: Sequence[str]
) -> None:
    world.backend = VectorInMemory(company=COMPANY, clock=world.clock)
    sources = [memory(n, content=text) for n, text in enumerate(FACTS, 1)]
    await world.store(sources)
    searches, search = itertools.count(), ShadowMemories.retrieve_rankings

    async def fails(self: ShadowMemories, agent_id: str, query: MemoryQuery, **more: Any) -> RankedLists:
        if next(searches) >= fails_from:
            raise MemoryRetrievalError("a search that fails")
        return await search(self, agent_id, query, **more)

    summary = summary_record(sources, SummaryDraft(content="\n".join(kept)), company=COMPANY, strategy="test")
    gate = Gate(world.service()._snapshot(AGENT), GateConfig(max_loss=1.0), NO_ZOOM)
    monkeypatch.setattr(ShadowMemories, "retrieve_rankings", fails)
    verdict = present(await gate.judge(sources, summary))
    assert verdict.is_refused
