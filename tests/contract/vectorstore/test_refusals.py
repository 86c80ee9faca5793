"""What the store server refuses, with which status, and that a refused write wrote nothing."""

import threading
import warnings
from collections.abc import Generator
from typing import Any

import httpx
import pytest
from qdrant_client import QdrantClient
from qdrant_client import models as m
from qdrant_client.http.exceptions import UnexpectedResponse
from support.store_servers import StoreAddress

NAME = "refusals"


@pytest.fixture(scope="module")
def address(small_store: StoreAddress) -> Generator[StoreAddress]:
    client = small_store.client()
    client.create_collection(
        NAME,
        vectors_config=m.VectorParams(size=2, distance=m.Distance.COSINE),
        sparse_vectors_config={"bm25": m.SparseVectorParams(modifier=m.Modifier.IDF)},
    )
    client.upsert(NAME, [m.PointStruct(id=1, vector=[1.0, 0.0], payload={"a": 1})])
    yield small_store
    # A process that is given tests of this file twice makes it twice.
    client.delete_collection(NAME)
    client.close()


@pytest.fixture(scope="module")
def rest(address: StoreAddress) -> Generator[httpx.Client]:
    with httpx.Client(base_url=address.url, headers={"api-key": address.api_key}, timeout=600) as client:
        yield client


def _collections(rest: httpx.Client) -> set[str]:
    return {each["name"] for each in rest.get("/collections").json()["result"]["collections"]}


def _error(answer: httpx.Response) -> str:
    body = answer.json()
    assert body.keys() == {"status", "time"}
    return str(body["status"]["error"])


def _point(**changes: Any) -> dict[str, Any]:
    return {"points": [{"id": 5, "vector": [1, 0]}, {"id": 6, "vector": [0, 1], "payload": {}, **changes}]}


@pytest.mark.parametrize(
    "body",
    [
        _point(vector=[1, 0, 0]),
        _point(vector=[1]),
        _point(vector=[1, "0"]),
        _point(vector=[1, True]),
        _point(vector=[1, None]),
        _point(vector=[1, 1e39]),
        _point(vector=[1, -1e39]),
        _point(vector=[1, 10**18 * 10**18 * 10**18]),
        _point(vector="text"),
        _point(vector={"unknown": [1, 0]}),
        _point(vector={"bm25": [1, 0]}),
        _point(vector={"": {"indices": [1], "values": [1]}}),
        _point(vector={"bm25": {"indices": [1, 1], "values": [1, 1]}}),
        _point(vector={"bm25": {"indices": [1], "values": [1, 2]}}),
        _point(vector={"bm25": {"indices": [-1], "values": [1]}}),
        _point(vector={"bm25": {"indices": [2**32], "values": [1]}}),
        _point(vector={"bm25": {"indices": [1.5], "values": [1]}}),
        _point(id=-1),
        _point(id="six"),
        _point(id=2**64),
        _point(id=True),
        _point(payload=[1]),
        _point(surplus=1),
        {**_point(), "update_mode": "sometimes"},
        {**_point(), "surplus": 1},
        {"points": []},
        {"points": {}},
        {},
    ],
    ids=str,
)
def test_a_bad_upsert_is_refused_and_writes_nothing(rest: httpx.Client, body: dict[str, Any]) -> None:
    answer = rest.put(f"/collections/{NAME}/points?wait=true", json=body)
    assert answer.status_code == 400
    assert _error(answer)
    assert rest.post(f"/collections/{NAME}/points/count", json={}).json()["result"] == {"count": 1}


def test_a_batch_with_one_bad_operation_writes_nothing(rest: httpx.Client) -> None:
    good = {"upsert": {"points": [{"id": 7, "vector": [1, 0]}]}}
    wrong: list[dict[str, Any]] = [{"upsert": _point(vector=[1])}, {"explode": {}}, {"delete": {"points": ["no id"]}}]
    for bad in wrong:
        answer = rest.post(f"/collections/{NAME}/points/batch?wait=true", json={"operations": [good, bad]})
        assert answer.status_code == 400
    assert rest.post(f"/collections/{NAME}/points/count", json={}).json()["result"] == {"count": 1}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"points": [{"id": 5, "vector": [NaN, 0]}]}', b"\xff"])
def test_a_body_that_is_no_json_object_is_refused(rest: httpx.Client, content: bytes) -> None:
    assert rest.put(f"/collections/{NAME}/points", content=content).status_code == 400


def test_a_body_above_the_limit_is_refused(rest: httpx.Client) -> None:
    answer = rest.put(f"/collections/{NAME}/points", content=b" " * (32 * 2**20 + 1))
    assert answer.status_code == 413


