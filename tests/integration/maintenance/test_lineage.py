"""Lineage: a summary names its originals and an original its summaries, whatever happened since."""

import asyncio
from datetime import timedelta
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from sqlalchemy import text
from support.fake_summarizer import FakeSummarizer
from support.maintenance_fixture import (
    AGENT,
    COMPANY,
    CONDENSE,
    MaintenanceFixture,
    memory,
    opened_world,
    uid,
)
from support.present import present
from support.random_histories import HISTORIES, POLICIES, Step, replay_history, stores
from support.thorough import examples

from memcore.config.maintenance import ConsolidationConfig, RetentionConfig
from memcore.errors import MemoryNotFoundError
from memcore.ledger.runs import NewRun
from memcore.maintenance.provenance import MemoryHistory, MemoryState, MemoryTrace, TextLocation, trace_memory
from memcore.models.memory import MemoryMetadata
from memcore.models.origin import Authority
from memcore.records import MemoryRecord

JOURNAL_DAYS = 7


async def why(
    world: MaintenanceFixture, memory_id: str, *, with_text: bool = False, agent_id: str | None = None
) -> MemoryHistory:
    return await trace_memory(
        memory_id,
        backend=world.backend,
        ledger=world.ledger,
        company=COMPANY,
        journal_days=JOURNAL_DAYS,
        agent_id=agent_id,
        with_text=with_text,
    )


def made(world: MaintenanceFixture) -> dict[str, tuple[str, ...]]:
    """Every summary that a run ever made, by the journal in full: its id, and the memories that went for it."""
    return {
        record.entry.id: tuple(gone.entry.id for gone in journal_entry.outgoing)
        for run in world.ledger.runs.list(COMPANY, agent_id=AGENT, limit=1000)
        for journal_entry in world.ledger.journal.journal_entries(run.run_id)
        for record in journal_entry.incoming
        if journal_entry.incoming_kind == "created"
    }


def originals(made_of: dict[str, tuple[str, ...]], memory_id: str) -> set[str]:
    found: set[str] = set()
    for each in made_of[memory_id]:
        found |= originals(made_of, each) if each in made_of else {each}
    return found


def summaries(made_of: dict[str, tuple[str, ...]], memory_id: str) -> set[str]:
    above = {each for each, members in made_of.items() if memory_id in members}
    return above.union(*(summaries(made_of, each) for each in above))


@given(records=stores(most=16), policy=POLICIES, history=HISTORIES, untagged=st.booleans())
@settings(max_examples=examples(4))
def test_after_any_days_each_summary_names_its_originals_and_each_original_its_summaries(
    ledger_template: Path,
    records: list[MemoryRecord],
    policy: ConsolidationConfig,
    history: list[Step],
    untagged: bool,
) -> None:
    if untagged:
        history = [Step(act="night"), Step(act="untag"), Step(act="night"), *history]
    with opened_world(ledger_template, policy) as world:
        world.model = FakeSummarizer()
        asyncio.run(_ask_about_everything(world, records, history))


async def _ask_about_everything(world: MaintenanceFixture, records: list[MemoryRecord], history: list[Step]) -> None:
    await world.store(records)
    await replay_history(world, history)
    made_of = made(world)
    live = await world.live()
    # One that an agent deleted before any run had moved it has left nothing behind.
    known = sorted({*live, *made_of, *world.all_journaled()})
    texts = {memory_id: record.entry.content for memory_id, record in world.all_journaled().items()}
    texts |= {memory_id: record.entry.content for memory_id, record in live.items()}
    for memory_id in known:
        memory_history = await why(world, memory_id, agent_id=AGENT, with_text=True)
        _agrees(memory_history, made_of)
        described = memory_history.memory
        assert (described.state is MemoryState.LIVE) == (memory_id in live)
        assert (described.text_in is TextLocation.STORE) == (memory_id in live)
        if described.text_in is not TextLocation.GONE:
            assert described.text == texts.get(memory_id, described.text)
        assert [(each.run_id, each.kind) for each in described.chapters] == _journaled(world, memory_id)

    world.clock.turn(timedelta(days=30))
    world.ledger.journal.expire(COMPANY, before=world.clock())
    for memory_id in known[::3]:
        memory_history = await why(world, memory_id, agent_id=AGENT, with_text=True)
        _agrees(memory_history, made_of)
        # The archive outlives the journal.
        assert memory_history.memory.text_in is not TextLocation.JOURNAL
        assert (memory_history.memory.text_in is TextLocation.STORE) == (memory_id in live)
        assert (memory_history.memory.text is None) == (memory_history.memory.text_in is TextLocation.GONE)


