"""A reindex from its beginning to its end, and every command of a person."""

from datetime import timedelta

import pytest
from support.memories import copied, new_agent, record
from support.present import present
from support.reindex_fixture import ONE_PAGE, ReindexWorld, side_of, watched_queries

from memcore.backends.mem0 import collection
from memcore.backends.mem0.backend import Mem0Backend
from memcore.embedding import bm25
from memcore.embedding.bm25 import Tokenizer
from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.jobs import Deferred, Done, ReindexPayload, Skipped
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.collections import Phase, ReindexStage
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryQuery, MemoryStoreRequest
from memcore.records import MemoryRecord, SearchNotes, Where


async def _stored(backend: Mem0Backend, count: int, agent: str | None = None) -> list[MemoryRecord]:
    owner = agent or new_agent()
    records = [record(owner, f"the valve number {number} leaks") for number in range(count)]
    await backend.store_many(records)
    return records


def _prompt_prefixes(world: ReindexWorld, collection: str) -> set[str]:
    return {
        side_of(vector[""] if isinstance(vector, dict) else vector) for _, vector in world.points(collection).values()
    }


async def test_everything_is_carried_over_and_found_with_the_new_embedder(
    world: ReindexWorld, backend: Mem0Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = await _stored(backend, 600)
    agent = records[0].entry.agent_id
    await backend.claim(Where(agent_id=agent, ids=frozenset({records[3].entry.id})), "a run's token")
    await backend.set_metadata_many(agent, [records[4].entry.id], MemoryMetadata(tags=("seen",)))
    published = await backend.publish(
        agent, MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="tea at four")
    )
    old = world.pointer.current.name

    begun = await world.begin(dense_weight=0.7)
    assert begun.target is not None
    before = world.points(old)
    await world.finish()

    assert world.pointer.current.name == begun.target.name != old
    after = world.points(begun.target.name)
    assert {key: payload for key, (payload, _) in after.items()} == {
        key: payload for key, (payload, _) in before.items()
    }
    assert (_prompt_prefixes(world, old), _prompt_prefixes(world, begun.target.name)) == ({"even"}, {"odd"})

    world.clock.now += timedelta(seconds=3)
    new = begun.target.name
    with watched_queries(monkeypatch, lambda name: "odd" if name == new else "even") as asked:
        found = await backend.retrieve(agent, MemoryQuery(text="valve number 17", limit=1))
        shared = await backend.search_shared(MemoryQuery(text="tea", limit=5))
    assert found[0].content == "the valve number 17 leaks"
    assert [entry.id for entry in shared] == [published]
    assert set(asked) == {new}
    assert backend.dense_weight == 0.7
    assert (await backend.retrieve_rankings(agent, MemoryQuery(text="valve"))).dense_weight == 0.7
    assert await backend.count_where(Where(agent_id=agent, token="a run's token")) == 1
    reindex = present(world.ledger.reindexes.last(world.company))
    assert (reindex.stage, reindex.fraction, reindex.looked_at) == (ReindexStage.DONE, 1.0, 601)


