"""Files of a shard that were cut or lost: the memories are all served, or the collection is named and refused."""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import qdrant_edge as edge
from qdrant_client.http import models as rest

from memcore import free_space
from memcore.errors import MemoryConfigError, MemoryDiskFullError
from memcore.vectorstore import payload_index, recovery
from memcore.vectorstore.collection import Collection
from memcore.vectorstore.completeness import least_points
from memcore.vectorstore.durable import copy_tree
from memcore.vectorstore.refusal import UnavailableError
from memcore.vectorstore.store import Store
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
    await store.create("other", CREATED)
    await store.collection("other").write([await upsert({"points": [_row(1)]}, store.collection("other").shape)], wait=True)
    await store.create(NAME, CREATED)
    collection = store.collection(NAME)
    keyword = payload_index.engine_params(rest.PayloadSchemaType.KEYWORD)
    await collection.create_index("agent", keyword, wait=True)
    for start in range(0, WRITTEN, 100):
        rows = [_row(number) for number in range(start, start + 100)]
        await collection.write([await upsert({"points": rows}, collection.shape)], wait=True)
        if checkpoints:
            collection.checkpoint()
    gone = [_row(number)["id"] for number in range(REMOVED)]
    await collection.write([delete({"points": gone})], wait=True)
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
    return len(path.read_bytes().rstrip(b"\0"))


#: Where a file is cut, as its new size; None deletes it. The engine's files end in a long hole, so the middle of what
#: is used is another place than the middle.
CUTS: dict[str, Callable[[Path], int | None]] = {
    "start": lambda _: 0,
    "middle": lambda path: path.stat().st_size // 2,
    "middle of what is used": lambda path: _used(path) // 2,
    "end": lambda path: path.stat().st_size - 1,
    "whole": lambda _: None,
}


async def _served_or_refused(folder: Path, cut: str) -> bool:
    """Open a damaged folder twice; say whether the memories are served, and fail when they are served short."""
    outcomes = []
    for _ in range(2):
        store = Store(folder)
        assert store.collection("other").reading().info().points_count == 1, cut
        if NAME in store.refused:
            with pytest.raises(UnavailableError, match=f"{NAME} is refused"):
                store.collection(NAME)
            assert f"`memtend vectors restore {NAME} --from BACKUP`" in store.refused[NAME], cut
        else:
            assert _is_whole(store.collection(NAME)), f"served short: {cut}"
        outcomes.append(NAME not in store.refused)
        await store.close()
    assert outcomes[0] == outcomes[1], cut
    return outcomes[0]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("left", ["stopped", "killed", "killed, and its log is no longer whole"])
async def test_no_cut_file_serves_a_collection_short(
    tmp_path: Path, stopped: Path, killed: Path, monkeypatch: pytest.MonkeyPatch, cut: str, left: str
) -> None:
    source = stopped if left == "stopped" else killed
    if left.endswith("whole"):
        monkeypatch.setattr(recovery, "_reaches_back", lambda _log: False)
    served: dict[bool, list[str]] = {True: [], False: []}
    for number, name in enumerate(_files(source)):
        damaged = tmp_path / str(number)
        copy_tree(source, damaged)
        size = CUTS[cut](damaged / name)
        if size is None:
            (damaged / name).unlink()
        elif size < 0:
            continue
        else:
            os.truncate(damaged / name, size)
        served[await _served_or_refused(damaged, f"{name} at {size}")].append(name.name)
        shutil.rmtree(damaged)
    if left == "stopped":
        # Its log reaches back to the beginning: only what is needed to replay it can be missed.
        assert set(served[False]) <= {"collection.json"}
    assert "points.count" in served[True]
