"""The store server beside qdrant-client's local mode: the same random writes and queries go to both."""

import random
import uuid
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from qdrant_client import QdrantClient
from qdrant_client import models as m
from qdrant_client.http.exceptions import UnexpectedResponse

NOT_FOUND = 404
SIZE = 6
WORDS = ["amber", "basalt", "cedar", "dune", "ember"]
OWNERS = [str(uuid.UUID(int=7)), str(uuid.UUID(int=8))]
SPRING = datetime(2026, 3, 1, tzinfo=UTC)
SUMMER = datetime(2026, 7, 15, 5, tzinfo=timezone(timedelta(hours=2)))
INDEXES: dict[str, m.PayloadSchemaType] = {
    "agent": m.PayloadSchemaType.KEYWORD,
    "tags": m.PayloadSchemaType.KEYWORD,
    "rank": m.PayloadSchemaType.INTEGER,
    "weight": m.PayloadSchemaType.FLOAT,
    "at": m.PayloadSchemaType.DATETIME,
    "pinned": m.PayloadSchemaType.BOOL,
    "owner": m.PayloadSchemaType.UUID,
}


class ReferenceStore:
    """Two clients that are told the same and asked the same, about a collection of their own."""

    def __init__(self, server: QdrantClient, local: QdrantClient, dice: random.Random, *, name: str) -> None:
        self.name = name
        self.server, self.local, self.dice = server, local, dice
        self.ids: list[m.ExtendedPointId] = [
            *range(20),
            *(str(uuid.UUID(int=dice.getrandbits(128), version=4)) for _ in range(20)),
        ]

    def create(self, distance: m.Distance) -> None:
        for client in (self.server, self.local):
            client.delete_collection(self.name)
            client.create_collection(
                self.name,
                vectors_config={
                    "": m.VectorParams(size=SIZE, distance=distance),
                    "image": m.VectorParams(size=3, distance=m.Distance.DOT),
                },
                sparse_vectors_config={
                    "bm25": m.SparseVectorParams(modifier=m.Modifier.IDF),
                    "plain": m.SparseVectorParams(),
                },
            )
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Payload indexes have no effect")
                for field, kind in INDEXES.items():
                    client.create_payload_index(self.name, field, kind)

    def do(self, change: Callable[[QdrantClient], Any]) -> None:
        """Change both; what one refuses, the other must refuse too."""
        assert _refused(change, self.server) == _refused(change, self.local)

    def ask(self, call: str, **arguments: Any) -> tuple[Any, Any]:
        """Call a method of both and return both answers."""
        server, local = (getattr(client, call)(self.name, **arguments) for client in (self.server, self.local))
        return server, local

    def search(self, **arguments: Any) -> tuple[list[m.ScoredPoint], list[m.ScoredPoint]]:
        server, local = self.ask("query_points", **arguments)
        return server.points, local.points

    def vector(self, size: int = SIZE) -> list[float]:
        return [round(self.dice.uniform(-1, 1), 3) for _ in range(size)]

    def sparse(self) -> m.SparseVector:
        indices = self.dice.sample(range(30), self.dice.randint(1, 6))
        return m.SparseVector(indices=indices, values=[round(self.dice.uniform(0.1, 2), 3) for _ in indices])

    def payload(self) -> dict[str, Any]:
        dice = self.dice
        everything: dict[str, Any] = {
            "agent": f"a{dice.randrange(4)}",
            "tags": dice.sample(WORDS, dice.randint(0, 3)),
            "rank": dice.randrange(-3, 9),
            "weight": round(dice.uniform(-2, 2), 2),
            "at": f"2026-0{dice.randint(1, 9)}-1{dice.randint(0, 9)}T0{dice.randint(0, 9)}:00:00Z",
            "pinned": dice.random() < 0.5,
            "owner": dice.choice(OWNERS),
            "data": " ".join(dice.choices(WORDS, k=4)),
            "note": None,
            "deep": {
                "list": [{"n": dice.randrange(3), "w": dice.choice(WORDS)} for _ in range(2)],
                "k": dice.randrange(3),
            },
        }
        return {key: value for key, value in everything.items() if dice.random() < 0.8}

    def point(self, point_id: m.ExtendedPointId) -> m.PointStruct:
        vector: dict[str, Any] = {"": self.vector()}
        if self.dice.random() < 0.6:
            vector["bm25"] = self.sparse()
        if self.dice.random() < 0.5:
            vector["image"] = self.vector(3)
        if self.dice.random() < 0.3:
            vector["plain"] = self.sparse()
        return m.PointStruct(id=point_id, vector=vector, payload=self.payload())

    def some_ids(self, most: int = 8) -> list[m.ExtendedPointId]:
        return self.dice.sample(self.ids, self.dice.randint(1, most))

    def condition(self, depth: int = 0) -> Any:
        dice = self.dice
        agents = [f"a{n}" for n in dice.sample(range(5), 2)]
        low, high = sorted((round(dice.uniform(-2, 2), 2), round(dice.uniform(-2, 2), 2)))
        choices: list[Any] = [
            m.FieldCondition(key="agent", match=m.MatchValue(value=agents[0])),
            m.FieldCondition(key="agent", match=m.MatchAny(any=agents)),
            m.FieldCondition(key="agent", match=m.MatchExcept(**{"except": agents})),
            m.FieldCondition(key="tags", match=m.MatchValue(value=dice.choice(WORDS))),
            m.FieldCondition(key="tags", match=m.MatchAny(any=dice.sample(WORDS, 2))),
            m.FieldCondition(key="rank", match=m.MatchValue(value=dice.randrange(-3, 9))),
            m.FieldCondition(key="rank", range=m.Range(gte=dice.randrange(-3, 9))),
            m.FieldCondition(key="weight", range=m.Range(gt=low, lte=high)),
            m.FieldCondition(key="at", range=m.DatetimeRange(gte=SPRING, lt=SUMMER)),
            m.FieldCondition(key="pinned", match=m.MatchValue(value=dice.random() < 0.5)),
            m.FieldCondition(key="owner", match=m.MatchValue(value=dice.choice(OWNERS))),
            m.FieldCondition(key="data", match=m.MatchText(text=dice.choice(WORDS))),
            m.FieldCondition(key="deep.k", match=m.MatchValue(value=dice.randrange(3))),
            m.FieldCondition(key="deep.list[].n", match=m.MatchValue(value=dice.randrange(3))),
            m.IsEmptyCondition(is_empty=m.PayloadField(key=dice.choice(["tags", "note", "agent"]))),
            m.HasIdCondition(has_id=self.some_ids()),
        ]
        if depth < 2:
            choices += [self.filter(depth + 1)] * 3
        return dice.choice(choices)

    def filter(self, depth: int = 0) -> m.Filter:
        dice = self.dice
        built: dict[str, Any] = {}
        for clause in ("must", "should", "must_not"):
            if dice.random() < 0.4:
                built[clause] = [self.condition(depth) for _ in range(dice.randint(1, 2))]
        return m.Filter(**built)

    def maybe_filter(self) -> m.Filter | None:
        """Return a filter with must as its only clause: joined with another clause by clause, both still hold."""
        return m.Filter(must=[self.filter()]) if self.dice.random() < 0.6 else None

    def fill(self, ids: Sequence[m.ExtendedPointId]) -> None:
        points = [self.point(one) for one in ids]
        self.do(lambda client: client.upsert(self.name, points))

    def change(self) -> None:
        dice, ids = self.dice, self.dice.sample(self.ids, self.dice.randint(3, 8))
        selector: Any = ids if dice.random() < 0.6 else self.filter()
        payload = self.payload()
        points = [self.point(one) for one in ids]
        guard = self.filter()
        mode = dice.choice([m.UpdateMode.INSERT_ONLY, m.UpdateMode.UPDATE_ONLY, m.UpdateMode.UPSERT])
        vectors = [m.PointVectors(id=one, vector={"": self.vector(), "bm25": self.sparse()}) for one in ids]
        keys = dice.sample(["agent", "tags", "deep.k", "deep.list[0]", "missing"], 2)
        operations: list[Any] = [
            m.UpsertOperation(upsert=m.PointsList(points=points)),
            m.SetPayloadOperation(set_payload=m.SetPayload(payload={"rank": 5}, points=ids)),
            m.OverwritePayloadOperation(overwrite_payload=m.SetPayload(payload=payload, points=ids[:1])),
            m.DeleteOperation(delete=m.PointIdsList(points=ids[1:3])),
        ]
        changes: list[Callable[[QdrantClient], Any]] = [
            lambda c: c.upsert(self.name, points),
            lambda c: c.upsert(self.name, points),
            lambda c: c.upsert(self.name, points, update_mode=mode),
            lambda c: c.update_vectors(self.name, vectors),
            lambda c: c.set_payload(self.name, payload, selector),
            lambda c: c.set_payload(self.name, {"n": 9}, selector, key="deep"),
            lambda c: c.delete_payload(self.name, keys, selector),
            lambda c: c.delete(self.name, m.PointIdsList(points=[*ids[:3]])),
            lambda c: c.delete(self.name, m.Filter(must=[m.Filter(must=m.HasIdCondition(has_id=ids)), guard])),
            lambda c: c.batch_update_points(self.name, operations),
        ]
        self.do(dice.choice(changes))


