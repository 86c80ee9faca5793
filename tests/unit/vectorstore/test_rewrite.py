"""A collection is written anew: what was deleted leaves no bytes, and a crash leaves the old shard or the new one."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import UUID, uuid5

import pytest
import qdrant_edge as edge
from qdrant_client.http import models as rest
from support.fault_injection import Crash

from memcore.vectorstore import collection as module
from memcore.vectorstore import writes
from memcore.vectorstore.collection import SHARD, Collection

SPACE = UUID("7f0c2d0e-3f0e-4a52-9d0f-4d5f6f6f3a11")
POINTS = 300
KEPT = POINTS - POINTS // 10
SCHEMA = rest.CreateCollection(
    vectors=rest.VectorParams(size=4, distance=rest.Distance.COSINE), sparse_vectors={"bm25": rest.SparseVectorParams()}
)


def secret(number: int) -> str:
    return f"secret-{number:04}-canary"


def rows() -> list[dict[str, Any]]:
    return [
        {
            "id": str(uuid5(SPACE, str(number))),
            "vector": {"": [1.0, number / POINTS, 0.0, 0.0], "bm25": {"indices": [number], "values": [1.0]}},
            "payload": {"data": secret(number), "agent_id": "ada" if number % 10 == 0 else "bob"},
        }
        for number in range(POINTS)
    ]


def opened(folder: Path) -> Collection:
    return Collection(folder=folder, executor=ThreadPoolExecutor(1), monotonic=monotonic)


async def filled(folder: Path) -> Collection:
    Collection.build(folder, "kept", SCHEMA)
    collection = opened(folder)
    index = edge.UpdateOperation.create_field_index("agent_id", edge.PayloadSchemaType.Keyword)
    await collection.write([[index]], wait=True)
    await collection.write([await writes.upsert({"points": rows()}, collection.shape)], wait=True)
    collection.checkpoint()
    mine = {"filter": {"must": [{"key": "agent_id", "match": {"value": "ada"}}]}}
    await collection.write([await writes.delete(mine, collection.shape)], wait=True)
    return collection


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def left_in(folder: Path) -> list[int]:
    content = bytes_of(folder)
    return [number for number in range(0, POINTS, 10) if secret(number).encode() in content]


def vectors_of(point: Any) -> dict[str, Any]:
    vectors: dict[str, Any] = point.vector
    return vectors


def found(collection: Collection) -> dict[str, Any]:
    page = edge.ScrollRequest(limit=POINTS, with_payload=True, with_vector=True)
    points = collection.reading().scroll(page)[0]
    return {str(each.id): (each.payload, sorted(map(repr, vectors_of(each).items()))) for each in points}


def test_deleted_points_leave_no_bytes_and_the_others_are_as_they_were(tmp_path: Path) -> None:
    async def go() -> None:
        collection = await filled(tmp_path / "kept")
        assert left_in(tmp_path), "the bytes were gone already: the test would prove nothing"
        (tmp_path / "kept" / "damaged-20260101").mkdir()
        (tmp_path / "kept" / "damaged-20260101" / "segment").write_text(secret(0))
        before, schema = found(collection), collection.reading().info().payload_schema.keys()
        assert await collection.rewrite() == KEPT
        assert left_in(tmp_path) == []
        assert found(collection) == before
        assert collection.reading().info().payload_schema.keys() == schema
        await collection.close()
        again = opened(tmp_path / "kept")
        assert found(again) == before
        await again.close()
        assert left_in(tmp_path) == []

    asyncio.run(go())


@pytest.mark.parametrize("step", ["_note", "sync_folder", "load_shard", "sync_tree"])
def test_a_crash_leaves_a_whole_collection(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_given: object, **_named: object) -> None:
        raise Crash

    async def go() -> None:
        collection = await filled(tmp_path / "kept")
        before = found(collection)
        with monkeypatch.context() as broken:
            broken.setattr(module, step, crash)
            with pytest.raises(Crash):
                await collection.rewrite()
        with suppress(Exception):  # a process that ends drops the engine's locks; closed twice, it says so
            collection.shard.close()
        again = opened(tmp_path / "kept")
        assert found(again) == before
        assert {path.name for path in (tmp_path / "kept").iterdir() if path.is_dir()} == {SHARD}
        assert await again.rewrite() == KEPT
        assert left_in(tmp_path) == []
        await again.close()

    asyncio.run(go())


def test_what_a_rewrite_left_goes_with_the_next(tmp_path: Path) -> None:
    async def go() -> None:
        collection = await filled(tmp_path / "kept")
        left_over = tmp_path / "kept" / "replaced"
        left_over.mkdir()
        (left_over / "segment").write_text(secret(0))
        assert await collection.rewrite() == KEPT
        assert left_in(tmp_path) == []
        await collection.close()

    asyncio.run(go())
