"""Qdrant's REST models, checked and translated to the engine's: shapes, points, filters, queries; its errors."""

import math
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import qdrant_edge as edge
from pydantic import ValidationError
from qdrant_client.http import models as rest

from memcore.vectorstore.errors import ApiError, BadRequestError, EngineFailedError, NotFoundError, NotSupportedError

#: Kilobytes of vectors in a segment above which the engine builds an HNSW graph. So high that it never does: building
#: one took 10 s at 10,000 points and 179 s at 50,000 with everything else waiting, and filtered search got no faster.
INDEXING_THRESHOLD_KB = 10_000_000

#: Share of deleted points in a segment above which a vacuum rewrites it (Qdrant's default).
VACUUM_SHARE = 0.2

#: Points below which a segment is never vacuumed (Qdrant's default): rewriting it would cost more than it frees.
VACUUM_MIN_POINTS = 1000

#: The longest dense vector that Qdrant takes.
_LARGEST_SIZE = 65536

#: The name of the vector that was given none.
UNNAMED = ""

_DISTANCES = {
    rest.Distance.COSINE: edge.Distance.Cosine,
    rest.Distance.DOT: edge.Distance.Dot,
    rest.Distance.EUCLID: edge.Distance.Euclid,
    rest.Distance.MANHATTAN: edge.Distance.Manhattan,
}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What vectors a collection holds, by vector name; the unnamed vector is ``""``."""

    dense: Mapping[str, rest.VectorParams]
    sparse: Mapping[str, rest.SparseVectorParams]

    @classmethod
    def of(cls, request: rest.CreateCollection) -> Self:
        """Take the shape from a create request; refuse an option that would change answers and is not known here.

        Options that only tune a server (HNSW, optimizer, WAL, placement on disk, a single shard) have no effect.
        """
        vectors = request.vectors or {}
        dense = {UNNAMED: vectors} if isinstance(vectors, rest.VectorParams) else dict(vectors)
        sparse = dict(request.sparse_vectors or {})
        if not dense and not sparse:
            raise BadRequestError("Wrong input: a collection needs at least one vector")
        if twice := dense.keys() & sparse.keys():
            raise BadRequestError(f"Wrong input: vector name `{min(twice)}` is both dense and sparse")
        _refuse_unknown(request)
        for name, params in dense.items():
            _refuse_dense(name, params)
        for name, sparse_params in sparse.items():
            datatype = sparse_params.index and sparse_params.index.datatype
            if datatype not in {None, rest.Datatype.FLOAT32}:
                raise NotSupportedError(f"sparse_vectors.{name}.index.datatype {datatype}")
        return cls(dense=dense, sparse=sparse)

    def engine_config(self) -> edge.EdgeConfig:
        """Return the engine's configuration: exact search, write-ahead log always on."""
        return edge.EdgeConfig(
            vectors={
                # Cold: read when a search needs them. Else an open reads all of them, holes included: 32 MiB at least.
                name: edge.EdgeVectorParams(
                    size=params.size, distance=_DISTANCES[params.distance], memory=edge.Memory.Cold
                )
                for name, params in self.dense.items()
            },
            sparse_vectors={
                name: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf if params.modifier == "idf" else None)
                for name, params in self.sparse.items()
            },
            optimizers=edge.EdgeOptimizersConfig(
                deleted_threshold=VACUUM_SHARE,
                vacuum_min_vector_number=VACUUM_MIN_POINTS,
                indexing_threshold=INDEXING_THRESHOLD_KB,
            ),
            wal_enabled=True,
            # Else every collection has a thread for each CPU: thousands of them with some hundred companies. A vacuum
            # leaves one segment, which one thread searches, and calls come one at a time.
            max_search_threads=1,
        )


