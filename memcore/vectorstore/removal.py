"""Changes that take away points, whose number is noted first, or sparse vectors, which are emptied first."""

from collections.abc import Iterator
from dataclasses import dataclass

import qdrant_edge as edge

#: More points than a shard holds: a page of everything.
_ALL = 2**32


@dataclass(frozen=True, kw_only=True)
class PointRemoval:
    """A removal of points; how many can go is asked before they do (see ``completeness.PointCount``).

    Args:
        operation: removes them.
        where: the points that it names.
    """

    operation: edge.UpdateOperation
    where: edge.Filter

    def most(self, shard: edge.EdgeShard) -> int:
        """Return how many points will be gone."""
        return shard.count(edge.CountRequest(exact=True, filter=self.where))

    def operations(self, _shard: edge.EdgeShard) -> Iterator[edge.UpdateOperation]:
        """Return the one operation."""
        yield self.operation


@dataclass(frozen=True, kw_only=True)
class SparseRemoval:
    """What has to be done before some points lose sparse vectors, around a fault of the engine.

    qdrant-edge-py 0.9.0 leaves the terms of a deleted sparse vector in its index; they come back to life when the point
    gets another one, and a search then finds the point by words that it no longer has. Emptying a vector before
    deleting it removes its terms (``test_a_sparse_vector_taken_away_is_not_found_by_its_old_terms`` holds it).

    Args:
        names: the sparse vectors that will be deleted.
        where: the points that will lose them.
    """

    names: tuple[str, ...]
    where: edge.Filter

    def operations(self, shard: edge.EdgeShard) -> Iterator[edge.UpdateOperation]:
        """Return the operations that empty these vectors of the points that have them now."""
        for name in self.names:
            holding = edge.Filter(must=[self.where, edge.HasVectorCondition(name)])
            found, _ = shard.scroll(edge.ScrollRequest(limit=_ALL, filter=holding, with_payload=False))
            if found:
                empty: dict[str, list[float] | edge.SparseVector | list[list[float]]]
                empty = {name: edge.SparseVector(indices=[], values=[])}
                yield edge.UpdateOperation.update_vectors([edge.PointVectors(one.id, empty) for one in found])