QUERY = f"/collections/{NAME}/points/query"
SCROLL = f"/collections/{NAME}/points/scroll"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (QUERY, {"query": [1, 0, 0]}, 400),
        (QUERY, {"query": [1, 0], "using": "none"}, 400),
        (QUERY, {"query": [1, 0], "using": "bm25"}, 400),
        (QUERY, {"query": [1, 0], "limit": 0}, 400),
        (QUERY, {"query": [1, 0], "offset": -1}, 400),
        (QUERY, {"query": [1, 0], "surplus": 1}, 400),
        (QUERY, {"query": [1, 0], "with_vector": ["none"]}, 400),
        (SCROLL, {"order_by": "not_indexed"}, 400),
        (SCROLL, {"order_by": "a", "offset": 1}, 400),
        (SCROLL, {"limit": 0}, 400),
        (SCROLL, {"limit": 2**70}, 400),
        (SCROLL, {"filter": {"must": [{"key": "a", "match": {"value": 2**63}}]}}, 400),
        (SCROLL, {"filter": {"must": [{"key": "a", "range": {"gt": "yesterday"}}]}}, 400),
        (QUERY, {"query": [1, 0], "filter": {"must": [{"key": "a", "match": {"any": [2**63]}}]}}, 400),
        (f"/collections/{NAME}/points/payload/delete", {"keys": ["a..b"], "points": [1]}, 400),
        (f"/collections/{NAME}/points/delete", {"filter": {"must": [{"key": "a", "match": {"value": 2**63}}]}}, 400),
        (SCROLL, {"filter": {"must": [{"key": "a", "match": {"value": 1.5}}]}}, 400),
        (SCROLL, {"filter": {"must": [{"key": "a..b", "match": {"value": 1}}]}}, 400),
        (f"/collections/{NAME}/facet", {"key": "not_indexed"}, 400),
        (f"/collections/{NAME}/points/payload", {"payload": {"b": 1}, "points": [99]}, 404),
        (f"/collections/{NAME}/points/payload", {"payload": {"b": 1}}, 400),
        (f"/collections/{NAME}/points/delete", {"points": []}, 400),
    ],
    ids=str,
)
def test_a_wrong_request_is_told_what_is_wrong(
    rest: httpx.Client, path: str, body: dict[str, Any], status: int
) -> None:
    answer = rest.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert _error(answer)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", f"/collections/{NAME}/points/query/groups", {"group_by": "a"}),
        ("POST", f"/collections/{NAME}/points/search", {}),
        ("POST", f"/collections/{NAME}/points/search/matrix/pairs", {}),
        ("GET", f"/collections/{NAME}/cluster", None),
        ("POST", f"/collections/{NAME}/snapshots", None),
        ("PUT", f"/collections/{NAME}/vectors/new", {"size": 2}),
        ("PATCH", f"/collections/{NAME}", {"quantization_config": {"scalar": {"type": "int8"}}}),
        ("PUT", f"/collections/{NAME}/index", {"field_name": "where", "field_schema": "geo"}),
        (
            "PUT",
            f"/collections/{NAME}/index",
            {"field_name": "a", "field_schema": {"type": "keyword", "is_tenant": True}},
        ),
        ("PUT", f"/collections/{NAME}/points/payload", {"payload": {"b": 1}, "points": [1]}),
        ("POST", f"/collections/{NAME}/points/payload/clear", {"points": [1]}),
        ("POST", f"/collections/{NAME}/points/vectors/delete", {"vector": ["bm25"], "points": [1]}),
        ("POST", "/collections/aliases", {"actions": []}),
        *(
            ("POST", f"/collections/{NAME}/points/batch", {"operations": [operation]})
            for operation in (
                {"overwrite_payload": {"payload": {"b": 1}, "points": [1], "key": "deep"}},
                {"clear_payload": {"points": [1]}},
                {"upsert": {**_point(), "shard_key": "a"}},
            )
        ),
        ("PUT", f"/collections/{NAME}/points", {**_point(), "shard_key": "a"}),
        ("PUT", f"/collections/{NAME}/points", {**_point(), "update_filter": {"must": [{"key": "a"}]}}),
        ("PUT", f"/collections/{NAME}/points", {"batch": {"ids": [5], "vectors": [[1, 0]]}}),
        ("POST", QUERY, {"query": {"fusion": "rrf"}, "prefetch": [{"query": [1, 0]}]}),
        ("POST", QUERY, {"prefetch": [{"query": [1, 0]}]}),
        ("POST", QUERY, {"query": 1}),
        ("POST", QUERY, {"query": {"nearest": [1, 0], "mmr": {"diversity": 0.3}}}),
        ("POST", QUERY, {"query": {"order_by": "a"}}),
        ("POST", QUERY, {"query": {"sample": "random"}}),
        ("POST", QUERY, {"query": [1, 0], "with_payload": {"exclude": ["a"]}}),
        ("POST", SCROLL, {"order_by": {"key": "a", "start_from": 1}}),
        ("POST", SCROLL, {"filter": {"must": {"key": "a", "match": {"phrase": "b"}}}}),
        ("POST", SCROLL, {"filter": {"must": {"key": "a", "values_count": {"gt": 1}}}}),
        ("POST", SCROLL, {"filter": {"must": {"has_vector": "bm25"}}}),
        ("POST", SCROLL, {"filter": {"min_should": {"conditions": [{"has_id": [1]}], "min_count": 1}}}),
        ("PUT", f"/collections/{NAME}/points", _point(vector=[[1, 0], [0, 1]])),
        ("PUT", f"/collections/{NAME}/points", _point(vector={"bm25": {"text": "a", "model": "b"}})),
        ("POST", QUERY, {"query": {"text": "a", "model": "b"}}),
        ("POST", QUERY, {"query": {"recommend": {"positive": [1]}}}),
        ("POST", QUERY, {"query": {"discover": {"target": 1, "context": []}}}),
        ("POST", QUERY, {"query": {"formula": "$score"}, "prefetch": [{"query": [1, 0]}]}),
        ("POST", QUERY, {"query": [1, 0], "params": {"indexed_only": True}}),
        ("POST", QUERY, {"query": 1, "lookup_from": {"collection": NAME}}),
        ("POST", QUERY, {"query": [1, 0], "shard_key": "a"}),
        (
            "POST",
            SCROLL,
            {"filter": {"must": {"key": "a", "geo_radius": {"center": {"lon": 1, "lat": 1}, "radius": 1}}}},
        ),
        ("POST", SCROLL, {"filter": {"must": {"key": "a", "range": {"gt": 1}, "match": {"value": 1}}}}),
        ("PUT", "/collections/other", {"vectors": {"size": 2, "distance": "Dot", "datatype": "float16"}}),
        ("PUT", "/collections/other", {"vectors": {"size": 2, "distance": "Dot"}, "shard_number": 2}),
        (
            "PUT",
            "/collections/other",
            {"vectors": {"size": 2, "distance": "Dot", "multivector_config": {"comparator": "max_sim"}}},
        ),
    ],
    ids=str,
)
def test_what_only_a_qdrant_server_can_do_is_refused_as_not_supported(
    rest: httpx.Client, method: str, path: str, body: dict[str, Any] | None
) -> None:
    before = _collections(rest)
    answer = rest.request(method, path, json=body)
    assert answer.status_code == 501, answer.text
    assert _error(answer).startswith("Not supported by the embedded store")
    assert _collections(rest) == before
    assert rest.post(f"/collections/{NAME}/points/count", json={}).json()["result"] == {"count": 1}


