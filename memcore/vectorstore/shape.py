"""The shape of a collection: its vectors, their sizes and distances, and what of Qdrant's options is honoured."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import qdrant_edge as edge
from qdrant_client.http import models as rest

from memcore.vectorstore.refusal import BadRequestError, NotSupportedError

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
