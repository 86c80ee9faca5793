"""Collections and indexes, and what the engine does differently from Qdrant."""

from collections.abc import Generator

import pytest
from qdrant_client import QdrantClient
from qdrant_client import models as m
from support.store_servers import StoreAddress

DENSE = m.VectorParams(size=2, distance=m.Distance.COSINE)
SPARSE = {"bm25": m.SparseVectorParams(modifier=m.Modifier.IDF)}


#: What these tests call their collections.
NAMES = {"one", "blue", "memories", "memories_entities", "Größe & more"}


@pytest.fixture(scope="module")
def server(small_store: StoreAddress) -> Generator[QdrantClient]:
    client = small_store.client()
    yield client
    client.close()


@pytest.fixture
def client(server: QdrantClient) -> QdrantClient:
    for name in NAMES:
        server.delete_collection(name)
    return server


def test_several_collections_live_side_by_side(client: QdrantClient) -> None:
    for name, size in (("memories", 2), ("memories_entities", 3), ("Größe & more", 4)):
        client.create_collection(name, vectors_config=m.VectorParams(size=size, distance=m.Distance.DOT))
        client.upsert(name, [m.PointStruct(id=1, vector=[1.0] * size)])
    assert {one.name for one in client.get_collections().collections} & NAMES == {
        "memories",
        "memories_entities",
        "Größe & more",
    }
    assert client.delete_collection("memories") is True
    assert client.collection_exists("memories") is False
    assert client.count("Größe & more").count == 1


def test_a_collection_describes_what_it_holds(client: QdrantClient) -> None:
    client.create_collection("one", vectors_config=DENSE, sparse_vectors_config=SPARSE)
    client.create_payload_index("one", "agent", m.PayloadSchemaType.KEYWORD)
    client.create_payload_index("one", "at", m.PayloadSchemaType.DATETIME)
    client.create_payload_index("one", "data", m.PayloadSchemaType.TEXT)
    client.upsert("one", [m.PointStruct(id=1, vector={}, payload={"agent": "a", "data": "Red fox"})])
    info = client.get_collection("one")
    assert info.points_count == 1
    assert info.config.params.vectors == DENSE
    assert info.config.params.sparse_vectors == SPARSE
    assert info.payload_schema["agent"].data_type == "keyword"
    assert info.payload_schema["agent"].points == 1
    assert info.payload_schema["at"].data_type == "datetime"
    assert client.count("one", m.Filter(must=[m.FieldCondition(key="data", match=m.MatchText(text="FOX red"))])).count
    assert set(info.payload_schema) == {"agent", "at", "data"}
    assert client.update_collection("one", optimizers_config=m.OptimizersConfigDiff(indexing_threshold=0)) is True


def test_the_filters_of_a_query_and_its_prefetch_both_hold(client: QdrantClient) -> None:
    """A Qdrant server joins two should clauses into one; here nobody sees another agent's memories that way."""
    client.create_collection("one", vectors_config=DENSE)
    owners = [("ann", "red"), ("ann", "blue"), ("bob", "red")]
    points = [
        m.PointStruct(id=n, vector=[1.0, n / 10], payload={"owner": owner, "colour": colour})
        for n, (owner, colour) in enumerate(owners)
    ]
    client.upsert("one", points)
    mine = m.Filter(should=[m.FieldCondition(key="owner", match=m.MatchValue(value="ann"))])
    red = m.Filter(should=[m.FieldCondition(key="colour", match=m.MatchValue(value="red"))])
    stage = m.Prefetch(query=[1.0, 0.0], filter=red)
    found = client.query_points("one", prefetch=stage, query=[1.0, 0.0], query_filter=mine).points
    assert [one.id for one in found] == [0]


def test_booleans_are_matched_as_booleans(client: QdrantClient) -> None:
    client.create_collection("one", vectors_config=DENSE)
    payloads = [{"on": True}, {"on": False}, {"on": 1}, {}]
    client.upsert("one", [m.PointStruct(id=n, vector={}, payload=payload) for n, payload in enumerate(payloads)])
    for value, expected in ((True, [0]), (False, [1]), (1, [2])):
        condition = m.Filter(must=[m.FieldCondition(key="on", match=m.MatchValue(value=value))])
        assert [one.id for one in client.scroll("one", condition)[0]] == expected