def test_an_unknown_collection_is_told_in_qdrants_words(address: StoreAddress) -> None:
    client = address.client()
    for call in (
        lambda: client.get_collection("none"),
        lambda: client.upsert("none", [m.PointStruct(id=1, vector=[1.0])]),
        lambda: client.query_points("none", query=[1.0]),
        lambda: client.count("none"),
        lambda: client.delete("none", [1]),
    ):
        with pytest.raises(UnexpectedResponse) as refused:
            call()
        assert refused.value.status_code == 404
        assert b"Not found: Collection `none` doesn't exist!" in refused.value.content
    assert client.delete_collection("none") is False
    client.close()


def test_a_collection_is_created_once(address: StoreAddress) -> None:
    client = address.client()
    with pytest.raises(UnexpectedResponse) as refused:
        client.create_collection(NAME, vectors_config=m.VectorParams(size=9, distance=m.Distance.DOT))
    assert refused.value.status_code == 409
    vectors = client.get_collection(NAME).config.params.vectors
    assert isinstance(vectors, m.VectorParams)
    assert (vectors.size, vectors.distance) == (2, m.Distance.COSINE)
    client.close()


@pytest.mark.parametrize("name", ["a/b", "a\\b", "..", ".", "a:b", "x" * 300])
def test_a_collections_name_stays_inside_the_data_folder(rest: httpx.Client, name: str) -> None:
    quoted = name.replace("/", "%2F").replace(".", "%2E").replace("\\", "%5C")
    before = _collections(rest)
    answer = rest.put(f"/collections/{quoted}", json={"vectors": {"size": 2, "distance": "Dot"}})
    assert answer.status_code in {400, 501}
    assert _collections(rest) == before


@pytest.mark.parametrize(
    "headers",
    [{}, {"api-key": "wrong"}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}, {"api-key": ""}],
)
def test_without_the_key_nobody_reads_or_writes(address: StoreAddress, headers: dict[str, str]) -> None:
    with httpx.Client(base_url=address.url, headers=headers, timeout=600) as client:
        for method, path in (("GET", "/collections"), ("DELETE", f"/collections/{NAME}"), ("GET", "/unknown")):
            answer = client.request(method, path)
            assert answer.status_code == 401
            assert address.api_key not in answer.text
        for path in ("/", "/healthz", "/livez", "/readyz"):
            assert client.get(path).status_code == 200


def test_the_key_is_taken_from_either_header(address: StoreAddress) -> None:
    for headers in ({"api-key": address.api_key}, {"Authorization": f"Bearer {address.api_key}"}):
        assert httpx.get(f"{address.url}/collections", headers=headers, timeout=600).status_code == 200


def test_an_ordinary_client_finds_a_compatible_server(address: StoreAddress) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        before = set(threading.enumerate())
        client = QdrantClient(url=address.url, api_key=address.api_key)
        # It asks for the server's version in a thread, which must not outlive the server.
        for checking in set(threading.enumerate()) - before:
            checking.join()
        assert client.info().version == "1.20.0"
        client.close()