def _refused(change: Callable[[QdrantClient], Any], client: QdrantClient) -> bool:
    try:
        change(client)
    except UnexpectedResponse as error:
        if error.status_code != NOT_FOUND:
            raise
        return True
    except KeyError:
        return True
    return False


def plain(vector: Any) -> Any:
    """Return vectors in a form that compares: numbers by name and index."""
    if isinstance(vector, dict):
        return {(name, *key): one for name, part in vector.items() for key, one in plain(part).items()}
    if isinstance(vector, m.SparseVector):
        return {(index,): value for index, value in zip(vector.indices, vector.values, strict=True)}
    return {(index,): value for index, value in enumerate(vector or [])}


def same_records(ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    assert [one.id for one in ours] == [one.id for one in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.payload == other.payload, mine.id
        assert type(mine.vector) is type(other.vector), mine.id
        assert plain(mine.vector) == pytest.approx(plain(other.vector), abs=1e-5), mine.id


def same_ranking(ours: Sequence[m.ScoredPoint], theirs: Sequence[m.ScoredPoint]) -> None:
    """Scores agree rank by rank; ids too, but for ties, which leave the order and the last places open."""
    assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-5)
    last = theirs[-1].score if theirs else 0
    for score in {one.score for one in theirs if abs(one.score - last) > 1e-4}:
        mine, other = ({one.id for one in found if abs(one.score - score) < 5e-5} for found in (ours, theirs))
        assert mine == other
    payloads = {one.id: one.payload for one in theirs}
    assert all(payloads[one.id] == one.payload for one in ours if one.id in payloads)