def _journaled(world: MaintenanceFixture, memory_id: str) -> list[tuple[str, str]]:
    """Read from the tables themselves what settled entries did to a memory."""
    query = text(
        "SELECT run_id, kind FROM booking_records JOIN bookings USING (booking_id) "
        "WHERE memory_id = :memory_id AND NOT void AND state = 'done' ORDER BY prepared_at, seq"
    )
    with world.ledger.journal._database.read() as connection:
        return [(row.run_id, row.kind) for row in connection.execute(query, {"memory_id": memory_id})]


def _agrees(memory_history: MemoryHistory, made_of: dict[str, tuple[str, ...]]) -> None:
    memory_id = memory_history.memory_id
    assert set(memory_history.memory.made_of) == set(made_of.get(memory_id, ()))
    assert set(memory_history.originals()) == (originals(made_of, memory_id) if memory_id in made_of else set())
    assert set(memory_history.summaries()) == summaries(made_of, memory_id)
    if memory_history.memory.state is MemoryState.REPLACED:
        assert set(memory_history.memory.replaced_by) <= set(memory_history.memory.made_into)
        assert memory_history.memory.replaced_by


async def _merged(world: MaintenanceFixture) -> str:
    await world.store(memory(n, days_old=40 - n, content=f"the text of memory {n}") for n in range(1, 6))
    await world.maintenance_run()
    (summary,) = await world.summaries()
    return summary.entry.id


def trace_of(memory_history: MemoryHistory, memory_id: str) -> MemoryTrace:
    return present(memory_history.find(memory_id))


async def test_a_summary_tells_what_it_stands_for_and_where_that_is_in_full(world: MaintenanceFixture) -> None:
    summary_id = await _merged(world)

    memory_history = await why(world, summary_id)

    assert (memory_history.agent_id, memory_history.memory.state) == (AGENT, MemoryState.LIVE)
    assert memory_history.memory.made_of == tuple(uid(n) for n in range(1, 5))
    (history_event,) = memory_history.memory.chapters
    assert (history_event.kind, history_event.reason, history_event.run_kind, history_event.origin) == (
        "created",
        "consolidated",
        "maintenance",
        "manual",
    )
    first = trace_of(memory_history, uid(1))
    assert (first.state, first.replaced_by, first.text_in) == (
        MemoryState.REPLACED,
        (summary_id,),
        TextLocation.ARCHIVE,
    )
    assert first.text is None
    assert first.text_until is None
    with_texts = await why(world, summary_id, with_text=True)
    assert trace_of(with_texts, uid(1)).text == "the text of memory 1"
    # Of one in the archive, too, it is known; without its text nothing is said of it.
    assert {each.authority for each in with_texts.memories} == {Authority.INFORM}
    assert first.authority is None
    assert "the text of memory" not in repr(await why(world, summary_id, with_text=True))


async def test_undo_and_its_undo_are_part_of_the_history(world: MaintenanceFixture) -> None:
    summary_id = await _merged(world)
    (maintenance_run,) = world.ledger.runs.list(COMPANY)
    undo = await world.undo(maintenance_run.run_id)

    back, gone = await why(world, uid(1)), await why(world, summary_id)

    assert (back.memory.state, back.memory.chapters[-1].kind) == (MemoryState.LIVE, "restored")
    assert back.memory.chapters[-1].undo_of == maintenance_run.run_id
    assert back.summaries() == (summary_id,)
    assert (gone.memory.state, gone.memory.chapters[-1].reason) == (MemoryState.REMOVED, "undone")
    assert gone.memory.text_in is TextLocation.JOURNAL
    assert gone.memory.text_until is not None
    assert timedelta(days=6) < gone.memory.text_until - world.clock() < timedelta(days=JOURNAL_DAYS)

    await world.undo(undo.run_id)

    again = await why(world, uid(1))
    assert (again.memory.state, again.memory.replaced_by) == (MemoryState.REPLACED, (summary_id,))
    assert trace_of(again, summary_id).state is MemoryState.LIVE
    assert [history_event.kind for history_event in again.memory.chapters] == ["removed", "restored", "removed"]