def _refuse_unknown(request: rest.CreateCollection) -> None:
    if request.quantization_config is not None:
        raise NotSupportedError("quantization_config")
    if request.strict_mode_config is not None and request.strict_mode_config.enabled:
        raise NotSupportedError("strict_mode_config")
    if request.sharding_method not in {None, rest.ShardingMethod.AUTO}:
        raise NotSupportedError("sharding_method custom")
    for field in ("shard_number", "replication_factor", "write_consistency_factor"):
        if getattr(request, field) not in {None, 1}:
            raise NotSupportedError(f"{field} above 1")


def _refuse_dense(name: str, params: rest.VectorParams) -> None:
    if not 1 <= params.size <= _LARGEST_SIZE:
        raise BadRequestError(f"Wrong input: vectors.{name or 'size'}: size must be 1 to {_LARGEST_SIZE}")
    for option in ("quantization_config", "multivector_config"):
        if getattr(params, option) is not None:
            raise NotSupportedError(f"vectors.{name}.{option}")
    if params.datatype not in {None, rest.Datatype.FLOAT32}:
        raise NotSupportedError(f"vectors.{name}.datatype {params.datatype}")


#: The engine's type of each index.
_INDEXES: dict[str, edge.PayloadSchemaType] = {
    "keyword": edge.PayloadSchemaType.Keyword,
    "integer": edge.PayloadSchemaType.Integer,
    "float": edge.PayloadSchemaType.Float,
    "bool": edge.PayloadSchemaType.Bool,
    "datetime": edge.PayloadSchemaType.Datetime,
    "uuid": edge.PayloadSchemaType.Uuid,
    "text": edge.PayloadSchemaType.Text,
}


def index_type(given: Any) -> edge.PayloadSchemaType:
    """Translate an index's type; geographic ones are refused, and those with parameters."""
    if not isinstance(given, rest.PayloadSchemaType):
        raise NotSupportedError("index parameters")
    if given.value not in _INDEXES:
        raise NotSupportedError(f"{given.value} index")
    return _INDEXES[given.value]


def described(index: "edge.PayloadIndexInfo") -> dict[str, Any]:
    """Describe an index: its type, and how many points it holds."""
    return {"data_type": str(index.data_type).rpartition(".")[2].lower(), "points": index.points}


# Pydantic needs 17 ms for 256 points of 256 numbers, the checks here 3 ms; both refuse the same input.

#: Types that orjson gives for a JSON number; bool is a type of its own and so is refused.
_NUMBERS = frozenset({int, float})

#: The largest magnitude a 32-bit float holds; above it the engine would store an infinity that poisons every score.
_LARGEST_FLOAT32 = 3.4028234663852886e38

#: The largest index of a sparse vector (the engine keeps 32 bits).
_LARGEST_INDEX = 2**32 - 1

#: The largest numeric point id (64 bits).
_LARGEST_ID = 2**64 - 1

#: One vector as the engine takes it; rows of a multivector are refused before they get here.
NamedVector = list[float] | edge.SparseVector | list[list[float]]

_UUID = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def point_id(value: object) -> int | str:
    """Return the id as the engine takes it: an unsigned 64-bit integer, or a UUID in text."""
    if type(value) is int and 0 <= value <= _LARGEST_ID:
        return value
    if isinstance(value, str) and _UUID.fullmatch(value):
        return value
    raise BadRequestError("Format error in JSON body: a point ID is either an unsigned integer or a UUID")


def _finite(values: Any, where: str) -> list[float]:
    if type(values) is not list or not _NUMBERS.issuperset(map(type, values)):
        raise BadRequestError(f"Format error in JSON body: {where}: a list of numbers is expected")
    # The length is no smaller than the largest magnitude, and found in one quick pass; only a huge one needs a look.
    if (
        not _length(values) <= _LARGEST_FLOAT32
        and not -_LARGEST_FLOAT32 <= min(values) <= max(values) <= _LARGEST_FLOAT32
    ):
        raise BadRequestError(f"Format error in JSON body: {where}: a number is outside of 32-bit floats")
    return values


