"""The data folder in one process: durability step by step, upkeep by the clock, folders that crashes left behind."""

import asyncio
import random
import shutil
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import qdrant_edge as edge
from qdrant_client.http import models as rest
from support.running_stack import wait_until

from memcore.vectorstore import collection as collection_module
from memcore.vectorstore import store as store_module
from memcore.vectorstore.collection import Collection, sync_log
from memcore.vectorstore.errors import UnavailableError
from memcore.vectorstore.store import IDLE, OLDEST_CHECKPOINT, QUIET, Store
from memcore.vectorstore.writes import CHUNK_POINTS, upsert

CREATED = rest.CreateCollection(
    vectors=rest.VectorParams(size=4, distance=rest.Distance.COSINE),
    sparse_vectors={"bm25": rest.SparseVectorParams(modifier=rest.Modifier.IDF)},
)


class StoppedClock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self, span: timedelta) -> None:
        self.now += span.total_seconds()


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
async def store(tmp_path: Path, clock: StoppedClock) -> AsyncGenerator[Store]:
    opened = Store(tmp_path / "data", monotonic=clock)
    yield opened
    await opened.close()


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux shows the threads of the engine")
async def test_a_collection_adds_one_thread_to_search_with_however_many_cpus_there_are(store: Store) -> None:
    # Those of a test before may still be about to end.
    before = _searchers()
    for number in range(3):
        await store.create(f"company-{number}", CREATED)
    # A thread names itself, and those of the shards that were built aside are about to end.
    await asyncio.to_thread(wait_until, lambda: len(_searchers() - before) == 3, what="one thread a collection")


def _searchers() -> set[str]:
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            if (task / "comm").read_text().startswith("edge-search"):
                found.add(task.name)
    return found


async def _points(collection: Collection, count: int, *, start: int = 0) -> list[Any]:
    dice = random.Random(start)
    points = [
        {
            "id": start + n,
            "vector": {"": [dice.random() for _ in range(4)], "bm25": {"indices": [n % 9, 50], "values": [1, 2]}},
            "payload": {"n": start + n, "data": "x" * dice.randrange(300)},
        }
        for n in range(count)
    ]
    return await upsert({"points": points}, collection.shape)


async def _filled(store: Store, count: int) -> Collection:
    if not store.exists("one"):
        await store.create("one", CREATED)
    collection = store.collection("one")
    await collection.write([await _points(collection, count)], wait=True)
    return collection


def _held(folder: Path) -> dict[Any, Any]:
    shard = edge.EdgeShard.load(str(folder))
    found, _ = shard.scroll(edge.ScrollRequest(limit=100_000))
    shard.close()
    return {one.id: one.payload for one in found}


