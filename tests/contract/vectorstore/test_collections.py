"""Collections, indexes and aliases, and what the engine does differently from Qdrant."""

from collections.abc import Generator

import pytest
from qdrant_client import QdrantClient
from qdrant_client import models as m
from qdrant_client.http.exceptions import UnexpectedResponse
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


def _words(*indices: int) -> m.SparseVector:
    return m.SparseVector(indices=list(indices), values=[1.0] * len(indices))


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
    client.create_payload_index("one", "agent", m.KeywordIndexParams(type=m.KeywordIndexType.KEYWORD, is_tenant=True))
    client.create_payload_index("one", "at", m.PayloadSchemaType.DATETIME)
    text = m.TextIndexParams(type=m.TextIndexType.TEXT, tokenizer=m.TokenizerType.WORD, lowercase=True)
    client.create_payload_index("one", "data", text)
    client.upsert("one", [m.PointStruct(id=1, vector={}, payload={"agent": "a", "data": "Red fox"})])
    info = client.get_collection("one")
    assert info.points_count == 1
    assert info.config.params.vectors == DENSE
    assert info.config.params.sparse_vectors == SPARSE
    assert info.payload_schema["agent"].params == m.KeywordIndexParams(type=m.KeywordIndexType.KEYWORD, is_tenant=True)
    assert info.payload_schema["agent"].points == 1
    assert info.payload_schema["at"].data_type == "datetime"
    assert client.count("one", m.Filter(must=[m.FieldCondition(key="data", match=m.MatchText(text="FOX red"))])).count
    client.delete_payload_index("one", "agent")
    assert set(client.get_collection("one").payload_schema) == {"at", "data"}
    assert client.update_collection("one", optimizers_config=m.OptimizersConfigDiff(indexing_threshold=0)) is True


def test_an_alias_stands_for_its_collection_everywhere(client: QdrantClient) -> None:
    for name in ("blue", "green"):
        client.create_collection(name, vectors_config=DENSE)
    client.upsert("blue", [m.PointStruct(id=1, vector=[1.0, 0.0])])
    create = m.CreateAliasOperation(create_alias=m.CreateAlias(collection_name="blue", alias_name="live"))
    client.update_collection_aliases([create])
    client.upsert("live", [m.PointStruct(id=2, vector=[0.0, 1.0])])
    assert client.collection_exists("live")
    assert client.count("live").count == client.count("blue").count == 2
    assert [one.id for one in client.query_points("live", query=[1.0, 0.1]).points] == [1, 2]
    switch: list[m.AliasOperations] = [
        m.DeleteAliasOperation(delete_alias=m.DeleteAlias(alias_name="live")),
        m.CreateAliasOperation(create_alias=m.CreateAlias(collection_name="green", alias_name="live")),
    ]
    client.update_collection_aliases(switch)
    assert client.count("live").count == 0
    rename = m.RenameAlias(old_alias_name="live", new_alias_name="current")
    client.update_collection_aliases([m.RenameAliasOperation(rename_alias=rename)])
    listed = client.get_aliases().aliases
    assert [(one.alias_name, one.collection_name) for one in listed] == [("current", "green")]
    assert client.get_collection_aliases("blue").aliases == []
    client.delete_collection("green")
    assert client.get_aliases().aliases == []


def test_alias_actions_apply_all_or_none(client: QdrantClient) -> None:
    client.create_collection("blue", vectors_config=DENSE)
    good = m.CreateAliasOperation(create_alias=m.CreateAlias(collection_name="blue", alias_name="live"))
    for target, alias in (("missing", "x"), ("blue", "blue")):
        bad = m.CreateAliasOperation(create_alias=m.CreateAlias(collection_name=target, alias_name=alias))
        with pytest.raises(UnexpectedResponse):
            client.update_collection_aliases([good, bad])
        assert client.get_aliases().aliases == []


def test_a_sparse_vector_taken_away_is_not_found_by_its_old_terms(client: QdrantClient) -> None:
    client.create_collection("one", vectors_config=DENSE, sparse_vectors_config=SPARSE)
    points = [m.PointStruct(id=n, vector={"": [1.0, 0.0], "bm25": _words(1)}) for n in range(4)]
    client.upsert("one", points)
    client.delete_vectors("one", ["bm25"], [0])
    client.delete_vectors("one", ["bm25"], m.Filter(must=[m.HasIdCondition(has_id=[1])]))
    client.update_vectors("one", [m.PointVectors(id=n, vector={"bm25": _words(7)}) for n in (0, 1)])
    assert {one.id for one in client.query_points("one", query=_words(1), using="bm25").points} == {2, 3}
    assert {one.id for one in client.query_points("one", query=_words(7), using="bm25").points} == {0, 1}


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
    fusion = m.FusionQuery(fusion=m.Fusion.RRF)
    found = client.query_points("one", prefetch=stage, query=fusion, query_filter=mine).points
    assert [one.id for one in found] == [0]


def test_booleans_are_matched_as_booleans(client: QdrantClient) -> None:
    client.create_collection("one", vectors_config=DENSE)
    payloads = [{"on": True}, {"on": False}, {"on": 1}, {}]
    client.upsert("one", [m.PointStruct(id=n, vector={}, payload=payload) for n, payload in enumerate(payloads)])
    for value, expected in ((True, [0]), (False, [1]), (1, [2])):
        condition = m.Filter(must=[m.FieldCondition(key="on", match=m.MatchValue(value=value))])
        assert [one.id for one in client.scroll("one", condition)[0]] == expected
