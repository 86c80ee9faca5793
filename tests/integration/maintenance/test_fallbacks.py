"""Summaries that fell back while the model was away: written again from the archived originals when it is back."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from support.fake_summarizer import FakeSummarizer, said
from support.fault_injection import AT_CALLS, Crash, Faults, crash_points
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    FILLER,
    MaintenanceFixture,
    MakeMaintenanceFixture,
    memory,
    uid,
)
from support.model_runs import DUAL, LLM, leave_incomplete, with_model
from support.vector_backend import VectorInMemory

from memcore.config.maintenance import ConsolidationApply, ConsolidationConfig, GateConfig
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.errors import RetryExhaustedError
from memcore.jobs import Done, Skipped, Use
from memcore.ledger.consolidation_groups import GroupState
from memcore.ledger.runs import Run
from memcore.ledger.work_items import WorkState
from memcore.llm.protocol import Attribution, Completion, CompletionRequest
from memcore.maintenance.consolidation.llm import MERGE_PURPOSE, SHORTEN_PURPOSE
from memcore.maintenance.consolidation.proposals import shown_groups
from memcore.maintenance.provenance import trace_memory
from memcore.maintenance.undo import plan_undo
from memcore.models.memory import FALLBACK_TAG, MemoryMetadata
from memcore.records import MemoryRecord

DAY, NO_ZOOM = timedelta(days=1), MemoryRetrievalConfig(zoom=False)
GATED = LLM.model_copy(update={"gate": GateConfig(prompt_tokens=200)})
NAMES = ("", "Amara", "Kwame", "Halina", "Okello", "Zofia", "Gideon", "Ines")
#: What the model says when it is back.
WRITTEN = "In short: We spoke about"


@dataclass
class Model(FakeSummarizer):
    """A model that can be away."""

    is_away: bool = True

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        if self.is_away:
            self.asked.append(request)
            raise RetryExhaustedError("connection refused (4 attempts)")
        return await super().ask(request, by=by, key=key)


#: An agent whose groups fell back, its model, and the run that did it.
Fallen = tuple[MaintenanceFixture, Model, Run]


async def fell_back(
    make_maintenance_fixture: MakeMaintenanceFixture, policy: ConsolidationConfig = LLM, **more: Any
) -> Fallen:
    """An agent whose two groups fell back a day ago, and the run that did it."""
    model = Model()
    world = with_model(make_maintenance_fixture, model, policy)
    if policy is GATED:
        world.backend = VectorInMemory(company=COMPANY, clock=world.clock)
    world.patience = timedelta(0)
    await world.store(
        memory(
            n,
            days_old=60 - n,
            content=f"We spoke about {n} gardens with {NAMES[n]}. {FILLER} {FILLER}",
            tags=[f"t{n}"],
            expires_in_days=100 + n,
            **more,
        )
        for n in range(1, 8)
    )
    run = await world.maintenance_run()
    world.clock.turn(DAY)
    stubs = await world.summaries()
    assert [len(each.lineage.summary_of) for each in stubs] == [3, 3]
    assert all(FALLBACK_TAG in each.entry.metadata.tags for each in stubs)
    return world, model, run


def is_written(summary: MemoryRecord) -> bool:
    return WRITTEN in summary.entry.content and FALLBACK_TAG not in summary.entry.metadata.tags


async def check_written(world: MaintenanceFixture, label: object = None) -> list[MemoryRecord]:
    """Each original stands in one summary, which a model wrote, and is found in the archive by it."""
    summaries = sorted(await world.summaries(), key=lambda each: each.entry.created_at)
    assert [each.lineage.summary_of for each in summaries] == [
        tuple(uid(n) for n in part) for part in ((1, 2, 3), (4, 5, 6))
    ], label
    assert all(map(is_written, summaries)), label
    assert len(await world.live()) == 3, label
    copies = {each.record.entry.id: each.summary_id for each in await world.backend.indexed_archived(AGENT)}
    assert copies == {source: each.entry.id for each in summaries for source in each.lineage.summary_of}, label
    await world.check_balance()
    return summaries


@pytest.fixture
async def fallen(make_maintenance_fixture: MakeMaintenanceFixture) -> Fallen:
    return await fell_back(make_maintenance_fixture)


@pytest.mark.parametrize("policy", [LLM, DUAL], ids=["llm", "dual_mode"])
async def test_the_next_run_writes_them_again_and_an_undo_brings_them_back(
    make_maintenance_fixture: MakeMaintenanceFixture, policy: ConsolidationConfig
) -> None:
    world, model, before_run = await fell_back(make_maintenance_fixture, policy)
    before, copies = await world.snapshot(), await world.backend.indexed_archived(AGENT)
    stubs = await world.summaries()
    world.ledger.uses.count(
        COMPANY, "b", [Use(agent_id=AGENT, memory_id=stubs[0].entry.id, uses=1, last_used_at=world.clock())]
    )
    model.is_away = False

    run = await world.maintenance_run()

    summaries = await check_written(world)
    assert (run.counts["consolidated"], run.counts["summaries"]) == (2, 2)
    for stub, summary in zip(sorted(stubs, key=lambda each: each.entry.created_at), summaries, strict=True):
        assert summary.entry.id != stub.entry.id
        same = ("created_at", "expires_at", "category", "namespace", "agent_id")
        assert {name: getattr(summary.entry, name) for name in same} == {
            name: getattr(stub.entry, name) for name in same
        }
        assert summary.covers_until == stub.covers_until > summary.entry.created_at
        assert set(stub.entry.metadata.tags) - set(summary.entry.metadata.tags) == {FALLBACK_TAG}
        history = await trace_memory(
            summary.entry.id, backend=world.backend, ledger=world.ledger, company=COMPANY, journal_days=7
        )
        assert history.memory.made_of == (stub.entry.id,)
        assert history.originals() == summary.lineage.summary_of
        (replaced,) = [each for each in history.memories if each.memory_id == stub.entry.id]
        assert replaced.replaced_by == (summary.entry.id,)
    uses = world.ledger.uses.of(COMPANY, AGENT, [each.entry.id for each in summaries])
    assert sum(each.uses for each in uses.values()) == 1

    await world.undo(run.run_id)

    assert await world.snapshot() == before
    assert {(each.record.entry.id, each.summary_id) for each in await world.backend.indexed_archived(AGENT)} == {
        (each.record.entry.id, each.summary_id) for each in copies
    }
    assert before_run.counts["summaries"] == 2
    await world.check_balance()


async def test_the_archive_is_enough_when_the_journal_holds_nothing_any_more(fallen: Fallen) -> None:
    world, model, _ = fallen
    world.clock.turn(8 * DAY)
    assert world.ledger.journal.expire(COMPANY, before=world.clock()) == 2
    model.is_away = False
    await world.maintenance_run()
    assert all(map(is_written, await world.summaries()))


async def test_an_undo_of_the_older_run_brings_back_nothing_that_stands_in_the_new_text(fallen: Fallen) -> None:
    world, model, first = fallen
    originals = {uid(n) for n in range(1, 8)}
    model.is_away = False
    second = await world.maintenance_run()
    after = await world.snapshot()

    plan = await plan_undo(first.run_id, backend=world.backend, ledger=world.ledger, company=COMPANY)
    undone = await world.undo(first.run_id)

    assert (plan.restored, plan.removed, len(plan.skipped)) == ((), (), 8)
    assert "undo the newest first" in (undone.reason or "")
    assert await world.snapshot() == after
    await world.undo(second.run_id)
    await world.undo(first.run_id)
    assert set(await world.live()) == originals


@pytest.mark.parametrize("policy", [LLM, DUAL], ids=["llm", "dual_mode"])
async def test_a_model_that_is_still_away_changes_nothing_and_makes_no_second_fallback(
    make_maintenance_fixture: MakeMaintenanceFixture, policy: ConsolidationConfig
) -> None:
    world, model, _ = await fell_back(make_maintenance_fixture, policy)
    before, asked = await world.snapshot(), len(model.asked)

    runs = [await world.maintenance_run() for _ in range(2)]

    assert await world.snapshot() == before
    assert [each.counts["consolidated"] for each in runs] == [0, 0]
    assert asked < len(model.asked) <= 3 * asked, "once a run"
    assert (runs[-1].counts["postponed"], runs[-1].counts["left_unmerged"]) == (2, 1)
    await world.check_balance()


async def test_a_run_waits_for_the_model_as_for_new_memories_and_asks_it_again(fallen: Fallen) -> None:
    world, model, _ = fallen
    world.patience = timedelta(hours=24)
    before = await world.snapshot()
    run = world.plan_run()
    await world.service().run(run.run_id)
    await world.ask_model(run.run_id)
    assert world.ledger.syntheses.away(COMPANY) is not None
    assert await world.snapshot() == before
    model.is_away = False
    world.clock.turn(timedelta(hours=1))

    assert isinstance(await world.to_the_end(run.run_id), Done)

    await check_written(world)


async def test_a_bad_answer_keeps_the_fallback_and_is_asked_for_once_a_run(fallen: Fallen) -> None:
    world, model, _ = fallen
    before = await world.snapshot()
    model.is_away, asked = False, len(model.asked)
    model.script = [said("")] * 2

    await world.maintenance_run()

    assert await world.snapshot() == before
    assert len(model.asked) == asked + 2
    await world.maintenance_run()
    await check_written(world)


async def test_neither_too_little_new_nor_a_low_cap_keeps_them_waiting(
    make_maintenance_fixture: MakeMaintenanceFixture,
) -> None:
    policy = LLM.model_copy(update={"min_new": 99, "max_tokens_per_run": 1})
    world, model, _ = await fell_back(make_maintenance_fixture, LLM)
    world.policy, model.is_away = policy, False
    await world.store(memory(n, days_old=30 - n / 10) for n in range(11, 21))
    plan = await world.service().plan(AGENT)
    assert (plan.questions, plan.summaries >= 2, plan.waits) == (1, True, None)

    for _ in range(2):
        await world.maintenance_run()
        world.clock.turn(DAY)

    assert sum(map(is_written, await world.summaries())) == 2
    assert "fewer than consolidation.min_new" in str((await world.service().plan(AGENT)).waits)


async def _tag(world: MaintenanceFixture, stub: MemoryRecord) -> None:
    metadata = MemoryMetadata(source="consolidation", tags=(*stub.entry.metadata.tags, "mine"))
    await world.backend.set_metadata_many(AGENT, [stub.entry.id], metadata)


async def _rename(world: MaintenanceFixture, stub: MemoryRecord) -> None:
    entry = stub.entry.model_copy(update={"id": uid(900)})
    await world.backend.delete_many(AGENT, [stub.entry.id])
    await world.backend.store_many([replace(stub, entry=entry)])


async def _restore_one(world: MaintenanceFixture, stub: MemoryRecord) -> None:
    run = world.plan_run(kind="restore", scope_id=stub.lineage.summary_of[0])
    assert isinstance(await world.service().run(run.run_id), Done)


async def _drop_archive(world: MaintenanceFixture, stub: MemoryRecord) -> None:
    del stub
    now = world.clock()
    entries = world.ledger.archive.expired(COMPANY, returned_before=now, before=now)
    world.ledger.archive.drop(COMPANY, entries, returned_before=now, before=now)


OTHERS: dict[str, Callable[[MaintenanceFixture, MemoryRecord], Any]] = {
    "tagged by hand": _tag,
    "of another strategy": _rename,
    "an original is back": _restore_one,
    "the archive is empty": _drop_archive,
}


@pytest.mark.parametrize("change", OTHERS)
async def test_one_that_is_no_longer_what_the_strategy_made_is_left_alone(fallen: Fallen, change: str) -> None:
    world, model, _ = fallen
    for stub in await world.summaries():
        await OTHERS[change](world, stub)
    before, asked = await world.snapshot(), len(model.asked)
    model.is_away = False

    run = await world.maintenance_run()

    assert await world.snapshot() == before
    assert len(model.asked) == asked
    assert "postponed" not in run.counts, "it is no group"


async def test_one_that_is_changed_while_the_model_writes_is_left_alone(fallen: Fallen) -> None:
    world, model, _ = fallen
    model.is_away = False
    run = world.plan_run()
    await world.service().run(run.run_id)
    await world.ask_model(run.run_id)
    first, second = await world.summaries()
    await _tag(world, first)
    now = world.clock()
    lost = [
        each
        for each in world.ledger.archive.expired(COMPANY, returned_before=now, before=now)
        if (found := world.ledger.archive.find(COMPANY, AGENT, each.archival_id)) is not None
        and found.original_id == second.lineage.summary_of[0]
    ]
    assert world.ledger.archive.drop(COMPANY, lost, returned_before=now, before=now) == 1
    before = await world.snapshot()

    assert isinstance(await world.to_the_end(run.run_id), Done)

    assert await world.snapshot() == before


async def test_another_strategy_leaves_them_alone(fallen: Fallen) -> None:
    world, model, _ = fallen
    before = await world.snapshot()
    model.is_away = False
    for policy in (DUAL, LLM.model_copy(update={"strategy": "condense"})):
        world.policy = policy
        await world.maintenance_run()
    assert await world.snapshot() == before


async def test_shorter_prompts_than_before_keep_the_fallback_and_fail_no_run(fallen: Fallen) -> None:
    world, model, _ = fallen
    before = await world.snapshot()
    model.is_away = False
    world.policy = ConsolidationConfig.model_validate(
        LLM.model_dump() | {"llm": {"max_entry_input_chars": 1_000, "max_total_user_content_chars": 1_000}}
    )
    await world.service().plan(AGENT)

    await world.maintenance_run()

    assert await world.snapshot() == before


async def test_a_person_sees_the_new_text_beside_the_old_one_and_adopts_it(fallen: Fallen) -> None:
    world, model, _ = fallen
    before = await world.snapshot()
    stubs = sorted(await world.summaries(), key=lambda each: each.entry.created_at)
    model.is_away = False
    world.policy = LLM.model_copy(update={"apply": ConsolidationApply.PROPOSE})
    planned = world.plan_run()
    assert isinstance(await world.to_the_end(planned.run_id), Skipped)
    assert await world.snapshot() == before

    shown = await shown_groups(world.ledger, world.backend, world.run(planned.run_id))

    assert [each.sources[0].content for each in shown] == [each.entry.content for each in stubs]
    assert all(WRITTEN in (each.summary or "") and not each.has_changed for each in shown)
    world.ledger.runs.decide_groups(COMPANY, planned.run_id, GroupState.DISMISSED, by="person:Ada", places=(2,))
    assert isinstance(await world.to_the_end(planned.run_id), Skipped)
    world.ledger.runs.decide_groups(COMPANY, planned.run_id, GroupState.APPROVED, by="person:Ada", places=(1,))
    assert isinstance(await world.to_the_end(planned.run_id), Done)
    live = await world.live()
    assert stubs[0].entry.id not in live
    assert stubs[1].entry.id in live
    assert sum(map(is_written, live.values())) == 1
    await world.check_balance()
    assert (await world.maintenance_run()).counts["consolidated"] == 0, "nobody is asked again"
    await world.undo(planned.run_id)
    assert await world.snapshot() == before


@pytest.mark.parametrize("is_bad", [False, True])
async def test_the_gate_judges_the_new_text_beside_the_originals(
    make_maintenance_fixture: MakeMaintenanceFixture, monkeypatch: pytest.MonkeyPatch, is_bad: bool
) -> None:
    leave_incomplete(monkeypatch)
    world, model, _ = await fell_back(make_maintenance_fixture, GATED)
    before, asked = await world.snapshot(), len(model.asked)
    model.is_away = False
    model.script = [said(FILLER)] * 2 if is_bad else []

    async def run() -> Run:
        planned = world.plan_run()
        for _ in range(3):
            await world.service(retrieval=NO_ZOOM).run(planned.run_id)
            await world.ask_model(planned.run_id)
        return world.run(planned.run_id)

    done = await run()

    assert done.state is WorkState.DONE
    assert done.counts["gate_probes"] > 0
    assert done.counts["gate_refused"] == (2 if is_bad else 0)
    assert len(model.asked) == asked + 2
    if is_bad:
        assert await world.snapshot() == before
        await run()
        assert len(model.asked) == asked + 2, "no model is asked about what the gate refused"
    else:
        assert all(map(is_written, await world.summaries()))


@pytest.mark.slow(because="dozens of crashes, each with the run that follows and its undo")
async def test_a_crash_at_any_call_loses_nothing_and_doubles_nothing(fallen: Fallen) -> None:
    world, model, _ = fallen
    model.is_away = False
    before = await world.snapshot()
    go_back = world.keep()

    async def attempt(faults: Faults, run_id: str) -> None:
        backend, ledger = faults.backend(world.backend), faults.ledger(world.ledger)
        await world.service(backend, ledger).run(run_id)
        for place in (0, 1):
            await world.synthesis(backend, ledger).ask(run_id, place)
        await world.service(backend, ledger).run(run_id)

    seen = Faults()
    await attempt(seen, world.plan_run().run_id)
    after = await world.snapshot()
    assert "archive.find" in seen.calls
    for point in crash_points(seen.calls):
        for is_after in AT_CALLS:
            go_back()
            run = world.plan_run()
            with pytest.raises(Crash):
                await attempt(Faults(point, is_after=is_after), run.run_id)
            label = (point, seen.calls[point])
            copies = {each.record.entry.id: each.summary_id for each in await world.backend.indexed_archived(AGENT)}
            live = await world.live()
            assert set(copies) == {uid(n) for n in range(1, 7)}, label
            assert set(copies.values()) <= set(live), label
            world.end_lease()
            assert isinstance(await world.to_the_end(run.run_id), Done), label
            await check_written(world, label)
            assert await world.snapshot() == after, label
            await world.undo(run.run_id)
            assert await world.snapshot() == before, label


async def test_the_texts_behind_go_with_the_new_one_when_its_rule_removes_it(fallen: Fallen) -> None:
    world, model, _ = fallen
    model.is_away = False
    await world.maintenance_run()
    world.clock.turn(110 * DAY)
    await world.maintenance_run()
    assert not await world.summaries()

    world.clock.turn(8 * DAY)
    world.ledger.journal.expire(COMPANY, before=world.clock())

    assert world.ledger.archive.count(COMPANY, AGENT) == 0


async def test_the_ledger_says_how_many_questions_have_no_answer_and_since_when(fallen: Fallen) -> None:
    world, model, run = fallen
    world.clock.turn(DAY)
    await world.maintenance_run()

    unanswered = world.ledger.answers.unanswered(COMPANY, MERGE_PURPOSE, SHORTEN_PURPOSE)

    assert unanswered is not None
    assert unanswered[:2] == (2, 1)
    assert timedelta(0) <= unanswered[2] - run.created_at < timedelta(hours=1), "since the first time"
    assert world.ledger.answers.unanswered("other", MERGE_PURPOSE) is None
    model.is_away = False
    await world.maintenance_run()
    assert world.ledger.answers.unanswered(COMPANY, MERGE_PURPOSE, SHORTEN_PURPOSE) is None