async def test_an_answered_write_was_synced_and_an_unanswered_one_is_pending(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.create("one", CREATED)
    collection = store.collection("one")
    synced: list[Path] = []

    def spy(folder: Path) -> None:
        sync_log(folder)
        synced.append(folder)

    monkeypatch.setattr(collection_module, "sync_log", spy)
    await collection.write([await _points(collection, 1)], wait=True)
    assert synced == [collection.folder / "shard" / "wal"]
    assert collection.commit.pending == 0
    await collection.write([await _points(collection, 1)], wait=False)
    assert (len(synced), collection.commit.pending) == (1, 1)
    await store.compact()
    assert (len(synced), collection.commit.pending) == (2, 0)


async def test_concurrent_writers_share_syncs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.create("one", CREATED)
    collection = store.collection("one")
    syncs: list[Path] = []

    def spy(folder: Path) -> None:
        sync_log(folder)
        syncs.append(folder)

    monkeypatch.setattr(collection_module, "sync_log", spy)
    batches = [await _points(collection, 1, start=n) for n in range(40)]
    await asyncio.gather(*(collection.write([one], wait=True) for one in batches))
    assert collection.reading().count(edge.CountRequest()) == 40
    assert len(syncs) <= 3


async def test_a_power_cut_loses_no_answered_write(store: Store, tmp_path: Path) -> None:
    """After a power cut the disk holds the synced log, and of the segments any mixture of old and new pages."""
    dice = random.Random(1)
    for trial in range(4):
        collection = await _filled(store, 200)
        collection.checkpoint()
        shard = collection.folder / "shard"
        before = tmp_path / f"before-{trial}"
        shutil.copytree(shard, before)
        await collection.write([await _points(collection, 150, start=100 + 7 * trial)], wait=True)
        await collection.write([[edge.UpdateOperation.delete_points(list(range(0, 90, 3)))]], wait=True)
        expected = {one.id: one.payload for one in shard_points(collection)}
        break_collection = tmp_path / f"wreck-{trial}"
        shutil.copytree(before, break_collection)
        shutil.rmtree(break_collection / "wal")
        shutil.copytree(shard / "wal", break_collection / "wal")
        for path in (shard / "segments").rglob("*"):
            old = break_collection / path.relative_to(shard)
            if path.is_file() and old.exists():
                _mix(old, path, dice)
        assert _held(break_collection) == expected
        for folder in (before, break_collection):
            shutil.rmtree(folder)


def shard_points(collection: Collection) -> list[edge.Record]:
    return collection.reading().scroll(edge.ScrollRequest(limit=100_000))[0]


def _mix(old: Path, new: Path, dice: random.Random) -> None:
    """Write some pages of the new file over the old one."""
    page = 4096
    size = new.stat().st_size
    if size != old.stat().st_size:
        if dice.random() < 0.5:
            shutil.copy(new, old)
        return
    with new.open("rb") as source, old.open("r+b") as target:
        # most of a preallocated file is empty: its first pages are where anything is written
        for start in range(0, min(size, 64 * page), page):
            if dice.random() < 0.5:
                source.seek(start)
                target.seek(start)
                target.write(source.read(page))


async def test_a_big_write_lets_searches_in_between(store: Store) -> None:
    collection = await _filled(store, 1)
    seen: list[int] = []

    async def search() -> None:
        while len(seen) < 100:
            seen.append(collection.reading().count(edge.CountRequest()))
            await asyncio.sleep(0)

    reader = asyncio.create_task(search())
    await collection.write([await _points(collection, 4 * CHUNK_POINTS, start=10)], wait=False)
    await reader
    assert len({count for count in seen if 1 < count < 1 + 4 * CHUNK_POINTS}) >= 2


def _due(collection: Collection) -> tuple[bool, bool]:
    return collection.needs_checkpoint, collection.needs_vacuum


async def test_checkpoints_wait_for_idleness_but_not_for_ever(store: Store, clock: StoppedClock) -> None:
    collection = await _filled(store, 10)
    await store.compact()
    assert _due(collection)[0]
    clock.pass_by(IDLE)
    await store.compact()
    assert not _due(collection)[0]
    for _ in range(int(OLDEST_CHECKPOINT / IDLE) - 1):
        clock.pass_by(IDLE)
        await collection.write([await _points(collection, 1)], wait=False)
        await store.compact()
        assert _due(collection)[0]
    clock.pass_by(IDLE)
    collection.reading()
    await store.compact()
    assert not _due(collection)[0]


async def test_a_vacuum_frees_deleted_points_in_a_quiet_moment(store: Store, clock: StoppedClock) -> None:
    collection = await _filled(store, 3000)
    await collection.write([[edge.UpdateOperation.delete_points(list(range(1500)))]], wait=True)
    clock.pass_by(QUIET - IDLE)
    await store.compact()
    segments = {path.name for path in (collection.folder / "shard" / "segments").iterdir()}
    assert _due(collection)[1]
    clock.pass_by(IDLE)
    await store.compact()
    assert not _due(collection)[1]
    assert not segments <= {path.name for path in (collection.folder / "shard" / "segments").iterdir()}
    assert collection.reading().count(edge.CountRequest()) == 1500
    shutil.copytree(collection.folder / "shard", collection.folder.parent.parent / "copy")
    assert len(_held(collection.folder.parent.parent / "copy")) == 1500


class Crash(BaseException):
    """The process died here."""


STEPS = [
    (Collection, "build"),
    (collection_module, "write_file"),
    (collection_module, "sync_tree"),
    (Path, "replace"),
    (store_module, "sync_folder"),
]


@pytest.mark.parametrize(("owner", "step"), STEPS, ids=lambda it: it if isinstance(it, str) else it.__name__)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_crash_while_creating_or_deleting_leaves_a_folder_that_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, step: str, after: bool
) -> None:
    first = Store(tmp_path / "data")
    await _filled(first, 5)
    await first.create("doomed", CREATED)
    opened = set(first.collections.values())
    real = getattr(owner, step)

    def crash(*arguments: Any, **options: Any) -> Any:
        if after:
            real(*arguments, **options)
        raise Crash

    with monkeypatch.context() as patched:
        # what a dead process cannot do any more, tidying up included
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        patched.setattr(owner, step, crash)
        for act in (first.create("new", CREATED), first.delete("doomed")):
            try:
                await act
            except Crash:
                continue
    for collection in opened | set(first.collections.values()):
        collection.shard.close()
    second = Store(tmp_path / "data")
    assert second.collection("one").reading().count(edge.CountRequest()) == 5
    assert set(second.collections) <= {"one", "new", "doomed"}
    assert not list((tmp_path / "data" / "building").iterdir())
    assert not list((tmp_path / "data" / "trash").iterdir())
    for name in ("new", "doomed"):
        if not second.exists(name):
            await second.create(name, CREATED)
    await second.close()


async def test_a_folder_that_is_no_collection_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    odd = tmp_path / "data" / "collections" / "odd"
    odd.mkdir(parents=True)
    store = Store(tmp_path / "data")
    with pytest.raises(UnavailableError, match=r"odd is refused: collection\.json cannot be read"):
        store.collection("odd")
    await store.close()
    assert not list(odd.iterdir())
