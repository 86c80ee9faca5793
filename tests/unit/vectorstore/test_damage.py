"""Files of a shard that were cut or lost: the memories are all served, or the collection is named and refused."""

import asyncio
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import UUID

import pytest
import qdrant_edge as edge
from httpx import ASGITransport, AsyncClient
from qdrant_client.http import models as rest
from support.thorough import THOROUGH

from memcore import free_space
from memcore.errors import MemoryConfigError, MemoryDiskFullError
from memcore.vectorstore import recovery
from memcore.vectorstore.app import build_app
from memcore.vectorstore.collection import Collection, DamagedError, copy_tree, least_points
from memcore.vectorstore.errors import UnavailableError
from memcore.vectorstore.store import Store
from memcore.vectorstore.translation import index_type
from memcore.vectorstore.writes import delete, upsert

CREATED = rest.CreateCollection(
    vectors=rest.VectorParams(size=4, distance=rest.Distance.COSINE),
    sparse_vectors={"bm25": rest.SparseVectorParams(modifier=rest.Modifier.IDF)},
)

#: Points written and removed again, so that the shard holds both kinds.
WRITTEN, REMOVED = 400, 7

NAME = "memtend-default"


def _row(number: int) -> dict[str, Any]:
    vector = {"": [1.0, number / 1000, 0.5, 0.5], "bm25": {"indices": [number % 40], "values": [1.0]}}
    return {"id": str(UUID(int=number + 1)), "vector": vector, "payload": {"agent": "ada", "n": number, "t": "x" * 50}}


async def _filled(folder: Path, *, checkpoints: bool) -> Store:
    store = Store(folder)
    await store.create(NAME, CREATED)
    collection = store.collection(NAME)
    keyword = index_type(rest.PayloadSchemaType.KEYWORD)
    await collection.write([[edge.UpdateOperation.create_field_index("agent", keyword)]], wait=True)
    for start in range(0, WRITTEN, 100):
        rows = [_row(number) for number in range(start, start + 100)]
        await collection.write([await upsert({"points": rows}, collection.shape)], wait=True)
        if checkpoints:
            collection.checkpoint()
    gone = [_row(number)["id"] for number in range(REMOVED)]
    await collection.write([await delete({"points": gone}, collection.shape)], wait=True)
    return store


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose server was stopped."""
    folder = tmp_path_factory.mktemp("stopped") / "data"

    async def run() -> None:
        store = await _filled(folder, checkpoints=True)
        await store.close()

    asyncio.run(run())
    return folder


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose server was killed before its second checkpoint: most is in the log alone."""
    folder = tmp_path_factory.mktemp("killed")

    async def run() -> None:
        store = await _filled(folder / "running", checkpoints=False)
        copy_tree(folder / "running", folder / "left")
        await store.close()

    asyncio.run(run())
    return folder / "left"


def _files(folder: Path) -> Iterator[Path]:
    of = folder / "collections" / NAME
    yield from (path.relative_to(folder) for path in sorted(of.rglob("*")) if path.is_file())


def _content(collection: Collection) -> dict[str, Any]:
    found, _ = collection.reading().scroll(edge.ScrollRequest(limit=WRITTEN, with_payload=True, with_vector=True))
    return {str(one.id): (one.payload, sorted(one.vector or ())) for one in found}


WHOLE = {_row(number)["id"]: (_row(number)["payload"], ["", "bm25"]) for number in range(REMOVED, WRITTEN)}


def _is_whole(collection: Collection) -> bool:
    shard = collection.reading()
    ada = edge.Filter(must=[edge.FieldCondition("agent", match=edge.MatchValue("ada"))])
    near = edge.QueryRequest(limit=WRITTEN, query=edge.Query.Nearest([1.0, 0.1, 0.5, 0.5]), filter=ada)
    counted = shard.count(edge.CountRequest(exact=True, filter=ada))
    return _content(collection) == WHOLE and counted == len(WHOLE) == len(shard.query(near))


