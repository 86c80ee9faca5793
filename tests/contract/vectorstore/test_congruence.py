"""The store server answers as qdrant-client's own local mode does, call by call, after the same random operations."""

import random
from collections.abc import Generator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
from qdrant_client import QdrantClient
from qdrant_client import models as m
from support.reference_store import ReferenceStore, same_ranking, same_records
from support.store_servers import StoreAddress
from support.thorough import sized


@pytest.fixture(scope="module")
def server(shared_store: StoreAddress) -> Generator[QdrantClient]:
    client = shared_store.client()
    yield client
    client.close()


@pytest.fixture(
    scope="module", params=list(zip(m.Distance, range(4), strict=True)), ids=lambda it: f"{it[0].value}-{it[1]}"
)
def kind(request: pytest.FixtureRequest) -> tuple[m.Distance, int]:
    """A distance, and the seed of everything that is random."""
    found: tuple[m.Distance, int] = request.param
    return found


@contextmanager
def filled(server: QdrantClient, kind: tuple[m.Distance, int], name: str) -> Generator[ReferenceStore]:
    distance, seed = kind
    local = QdrantClient(":memory:")
    pair = ReferenceStore(server, local, random.Random(seed), name=name)
    pair.create(distance)
    pair.fill(pair.ids)
    yield pair
    local.close()


@pytest.fixture
def fresh(server: QdrantClient, kind: tuple[m.Distance, int]) -> Generator[ReferenceStore]:
    """Forty points, each written once."""
    with filled(server, kind, "fresh") as pair:
        yield pair


@pytest.fixture(scope="module")
def changed(server: QdrantClient, kind: tuple[m.Distance, int]) -> Generator[ReferenceStore]:
    """The same after many changes of every kind, and some points written anew; it is only asked."""
    with filled(server, kind, "changed") as pair:
        for _ in range(30):
            pair.change()
        pair.fill(pair.dice.sample(pair.ids, 15))
        yield pair


@pytest.fixture
def worn(changed: ReferenceStore, kind: tuple[m.Distance, int]) -> ReferenceStore:
    """What was changed, and dice that no other test has thrown."""
    changed.dice.seed(kind[1])
    return changed


def test_points_come_back_alike(worn: ReferenceStore) -> None:
    for vectors in (True, False, ["bm25"], ["", "image"]):
        same_records(
            *(
                sorted(found, key=lambda one: str(one.id))
                for found in worn.ask("retrieve", ids=worn.ids, with_vectors=vectors)
            )
        )
    for selector in (["agent", "deep.k"], False, True):
        ours, theirs = worn.ask("scroll", limit=50, with_payload=selector, with_vectors=True)
        same_records(ours[0], theirs[0])


def test_counts_and_pages_agree(worn: ReferenceStore) -> None:
    for _ in range(sized(4, thorough=40)):
        condition = worn.filter()
        ours, theirs = worn.ask("count", count_filter=condition)
        assert ours == theirs, condition
        same_records(*(_all_pages(client, worn.name, condition) for client in (worn.server, worn.local)))


def _all_pages(client: QdrantClient, name: str, condition: m.Filter) -> list[m.Record]:
    found: list[m.Record] = []
    offset: Any = None
    while True:
        page, offset = client.scroll(name, condition, limit=7, offset=offset)
        found += page
        if offset is None:
            return found


def test_orders_agree(worn: ReferenceStore) -> None:
    for key, direction in product(("rank", "weight", "at"), m.Direction):
        order = m.OrderBy(key=key, direction=direction)
        ours, theirs = worn.ask("scroll", scroll_filter=worn.maybe_filter(), limit=50, order_by=order)
        assert {one.id for one in ours[0]} == {one.id for one in theirs[0]}
        assert [one.payload[key] for one in ours[0]] == [one.payload[key] for one in theirs[0]]


def test_facets_agree(worn: ReferenceStore) -> None:
    for key in ("agent", "tags", "rank", "pinned", "owner"):
        ours, theirs = worn.ask("facet", key=key, facet_filter=worn.maybe_filter(), limit=20, exact=True)
        assert {(hit.value, hit.count) for hit in ours.hits} == {(hit.value, hit.count) for hit in theirs.hits}, key


def test_searches_agree(worn: ReferenceStore) -> None:
    dice = worn.dice
    for _ in range(sized(4, thorough=20)):
        condition, limit = worn.maybe_filter(), dice.randint(1, 12)
        corpus = m.IdfCorpusParams(corpus=m.Filter(must=[worn.condition()]))
        dense: Any = worn.vector()
        lexical = worn.sparse()
        stage = m.Prefetch(query=dense, limit=dice.randint(3, 20), filter=worn.maybe_filter())
        questions: list[dict[str, Any]] = [
            {"query": dense},
            {"query": dense, "offset": 2},
            {"query": dense, "score_threshold": 0.1},
            {"query": dense, "with_payload": ["agent"]},
            {"query": lexical, "using": "plain"},
            {"query": lexical, "using": "bm25", "search_params": m.SearchParams(idf=corpus)},
            {"query": worn.vector(3), "using": "image"},
            {"query": worn.vector(3), "using": "image", "prefetch": stage},
        ]
        for question in questions:
            same_ranking(*worn.search(query_filter=condition, limit=limit, **question))
        batch = [
            m.QueryRequest(query=dense, filter=condition, limit=limit, with_payload=True),
            m.QueryRequest(query=lexical, using="plain", with_payload=True),
        ]
        for ours, theirs in zip(*worn.ask("query_batch_points", requests=batch), strict=True):
            same_ranking(ours.points, theirs.points)


def test_keyword_searches_agree_on_points_written_once(fresh: ReferenceStore) -> None:
    """Qdrant's collection-wide IDF goes on counting replaced points until a vacuum; local mode never counts them."""
    for _ in range(sized(4, thorough=30)):
        lexical, condition = fresh.sparse(), fresh.maybe_filter()
        same_ranking(*fresh.search(query=lexical, using="bm25", query_filter=condition, limit=8))
        stage = m.Prefetch(query=fresh.vector(), limit=12, filter=fresh.maybe_filter())
        same_ranking(*fresh.search(query=lexical, using="bm25", prefetch=stage, query_filter=condition, limit=8))
        stage = m.Prefetch(query=lexical, using="bm25", limit=40, filter=fresh.maybe_filter())
        same_ranking(*fresh.search(query=fresh.vector(), prefetch=stage, query_filter=condition, limit=8))