async def test_a_summary_of_summaries_is_followed_to_the_bottom_and_back_to_the_top(world: MaintenanceFixture) -> None:
    await world.store(memory(n, days_old=60 - n) for n in range(1, 46))
    await world.maintenance_run()
    for _ in range(2):
        ids = [record.entry.id for record in await world.summaries()]
        await world.backend.set_metadata_many(AGENT, ids, MemoryMetadata(source="agent"))
        await world.store(
            memory(number, days_old=20) for number in range(100 + 10 * len(world.stored), 104 + 10 * len(world.stored))
        )
        await world.maintenance_run()
    top = max(await world.summaries(), key=lambda record: record.lineage.depth)
    assert top.lineage.depth == 3

    memory_history = await why(world, top.entry.id)

    assert uid(1) in memory_history.originals()
    assert all(not trace_of(memory_history, each).made_of for each in memory_history.originals())
    assert top.entry.id in (await why(world, uid(1))).summaries()
    assert len((await why(world, uid(1))).summaries()) == 3


async def test_what_a_rule_removed_says_which(world: MaintenanceFixture) -> None:
    world.policy = ConsolidationConfig(
        strategy=CONDENSE,
        retention=RetentionConfig(default_retention_days=50),
        max_memories_per_agent=1,
        max_removed_fraction=1.0,
    )
    await world.store([memory(1, days_old=60), memory(2, days_old=1), memory(3, days_old=0, expires_in_days=0.0)])
    await world.store([memory(4, days_old=0)])
    await world.maintenance_run()

    reasons = {n: (await why(world, uid(n))).memory for n in (1, 2, 3)}

    assert {n: each.chapters[-1].reason for n, each in reasons.items()} == {
        1: "retention",
        2: "enforced",
        3: "expired",
    }
    assert {each.state for each in reasons.values()} == {MemoryState.REMOVED}


async def test_a_memory_that_no_run_has_moved_is_found_through_its_agent(world: MaintenanceFixture) -> None:
    await world.store([memory(1)])

    with pytest.raises(MemoryNotFoundError, match="name its agent"):
        await why(world, uid(1))
    memory_history = await why(world, uid(1), agent_id=AGENT)

    assert (memory_history.memory.state, memory_history.memory.chapters, memory_history.originals()) == (
        MemoryState.LIVE,
        (),
        (),
    )


async def test_a_memory_that_an_agent_deleted_is_missing_and_its_text_is_where_a_run_wrote_it_down(
    world: MaintenanceFixture,
) -> None:
    summary_id = await _merged(world)
    await world.backend.delete_many(AGENT, [summary_id])

    memory_history = await why(world, summary_id)

    assert (memory_history.memory.state, memory_history.memory.text_in) == (MemoryState.MISSING, TextLocation.JOURNAL)


async def test_nobody_reads_another_agents_or_companys_memories(world: MaintenanceFixture) -> None:
    summary_id = await _merged(world)
    for asked in (summary_id, uid(1)):
        with pytest.raises(MemoryNotFoundError, match="of this agent"):
            await why(world, asked, agent_id="bob")
        with pytest.raises(MemoryNotFoundError):
            await trace_memory(
                asked, backend=world.backend, ledger=world.ledger, company="globex", journal_days=JOURNAL_DAYS
            )
    for unknown in ("nothing", uid(999)):
        with pytest.raises(MemoryNotFoundError):
            await why(world, unknown)


async def test_a_memory_that_a_run_is_about_to_remove_says_so(world: MaintenanceFixture) -> None:
    await world.store(memory(n) for n in range(1, 6))

    async def stuck(where: object) -> int:
        raise RuntimeError(str(where))

    world.backend.delete_where = stuck  # type: ignore[method-assign]  # one broken call
    planned = present(world.ledger.runs.create(NewRun(company=COMPANY, agent_id=AGENT, planned_at=world.clock())))
    with pytest.raises(RuntimeError):
        await world.service().run(planned.run_id)

    memory_now = (await why(world, uid(1))).memory

    assert memory_now.state is MemoryState.LIVE
    assert [(history_event.kind, history_event.is_open) for history_event in memory_now.chapters] == [("removed", True)]
    assert memory_now.text_in is TextLocation.STORE