def _used(path: Path) -> int:
    """Return how many bytes there are before the long hole in which the engine's files end."""
    with path.open("rb") as file:
        return len(file.read(2**20).rstrip(b"\0"))


#: Where a file is cut, as its new size; None deletes it.
CUTS: dict[str, Callable[[Path], int | None]] = {
    "start": lambda _: 0,
    "middle": lambda path: _used(path) // 2,
    "end": lambda path: path.stat().st_size - 1,
    "whole": lambda _: None,
}


def _cut(path: Path, size: int | None) -> None:
    if size is None:
        path.unlink()
    else:
        os.truncate(path, size)


async def _is_served(folder: Path, cut: str = "") -> bool:
    """Open a damaged folder; say whether the memories are served, and fail when they are served short."""
    store = Store(folder)
    try:
        if NAME not in store.refused:
            assert _is_whole(store.collection(NAME)), f"served short: {cut}"
            return True
        with pytest.raises(UnavailableError, match=f"{NAME} is refused") as refused:
            store.collection(NAME)
        assert f"`memtend vectors restore {NAME} --from BACKUP`" in str(refused.value)
        return False
    finally:
        await store.close()


@pytest.fixture
def executor() -> Generator[Executor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.mark.parametrize("cut", CUTS)
async def test_no_cut_file_serves_a_collection_short(
    tmp_path: Path, stopped: Path, killed: Path, monkeypatch: pytest.MonkeyPatch, executor: Executor, cut: str
) -> None:
    # As if the log reached back no more: what it can bring back is another test's, and takes longer.
    monkeypatch.setattr(recovery, "_reaches_back", lambda _log: False)
    cases = [(stopped, name) for name in _files(stopped)]
    if not THOROUGH:
        # Two segments hold files of the same names.
        cases = list({name.name: (source, name) for source, name in cases}.values())
    cases += [(killed, name) for name in _files(killed) if {"wal", "points.count"} & set(name.parts)]
    cases += [(killed, name) for name in _files(killed) if "id_tracker" in name.name]
    # Each file with every second cut: two of the four cuts find what the others find.
    cases = [case for place, case in enumerate(cases) if THOROUGH or (place + list(CUTS).index(cut)) % 2 == 0]
    served = set()
    for number, (source, name) in enumerate(cases):
        size = CUTS[cut](source / name)
        if size is not None and size < 0:
            continue
        damaged = tmp_path / str(number)
        copy_tree(source, damaged)
        _cut(damaged / name, size)
        folder = damaged / "collections" / NAME
        with suppress(DamagedError):
            collection = recovery.open_collection(folder, NAME, executor=executor, monotonic=monotonic)
            assert _is_whole(collection), f"served short: {source.parent.name}: {name} at {size}"
            served.add(name.name)
            # Without a checkpoint: dozens of them take longer than all the rest.
            collection.shard.close()
        shutil.rmtree(damaged)
    # What can be lost without harm: the store's own notes.
    assert {"checkpoint.json", "points.count"} & {name.name for _, name in cases} <= served


#: Files without which the engine itself replays the log, where no checkpoint has cut that.
REPLAYED = {"mutable_id_tracker.mappings", "version.info"}


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("mutable_id_tracker.mappings", "middle"),
        ("segment.json", "whole"),
        ("version.info", "whole"),
        ("vector_storage/vectors/status.dat", "start"),
        ("payload_storage/page_0.dat", "middle"),
        ("first-index", "middle"),
    ],
)
@pytest.mark.parametrize("left", ["stopped", "killed"])
async def test_what_the_log_holds_whole_is_rebuilt_from_it(
    tmp_path: Path, stopped: Path, killed: Path, left: str, name: str, cut: str
) -> None:
    folder = tmp_path / "data"
    copy_tree(stopped if left == "stopped" else killed, folder)
    for path in (folder / "collections" / NAME / "shard").rglob(name):
        _cut(path, CUTS[cut](path))
    assert await _is_served(folder)
    assert await _is_served(folder)
    asides = list((folder / "collections" / NAME).glob("damaged-*"))
    assert len(asides) == (left == "stopped" or name not in REPLAYED), "what was damaged is kept, once"