def _length(values: list[float]) -> float:
    try:
        return math.hypot(*values)
    except OverflowError:
        # an integer beyond any float
        return math.inf


def _dense(values: Any, shape: Shape, name: str) -> list[float]:
    params = shape.dense.get(name)
    if params is None:
        if name in shape.sparse:
            raise BadRequestError(f"Wrong input: vector `{name}` is sparse, a dense one was sent")
        raise BadRequestError(f"Wrong input: Not existing vector name error: {name}")
    if type(values) is list and values and type(values[0]) is list:
        raise NotSupportedError("multivectors")
    numbers = _finite(values, f"vector `{name}`")
    if len(numbers) != params.size:
        raise BadRequestError(f"Wrong input: Vector dimension error: expected dim: {params.size}, got {len(numbers)}")
    return numbers


def _sparse(value: dict[str, Any], shape: Shape, name: str) -> edge.SparseVector:
    if value.keys() != {"indices", "values"}:
        raise NotSupportedError("inference: send vectors, not texts or images")
    if name not in shape.sparse:
        if name in shape.dense:
            raise BadRequestError(f"Wrong input: vector `{name}` is dense, a sparse one was sent")
        raise BadRequestError(f"Wrong input: Not existing vector name error: {name}")
    indices, values = value["indices"], _finite(value["values"], f"vector `{name}` values")
    if type(indices) is not list or not set(map(type, indices)) <= {int}:
        raise BadRequestError(f"Format error in JSON body: vector `{name}` indices: integers are expected")
    if len(indices) != len(values):
        raise BadRequestError(f"Format error in JSON body: vector `{name}`: as many indices as values are expected")
    if len(set(indices)) != len(indices):
        raise BadRequestError(f"Format error in JSON body: vector `{name}` indices: must be unique")
    if indices and not (min(indices) >= 0 and max(indices) <= _LARGEST_INDEX):
        raise BadRequestError(f"Format error in JSON body: vector `{name}` indices: 0 to {_LARGEST_INDEX} are expected")
    return edge.SparseVector(indices=indices, values=values)


def _named(value: Any, shape: Shape, name: str) -> NamedVector:
    return _sparse(value, shape, name) if type(value) is dict else _dense(value, shape, name)


def vector_struct(value: Any, shape: Shape) -> dict[str, NamedVector]:
    """Check what a point carries: one unnamed vector, or vectors by name (none is allowed)."""
    if type(value) is list:
        return {UNNAMED: _dense(value, shape, UNNAMED)}
    if type(value) is not dict:
        raise BadRequestError("Format error in JSON body: vector: a list or an object is expected")
    return {name: _named(one, shape, name) for name, one in value.items()}


#: Predicates of one field condition that are translated, and the others.
_PREDICATES = ("match", "range")
_ELSEWHERE = ("values_count", "is_empty", "is_null", "geo_bounding_box", "geo_radius", "geo_polygon")


def engine_filter(filter_: rest.Filter | None) -> edge.Filter | None:
    """Translate a filter; None stays None and matches everything."""
    if filter_ is None:
        return None
    if filter_.min_should is not None:
        raise NotSupportedError("filter min_should")
    return edge.Filter(
        must=_conditions(filter_.must), should=_conditions(filter_.should), must_not=_conditions(filter_.must_not)
    )


def _stage_filter(filter_: rest.Filter | None) -> edge.Filter | None:
    """Translate the filter of one stage of a query.

    The engine joins the filters of nested stages clause by clause, which turns two ``should`` into one: a filter that
    has any is wrapped, so that both must hold.
    """
    translated = engine_filter(filter_)
    if translated is None or filter_ is None or not filter_.should:
        return translated
    return edge.Filter(must=[translated])


def _conditions(given: Any) -> list[Any] | None:
    if given is None:
        return None
    return [_condition(one) for one in (given if isinstance(given, list) else [given])]