async def test_a_store_of_an_older_release_is_found_as_before_and_by_more_words_once_it_is_indexed_again(
    world: ReindexWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, of_today = world.backend(), Tokenizer.both_terms
    agent, text = new_agent(), "La hija mayor está aprendiendo árabe en casa."
    signed = ("Ward A- is on the left.", "Ward A+ is on the left.")

    async def found(question: str) -> list[str]:
        rankings = await backend.retrieve_rankings(agent, MemoryQuery(text=question))
        return [hit.entry.content for hit in rankings.sparse]

    with monkeypatch.context() as older:
        # Its documents had the stems of English alone, and its row names no version.
        older.setattr(Tokenizer, "both_terms", lambda self, text: (of_today(self, text)[0], []))
        older.setattr(collection, "TERMS_VERSION", 1)
        await backend.connect()
        await backend.store_many(
            [record(agent, text, tags=("speaker:Zoe",)), *(record(agent, each) for each in signed)]
        )
    assert (await found("¿La hija de quién?"), await found("¿Qué aprende ella?")) == ([text], [])
    assert {*await found("Where is ward A-?")} == {*await found("Where is ward A+?")} == {*signed}

    assert world.pointer.current.terms_version == 1
    await world.begin("even")
    await world.finish()
    world.clock.now += timedelta(seconds=3)
    assert (await found("¿La hija de quién?"), await found("¿Qué aprende ella?")) == ([text], [text])
    assert [(await found(f"Where is ward {sign}?"))[0] for sign in ("A-", "A+")] == [*signed]
    assert await found("Zoe") == [text]
    assert world.pointer.current.terms_version == bm25.TERMS_VERSION
    await world.planning.drop_old()
    with pytest.raises(MemoryInputError, match="--again"):
        await world.begin("even")
    await backend.disconnect()


async def test_a_slice_tells_how_far_the_reindex_is(world: ReindexWorld, backend: Mem0Backend) -> None:
    await _stored(backend, 600)
    await world.begin()
    reported: list[tuple[str, float]] = []
    await world.slice(on_progress=lambda stage, fraction: reported.append((stage, fraction or 0.0)))
    assert reported[0][0] == ReindexStage.COPYING
    assert 0.0 < reported[0][1] < 0.9
    assert reported[-1] == (ReindexStage.CATCHING_UP, 0.9)
    assert reported == sorted(reported, key=lambda each: each[1])


async def test_what_is_written_and_removed_meanwhile_is_as_the_last_word_said(
    world: ReindexWorld, backend: Mem0Backend
) -> None:
    records = await _stored(backend, 700)
    agent = records[0].entry.agent_id
    await world.begin()
    # One page of three: some is copied, and some is not.
    await world.slice(lasts=ONE_PAGE)
    half = present(world.ledger.reindexes.last(world.company))
    assert (half.stage, half.token, half.looked_at) == (ReindexStage.COPYING, None, 256)

    removed = sorted(one.entry.id for one in records)[::7]
    assert await backend.delete_many(agent, removed) == 100
    added = await _stored(backend, 20, agent)
    kept = sorted({one.entry.id for one in records} - set(removed))[1::250]
    noted = dict.fromkeys(kept, SearchNotes(by="m", texts=("zeppelin",)))
    assert await backend.set_search_notes(agent, noted) == 3
    await backend.claim(Where(agent_id=agent, ids=frozenset({added[0].entry.id})), "token")
    assert world.ledger.reindex_marks.count(world.company) == 1
    await world.finish()

    ids = {one.entry.id for one in (*records, *added)} - set(removed)
    assert world.points(world.pointer.current.name).keys() == ids
    world.clock.now += timedelta(seconds=3)
    assert await backend.count(agent) == 620
    assert await backend.count_where(Where(agent_id=agent, token="token")) == 1
    assert {each.id for each in await backend.retrieve(agent, MemoryQuery(text="zeppelin"))} == noted.keys()
    assert world.ledger.reindex_marks.count(world.company) == 0


async def test_copies_of_archived_memories_are_carried_over_too_also_those_written_meanwhile(
    world: ReindexWorld, backend: Mem0Backend
) -> None:
    (summary,) = await _stored(backend, 1)
    agent = summary.entry.agent_id
    originals = [record(agent, f"the valve number {number} leaks oil") for number in range(600)]
    early, gone, late = ([copied(each, summary.entry.id) for each in originals[at::3]] for at in range(3))
    await backend.index_archived(agent, [*early, *gone])
    await world.begin()
    await world.slice(lasts=ONE_PAGE)
    await backend.unindex_archived(agent, originals=[copy.record.entry.id for copy in gone])
    await backend.index_archived(agent, late)
    await world.finish()

    assert _prompt_prefixes(world, world.pointer.current.name) == {"odd"}
    world.clock.now += timedelta(seconds=3)
    copies = {copy.archival_id: (copy.summary_id, copy.record.entry) for copy in await backend.indexed_archived(agent)}
    assert copies == {copy.archival_id: (copy.summary_id, copy.record.entry) for copy in (*early, *late)}
    assert await backend.count(agent) == 1


async def test_going_back_brings_what_was_written_since(world: ReindexWorld, backend: Mem0Backend) -> None:
    records = await _stored(backend, 10)
    agent = records[0].entry.agent_id
    old = world.pointer.current.name
    await world.begin()
    await world.finish()
    world.clock.now += timedelta(seconds=3)
    await backend.delete_many(agent, [records[0].entry.id])
    added = await _stored(backend, 1, agent)

    with pytest.raises(MemoryInputError, match="--drop-old"):
        await world.begin("even")
    await world.planning.go_back()
    await world.finish()

    assert world.pointer.current.name == old
    assert world.points(old).keys() == {one.entry.id for one in (*records[1:], *added)}
    assert _prompt_prefixes(world, old) == {"even"}
    dropped = present(world.pointer.previous)
    await world.planning.drop_old()
    assert world.pointer.previous is None
    assert await world.reindex_target.count(dropped.name) == 0
    with pytest.raises(MemoryInputError, match="no old collection"):
        await world.planning.go_back()


async def test_a_process_that_slept_through_it_all_writes_to_what_serves(world: ReindexWorld) -> None:
    awake, asleep = world.backend(), world.backend()
    await awake.connect()
    await asleep.connect()
    await _stored(awake, 3)
    await world.begin()
    await world.finish()
    await world.planning.drop_old()
    world.clock.now += timedelta(hours=3)

    added = await _stored(asleep, 1)
    assert added[0].entry.id in world.points(world.pointer.current.name)
    for backend in (awake, asleep):
        await backend.disconnect()


async def test_a_cancelled_reindex_leaves_nothing_behind_and_can_be_begun_again(
    world: ReindexWorld, backend: Mem0Backend
) -> None:
    await _stored(backend, 300)
    begun = await world.begin()
    with pytest.raises(MemoryInputError, match="under way"):
        await world.begin()
    await world.slice(lasts=ONE_PAGE)
    await world.planning.cancel()

    assert await world.reindex_target.count(present(begun.target).name) == 0
    assert (world.pointer.phase, world.pointer.target) == (None, None)
    over = present(await world.slice())
    assert isinstance(over.outcome, Skipped)
    with pytest.raises(MemoryInputError, match="none is under way"):
        await world.planning.cancel()
    await world.begin()
    await world.finish()
    assert await world.reindex_target.count(world.pointer.current.name) == 300


async def test_a_process_of_the_new_configuration_serves_the_old_collection_with_the_old_embedder(
    world: ReindexWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, changed = world.backend("even"), world.backend("odd")
    await first.connect()
    await _stored(first, 5)
    await changed.connect()
    records = await _stored(changed, 5)

    with watched_queries(monkeypatch, lambda _: "even") as asked:
        assert await changed.retrieve(records[0].entry.agent_id, MemoryQuery(text="valve", limit=3))
    assert asked
    assert _prompt_prefixes(world, world.pointer.current.name) == {"even"}
    assert changed.vector_space == first.vector_space
    for backend in (first, changed):
        await backend.disconnect()


async def test_an_embedder_that_is_no_longer_the_same_is_refused(
    world: ReindexWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, changed = world.backend("even"), world.backend("odd")
    await first.connect()
    await first.disconnect()
    monkeypatch.setattr(
        "support.reindex_fixture.SidedEmbedder.name", property(lambda _: "another release of the model")
    )
    with pytest.raises(MemoryConfigError, match=r"'even' is another release.*memtend reindex"):
        await changed.connect()


async def test_vectors_of_the_old_embedder_that_come_back_are_made_anew(
    world: ReindexWorld, backend: Mem0Backend
) -> None:
    (one,) = await _stored(backend, 1)
    agent = one.entry.agent_id
    (kept,) = await backend.get_many(agent, [one.entry.id], with_vectors=True)
    assert present(kept.vectors).space == backend.vector_space
    await backend.delete_many(agent, [one.entry.id])
    await world.begin()
    await world.finish()
    world.clock.now += timedelta(seconds=3)

    await backend.store_many([kept])
    assert _prompt_prefixes(world, world.pointer.current.name) == {"odd"}


async def test_writes_wait_while_they_are_stopped_and_go_on_when_the_worker_is_dead(
    world: ReindexWorld, backend: Mem0Backend
) -> None:
    await _stored(backend, 5)
    begun = await world.begin()
    frozen = present(
        world.ledger.collection_pointers.freeze(world.company, version=begun.version, lasts=timedelta(seconds=3))
    )

    # The clock goes on with each look that the writer takes: it waits until the time is over, and thaws.
    added = await _stored(backend, 1)
    assert world.pointer.phase is Phase.FILLING
    assert (
        world.ledger.collection_pointers.switch(world.company, version=frozen.version, settles=timedelta(seconds=1))
        is None
    )
    await world.finish()
    assert added[0].entry.id in world.points(world.pointer.current.name)


async def test_a_pause_holds_it_and_one_worker_at_a_time_has_it(world: ReindexWorld, backend: Mem0Backend) -> None:
    await _stored(backend, 5)
    await world.begin()
    world.ledger.companies.pause(world.company)
    paused = present(await world.slice())
    assert isinstance(paused.outcome, Deferred)
    world.ledger.companies.resume(world.company)

    (item,) = world.ledger.work.open(world.company, ReindexPayload.task)
    assert world.ledger.reindexes.claim(world.company, item.key, lease=LEASE_LENGTH) is not None
    second = present(await world.slice())
    assert isinstance(second.outcome, Skipped)
    world.clock.now += LEASE_LENGTH
    third = present(await world.slice())
    assert isinstance(third.outcome, Done)
    assert world.pointer.current.generation == 2