async def test_a_refused_collection_stays_refused_and_is_opened_no_more(
    tmp_path: Path, stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_reaches_back", lambda _log: False)
    folder = tmp_path / "data"
    copy_tree(stopped, folder)
    (path,) = folder.rglob("vector_storage/deleted/status.dat")
    _cut(path, 0)
    assert not await _is_served(folder)
    (aside,) = (folder / "collections" / NAME).glob("damaged-*")
    assert list(aside.rglob("page_0.dat"))
    monkeypatch.setattr(edge.EdgeShard, "load", None)
    assert not await _is_served(folder)


async def test_a_panic_of_the_engine_is_damage_like_any_other(tmp_path: Path, killed: Path) -> None:
    folder = tmp_path / "data"
    copy_tree(killed, folder)
    (path,) = folder.rglob("vector_storage/deleted/status.dat")
    _cut(path, 0)
    for note in ("points.count", "checkpoint.json"):
        (folder / "collections" / NAME / note).unlink(missing_ok=True)
    assert not await _is_served(folder), "nobody knows how much it held"


async def test_on_a_full_disk_nothing_is_taken_for_damaged(
    tmp_path: Path, stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    copy_tree(stopped, folder)
    (path,) = folder.rglob("mutable_id_tracker.mappings")
    _cut(path, 100)
    with monkeypatch.context() as full:
        full.setattr(os, "statvfs", lambda _: os.statvfs_result((4096, 4096, 100, 0, 0, 0, 0, 0, 0, 255)))
        with pytest.raises(MemoryDiskFullError, match="is full"):
            Store(folder)
    assert not list((folder / "collections" / NAME).glob("damaged-*"))
    assert await _is_served(folder)


async def test_a_full_disk_takes_no_more_points_but_lets_them_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await _filled(tmp_path / "data", checkpoints=False)
    collection = store.collection(NAME)
    free = [free_space.FOR_WRITES - 1]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((1, 1, 9, 9, free[0], 0, 0, 0, 0, 255)))
    app = ASGITransport(build_app(store, api_key="key"))
    url = f"/collections/{NAME}"
    async with AsyncClient(transport=app, base_url="http://store", headers={"api-key": "key"}) as asking:
        body = {"points": [_row(1000)]}
        refused = [
            await asking.put(f"{url}/points", json=body),
            await asking.post(f"{url}/points/batch", json={"operations": [{"upsert": body}]}),
            await asking.post(f"{url}/points/payload", json={"payload": {"a": 1}, "filter": {}}),
            await asking.put("/collections/new", json={"vectors": {"size": 4, "distance": "Dot"}}),
            await asking.put(f"{url}/index", json={"field_name": "n", "field_schema": "integer"}),
        ]
        assert [answer.status_code for answer in refused] == [507] * len(refused)
        reported = refused[0].json()["status"]["error"]
        assert reported.startswith(f"the disk of {tmp_path / 'data'} is full: 31 MiB are free, and 32 MiB must stay so")
        assert _is_whole(collection)
        gone = {"points": [_row(50)["id"]]}
        assert (await asking.post(f"{url}/points/delete", json=gone)).status_code == 200
        assert (await asking.post(f"{url}/points/count", json={})).json()["result"] == {"count": len(WHOLE) - 1}
        flushed: list[Collection] = []
        monkeypatch.setattr(Collection, "checkpoint", flushed.append)
        collection.used_at -= 60
        await store.compact()
        assert flushed == [], "a checkpoint would fail half-way"
        free[0] = free_space.FOR_REMOVALS - 1
        assert (await asking.post(f"{url}/points/delete", json=gone)).status_code == 507
        free[0] = free_space.FOR_WRITES
        assert (await asking.put(f"{url}/points", json=body)).status_code == 200
    monkeypatch.undo()
    await store.close()


async def test_a_removal_is_noted_before_it_happens(tmp_path: Path) -> None:
    store = await _filled(tmp_path / "data", checkpoints=False)
    collection = store.collection(NAME)
    assert least_points(collection.folder) == WRITTEN - REMOVED
    seen = []

    def update(*_: Any) -> None:
        seen.append(least_points(collection.folder))
        raise RuntimeError

    shard, collection.shard = collection.shard, Watched(collection.shard, update)  # type: ignore[assignment]
    for selected in ({"points": [_row(50)["id"]]}, {"filter": {"must": [{"key": "agent", "match": {"value": "ada"}}]}}):
        with pytest.raises(Exception, match="internal error"):
            await collection.write([await delete(selected, collection.shape)], wait=True)
    assert seen == [WRITTEN - REMOVED - 1, 0]
    collection.shard = shard
    await collection.settle()
    assert least_points(collection.folder) == WRITTEN - REMOVED
    await store.close()


class Watched:
    """A shard whose updates go elsewhere."""

    def __init__(self, shard: edge.EdgeShard, update: Callable[..., None]) -> None:
        self._shard = shard
        self.update = update

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shard, name)