def _condition(given: Any) -> Any:
    translate = _CONDITIONS.get(type(given))
    if translate is None:
        raise NotSupportedError(f"filter condition {type(given).__name__}")
    return translate(given)


def _field(given: rest.FieldCondition) -> edge.FieldCondition:
    for predicate in _ELSEWHERE:
        if getattr(given, predicate) is not None:
            raise NotSupportedError(f"filter {predicate}")
    used = [one for one in _PREDICATES if getattr(given, one) is not None]
    if not used:
        raise BadRequestError(f"Wrong input: filter on `{given.key}`: a match or a range is missing")
    if len(used) > 1:
        raise NotSupportedError(f"{' and '.join(used)} in one field condition (write two conditions)")
    if given.range is None:
        return edge.FieldCondition(key=given.key, match=_match(given.match))
    bounds = given.range.model_dump(exclude_none=True)
    if isinstance(given.range, rest.DatetimeRange):
        # a date, and a time without a zone, are UTC to the engine as they are to Qdrant
        times = {name: value.isoformat() for name, value in bounds.items()}
        return edge.FieldCondition(key=given.key, range=edge.RangeDateTime(**times))
    return edge.FieldCondition(key=given.key, range=edge.RangeFloat(**bounds))


#: The engine's match for each of the REST ones, and the field that holds the operand.
_MATCHES: dict[type[Any], tuple[Callable[[Any], Any], str]] = {
    rest.MatchValue: (edge.MatchValue, "value"),
    rest.MatchAny: (edge.MatchAny, "any"),
    rest.MatchExcept: (edge.MatchExcept, "except_"),
    rest.MatchText: (edge.MatchText, "text"),
}


def _match(given: Any) -> Any:
    if isinstance(given, rest.MatchValue) and isinstance(given.value, bool):
        # the binding takes a Python bool for the integer 1 or 0, which matches no boolean; a numpy one stays a boolean
        return edge.MatchValue(np.bool_(given.value))  # type: ignore[arg-type]  # the stub does not know numpy
    if type(given) not in _MATCHES:
        raise NotSupportedError(f"filter {type(given).__name__}")
    build, field = _MATCHES[type(given)]
    return build(getattr(given, field))


_CONDITIONS: dict[type[Any], Callable[[Any], Any]] = {
    rest.Filter: engine_filter,
    rest.FieldCondition: _field,
    rest.HasIdCondition: lambda given: edge.HasIdCondition({point_id(one) for one in given.has_id}),
    rest.IsEmptyCondition: lambda given: edge.IsEmptyCondition(given.is_empty.key),
}


def payload_selector(given: Any, *, default: bool) -> Any:
    """Translate ``with_payload``: a switch, or the names to include."""
    match given:
        case None:
            return default
        case list():
            return edge.PayloadSelector.Include(given)
        case bool():
            return given
        case _:
            raise NotSupportedError(f"with_payload {type(given).__name__}")


def vector_selector(given: Any) -> bool | list[str]:
    """Translate ``with_vector``: a switch, or the names of the vectors wanted."""
    return [str(name) for name in given] if isinstance(given, list) else bool(given)


#: Points that a query, a prefetch or a page returns when the request names no limit (Qdrant's default).
DEFAULT_LIMIT = 10

_DIRECTIONS = {rest.Direction.ASC: edge.Direction.Asc, rest.Direction.DESC: edge.Direction.Desc}


def query_of(given: rest.QueryRequest, shape: Shape) -> edge.QueryRequest:
    """Translate a whole query: nearest to a vector, of everything or of what its prefetch found."""
    refuse_shard_key(given.shard_key)
    if (given.offset or 0) < 0:
        raise BadRequestError("Wrong input: offset must be 0 or more")
    return edge.QueryRequest(
        **_stage(given, shape),
        offset=given.offset or 0,
        with_payload=payload_selector(given.with_payload, default=False),
        with_vector=vector_selector(given.with_vector),
    )


