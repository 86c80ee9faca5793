"""What an open shard keeps in memory of its files, and that giving pages back loses nothing."""

import asyncio
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import qdrant_edge as edge
from qdrant_client.http import models as rest

from memcore.vectorstore.page_cache import release_pages
from memcore.vectorstore.store import Store

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has mapped")

CREATED = rest.CreateCollection(vectors=rest.VectorParams(size=4, distance=rest.Distance.DOT))
KEYS = ("agent_id", "category", "namespace")


@contextmanager
def opened(folder: Path) -> Iterator[Store]:
    store = Store(folder)
    try:
        yield store
    finally:
        asyncio.run(store.close())


def resident_kib(folder: Path) -> int:
    """KiB of this process's memory that are pages of files below a folder."""
    found, is_ours = 0, False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            is_ours = str(folder) in line
        elif first == "Rss:" and is_ours:
            found += int(line.split()[1])
    return found


async def filled(store: Store, points: int) -> None:
    await store.create("one", CREATED)
    collection = store.collection("one")
    made = [edge.UpdateOperation.create_field_index(key, edge.PayloadSchemaType.Keyword) for key in KEYS]
    rows = [edge.Point(str(uuid.UUID(int=at + 1)), [0.0, 1.0, 0.0, at], {"agent_id": "a"}) for at in range(points)]
    await collection.write([[*made, edge.UpdateOperation.upsert_points(rows, None, edge.UpdateMode.Upsert)]], wait=True)


def test_a_store_that_was_opened_keeps_few_pages_of_its_files(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        asyncio.run(filled(store, 10))

    with opened(tmp_path) as store:
        assert resident_kib(tmp_path / "collections") < 2_048
        assert store.collection("one").shard.count(edge.CountRequest(exact=True)) == 10


def test_pages_that_are_given_back_are_read_again_and_written_pages_are_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        asyncio.run(filled(store, 300))
        shard = store.collection("one").shard

        assert release_pages(tmp_path) > len(KEYS)

        found = shard.query(edge.QueryRequest(limit=1, query=edge.Query.Nearest([0.0, 0.0, 0.0, 1.0])))
        assert str(found[0].id) == str(uuid.UUID(int=300))
        own = edge.Filter(must=[edge.FieldCondition(key="agent_id", match=edge.MatchValue("a"))])
        assert shard.count(edge.CountRequest(exact=True, filter=own)) == 300

    with opened(tmp_path) as store:
        assert store.collection("one").shard.count(edge.CountRequest(exact=True)) == 300


def test_nothing_is_given_back_of_a_folder_that_is_not_mapped(tmp_path: Path) -> None:
    assert release_pages(tmp_path) == 0
