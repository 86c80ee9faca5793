"""The shape of a collection: vectors, sizes, distances, indexes and honoured options; checks of points against it."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import qdrant_edge as edge
from qdrant_client.http import models as rest

from memcore.vectorstore.rest import BadRequestError, NotSupportedError

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
    """What vectors a collection holds.

    Args:
        dense: parameters by vector name; the unnamed vector is ``""``.
        sparse: parameters by vector name.
    """

    dense: Mapping[str, rest.VectorParams]
    sparse: Mapping[str, rest.SparseVectorParams]

    @classmethod
    def of(cls, request: rest.CreateCollection) -> Self:
        """Take the shape from a create request.

        Raises:
            BadRequestError: a size is out of range, or there is no vector at all.
            NotSupportedError: an option would change answers and is not known here. Options that only tune a server
                (HNSW, optimizer, WAL, placement on disk, a single shard) are accepted and have no effect.
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
                name: edge.EdgeVectorParams(size=params.size, distance=_DISTANCES[params.distance])
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


_TYPES = {
    "keyword": edge.PayloadSchemaType.Keyword,
    "integer": edge.PayloadSchemaType.Integer,
    "float": edge.PayloadSchemaType.Float,
    "bool": edge.PayloadSchemaType.Bool,
    "datetime": edge.PayloadSchemaType.Datetime,
    "uuid": edge.PayloadSchemaType.Uuid,
    "text": edge.PayloadSchemaType.Text,
}

_PARAMS: dict[str, Any] = {
    "keyword": edge.KeywordIndexParams,
    "integer": edge.IntegerIndexParams,
    "float": edge.FloatIndexParams,
    "bool": edge.BoolIndexParams,
    "datetime": edge.DatetimeIndexParams,
    "uuid": edge.UuidIndexParams,
    "text": edge.TextIndexParams,
}

#: Where an index lies and how a graph would use it: hints that change no answer.
_HINTS = {"type", "on_disk", "memory", "enable_hnsw"}

_PLAIN = (bool, int, float, str)


def engine_params(given: Any) -> Any:
    """Translate an index's type, or its type with parameters.

    Raises:
        NotSupportedError: geographic indexes and parameters unknown here.
    """
    if isinstance(given, rest.PayloadSchemaType):
        if given.value not in _TYPES:
            raise NotSupportedError(f"{given.value} index")
        return _TYPES[given.value]
    kind = given.type.value
    if kind not in _PARAMS:
        raise NotSupportedError(f"{kind} index")
    options = {
        name: _option(name, value)
        for name in type(given).model_fields
        if name not in _HINTS and (value := getattr(given, name)) is not None
    }
    return _PARAMS[kind](**options)


def _option(name: str, value: Any) -> Any:
    if isinstance(value, rest.TokenizerType):
        return getattr(edge.TokenizerType, value.value.title())
    if isinstance(value, rest.Language):
        return getattr(edge.Language, value.value.title())
    if isinstance(value, rest.StopwordsSet):
        languages = {getattr(edge.Language, one.value.title()) for one in value.languages or ()}
        return edge.StopwordsSet(languages=languages or None, custom=set(value.custom) if value.custom else None)
    if isinstance(value, rest.SnowballParams):
        return edge.SnowballParams(getattr(edge.SnowballLanguage, value.language.value.title()))
    if isinstance(value, rest.DisabledStemmerParams):
        return edge.DisabledStemmer()
    if isinstance(value, _PLAIN):
        return value
    raise NotSupportedError(f"index parameter {name}")


def described(index: "edge.PayloadIndexInfo") -> dict[str, Any]:
    """Describe an index: its type, how many points it holds, and the parameters that were given plainly."""
    kind = str(index.data_type).rpartition(".")[2].lower()
    answer: dict[str, Any] = {"data_type": kind, "points": index.points}
    if index.params is not None and kind in _PARAMS:
        model = getattr(rest, f"{kind.title()}IndexParams")
        params = {name: getattr(index.params, name, None) for name in model.model_fields if name != "type"}
        plain = {name: value for name, value in params.items() if isinstance(value, _PLAIN)}
        tokenizer = params.get("tokenizer")
        if tokenizer is not None:
            plain["tokenizer"] = str(tokenizer).rpartition(".")[2].lower()
        answer["params"] = {"type": kind, **plain}
    return answer


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


def dense(values: Any, shape: Shape, name: str) -> list[float]:
    """Check one dense vector against the collection: its name, its length, finite numbers."""
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


def sparse(value: dict[str, Any], shape: Shape, name: str) -> edge.SparseVector:
    """Check one sparse vector: its name, unique 32-bit indices, as many finite values."""
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


def named(value: Any, shape: Shape, name: str) -> NamedVector:
    """Check one vector of either kind."""
    if type(value) is dict:
        return sparse(value, shape, name)
    return dense(value, shape, name)


def vector_struct(value: Any, shape: Shape) -> dict[str, NamedVector]:
    """Check what a point carries: one unnamed vector, or vectors by name (none is allowed)."""
    if type(value) is list:
        return {UNNAMED: dense(value, shape, UNNAMED)}
    if type(value) is not dict:
        raise BadRequestError("Format error in JSON body: vector: a list or an object is expected")
    return {name: named(one, shape, name) for name, one in value.items()}