def _stage(given: rest.QueryRequest | rest.Prefetch, shape: Shape) -> dict[str, Any]:
    """Translate what a query and each of its prefetches have."""
    if given.lookup_from is not None:
        raise NotSupportedError("lookup_from")
    inner = given.prefetch if isinstance(given.prefetch, list) else [given.prefetch] if given.prefetch else []
    using = given.using or UNNAMED
    return {
        "limit": limit_of(given.limit),
        "query": edge.Query.Nearest(_asked(given.query, shape, using), using=using),
        "prefetches": [edge.Prefetch(**_stage(one, shape)) for one in inner],
        "filter": _stage_filter(given.filter),
        "params": _params(given.params),
        "score_threshold": given.score_threshold,
    }


def _asked(given: Any, shape: Shape, using: str) -> NamedVector:
    match given:
        case rest.NearestQuery(mmr=None):
            return _asked(given.nearest, shape, using)
        case rest.SparseVector():
            return _named({"indices": given.indices, "values": given.values}, shape, using)
        case list():
            return _named(given, shape, using)
        case _:
            raise NotSupportedError(f"query {'without a vector' if given is None else type(given).__name__}")


def limit_of(given: int | None) -> int:
    """Check a limit; none given is Qdrant's 10."""
    if given is None:
        return DEFAULT_LIMIT
    if given < 1:
        raise BadRequestError("Wrong input: limit must be 1 or more")
    return given


def refuse_shard_key(given: Any) -> None:
    """Refuse a shard key: a collection here is one shard, and ignoring the key would answer from the wrong points."""
    if given is not None:
        raise NotSupportedError("shard_key")


def engine_order(given: str | rest.OrderBy) -> edge.OrderBy:
    """Translate an order; the engine wants a range index on the key and says so otherwise."""
    if isinstance(given, str):
        return edge.OrderBy(given)
    if given.start_from is not None:
        raise NotSupportedError("order_by.start_from")
    return edge.OrderBy(given.key, direction=None if given.direction is None else _DIRECTIONS[given.direction])


def _params(given: rest.SearchParams | None) -> edge.SearchParams | None:
    # hnsw_ef, exact, acorn and quantization tune an approximate search; the search here is exact, hence no change
    if given is None:
        return None
    if given.indexed_only:
        raise NotSupportedError("params.indexed_only")
    if not isinstance(given.idf, rest.IdfCorpusParams):
        return None
    return edge.SearchParams(idf=edge.IdfParams(corpus=engine_filter(given.idf.corpus)))


#: How the engine's own message begins when the request, not the engine, is at fault (seen in qdrant-edge-py 0.9.0).
_CALLERS_FAULT = (
    "Vector dimension error",
    "Not existing vector name error",
    "Validation failed",
    "No range index",
    "No appropriate index",
    "invalid JSON path",
    "Wrong input",
    "Bad request",
)

#: How the engine's message begins when a write named a point that is not there; the other points were written.
_MISSING_POINT = "No point with id"


@contextmanager
def engine_errors() -> Generator[None]:
    """Turn what the engine raises into a refusal: 400 and 404 where the request is at fault, 500 otherwise."""
    try:
        yield
    except (ApiError, ValidationError):
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequestError(f"Format error in JSON body: {str(error).splitlines()[0]}") from error
    except Exception as error:
        message = str(error)
        if message.startswith(_MISSING_POINT):
            raise NotFoundError(f"Not found: {message} found") from error
        if message.startswith(_CALLERS_FAULT):
            raise BadRequestError(f"Wrong input: {message}") from error
        raise EngineFailedError(f"Service internal error: {message}") from error
    except BaseException as error:
        # A Rust panic arrives as a BaseException and would otherwise end the event loop with every other request.
        if type(error).__name__ != "PanicException":
            raise
        raise EngineFailedError("Service internal error: the engine panicked") from error