async def test_a_crash_in_a_vacuum_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Between a vacuum and its checkpoint two segments hold the same points, and the engine's count is twice too high.
    store = Store(tmp_path / "data")
    await store.create(NAME, CREATED)
    collection = store.collection(NAME)
    await collection.write([await upsert({"points": [_row(n) for n in range(2000)]}, collection.shape)], wait=True)
    await collection.write([await delete({"points": [_row(n)["id"] for n in range(900)]}, collection.shape)], wait=True)
    collection.checkpoint()
    monkeypatch.setattr(Collection, "checkpoint", lambda _: None)
    assert collection.vacuum()
    left = tmp_path / "left"
    copy_tree(tmp_path / "data", left)
    monkeypatch.undo()
    await store.close()
    for _ in range(2):
        again = Store(left)
        assert not again.refused
        collection = again.collection(NAME)
        await collection.write([await upsert({"points": [_row(1500)]}, collection.shape)], wait=True)
        assert least_points(collection.folder) == 1100
        assert collection.vacuum() in {True, False}
        await again.close()
    assert not list((left / "collections" / NAME).glob("damaged-*"))


async def test_a_backup_restores_a_refused_collection(
    tmp_path: Path, stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_reaches_back", lambda _log: False)
    folder, bad = tmp_path / "data", tmp_path / "bad"
    copy_tree(stopped, folder)
    (path,) = folder.rglob("mutable_id_tracker.mappings")
    _cut(path, 100)
    copy_tree(folder, bad)
    assert not await _is_served(folder)
    with pytest.raises(MemoryConfigError, match=r"damaged in .* too"):
        recovery.restore(folder, NAME, backup=bad)
    with pytest.raises(MemoryConfigError, match="holds no collection"):
        recovery.restore(folder, NAME, backup=tmp_path)
    assert not await _is_served(folder)
    assert recovery.restore(folder, NAME, backup=stopped) == len(WHOLE)
    assert await _is_served(folder)


async def test_what_is_left_can_be_accepted(tmp_path: Path, stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_reaches_back", lambda _log: False)
    folder = tmp_path / "data"
    copy_tree(stopped, folder)
    for name in ("mutable_id_tracker.mappings", "open-1"):
        (path,) = folder.rglob(name)
        _cut(path, CUTS["middle"](path))
    with pytest.raises(MemoryConfigError, match="not refused"):
        recovery.accept(folder, NAME)
    assert not await _is_served(folder)
    points, of = recovery.accept(folder, NAME)
    assert of == len(WHOLE)
    assert 0 < points < len(WHOLE)
    store = Store(folder)
    kept = _content(store.collection(NAME))
    # What was removed last is among them: nothing that is left says that it was.
    assert {key: kept[key] for key in kept if key in WHOLE} == {key: WHOLE[key] for key in kept if key in WHOLE}
    assert len(kept) == points
    await store.close()
    with pytest.raises(MemoryConfigError, match="not refused"):
        recovery.accept(folder, NAME)
