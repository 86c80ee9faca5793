"""Queries, filters and selectors, translated from Qdrant's REST models to the engine's."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
import qdrant_edge as edge
from qdrant_client.http import models as rest

from memcore.vectorstore.rest import BadRequestError, NotSupportedError
from memcore.vectorstore.schema import UNNAMED, Shape, named, point_id

#: Predicates of one field condition that are translated; the others are geographic.
_PREDICATES = ("match", "range", "values_count", "is_empty", "is_null")

_GEOGRAPHIC = ("geo_bounding_box", "geo_radius", "geo_polygon")


def engine_filter(filter_: rest.Filter | None) -> edge.Filter | None:
    """Translate a filter; None stays None and matches everything."""
    if filter_ is None:
        return None
    return edge.Filter(
        must=_conditions(filter_.must),
        should=_conditions(filter_.should),
        must_not=_conditions(filter_.must_not),
        min_should=None
        if filter_.min_should is None
        else edge.MinShould(
            conditions=[_condition(one) for one in filter_.min_should.conditions],
            min_count=filter_.min_should.min_count,
        ),
    )


def stage_filter(filter_: rest.Filter | None, left_out: set[int | str]) -> edge.Filter | None:
    """Translate the filter of one stage of a query, and leave some points out of what it matches.

    A search by a point's id does not find that point. The engine joins the filters of nested stages clause by clause,
    which turns two ``should`` into one: a filter that has any is wrapped, so that both must hold.
    """
    translated = engine_filter(filter_)
    if left_out or (filter_ is not None and (filter_.should or filter_.min_should)):
        return edge.Filter(
            must=None if translated is None else [translated],
            must_not=[edge.HasIdCondition(set(left_out))] if left_out else None,
        )
    return translated


def _conditions(given: Any) -> list[Any] | None:
    if given is None:
        return None
    return [_condition(one) for one in (given if isinstance(given, list) else [given])]


def _condition(given: Any) -> Any:
    translate = _CONDITIONS.get(type(given))
    if translate is None:
        raise NotSupportedError(f"filter condition {type(given).__name__}")
    return translate(given)


def _has_id(given: rest.HasIdCondition) -> edge.HasIdCondition:
    return edge.HasIdCondition({point_id(one) for one in given.has_id})


def _nested(given: rest.NestedCondition) -> edge.NestedCondition:
    return edge.NestedCondition(given.nested.key, engine_filter(given.nested.filter) or edge.Filter())


def _field(given: rest.FieldCondition) -> edge.FieldCondition:
    for predicate in _GEOGRAPHIC:
        if getattr(given, predicate) is not None:
            raise NotSupportedError(f"filter {predicate}")
    used = [one for one in _PREDICATES if getattr(given, one) is not None]
    if not used:
        raise BadRequestError(f"Wrong input: filter on `{given.key}`: a match, a range or another predicate is missing")
    if len(used) > 1:
        raise NotSupportedError(f"{' and '.join(used)} in one field condition (write two conditions)")
    if given.match is not None:
        return edge.FieldCondition(key=given.key, match=_match(given.match))
    if isinstance(given.range, rest.DatetimeRange):
        times = {name: _time(value) for name, value in given.range.model_dump(exclude_none=True).items()}
        return edge.FieldCondition(key=given.key, range=edge.RangeDateTime(**times))
    if given.range is not None:
        return edge.FieldCondition(key=given.key, range=edge.RangeFloat(**given.range.model_dump(exclude_none=True)))
    if given.values_count is not None:
        counts = given.values_count.model_dump(exclude_none=True)
        return edge.FieldCondition(key=given.key, values_count=edge.ValuesCount(**counts))
    return edge.FieldCondition(key=given.key, is_empty=given.is_empty, is_null=given.is_null)


def _time(value: date) -> str:
    # a date, and a time without a zone, are UTC to the engine as they are to Qdrant
    return value.isoformat()


#: The engine's match for each of the REST ones, and the field that holds the operand.
_MATCHES: dict[type[Any], tuple[Callable[[Any], Any], str]] = {
    rest.MatchValue: (edge.MatchValue, "value"),
    rest.MatchAny: (edge.MatchAny, "any"),
    rest.MatchExcept: (edge.MatchExcept, "except_"),
    rest.MatchText: (edge.MatchText, "text"),
    rest.MatchTextAny: (edge.MatchTextAny, "text_any"),
    rest.MatchPhrase: (edge.MatchPhrase, "phrase"),
    rest.MatchPrefix: (edge.MatchPrefix, "prefix"),
    rest.MatchSubstring: (edge.MatchSubstring, "substring"),
}


def _match(given: Any) -> Any:
    if isinstance(given, rest.MatchValue) and isinstance(given.value, bool):
        # the binding takes a Python bool for the integer 1 or 0, which matches no boolean; a numpy one stays a boolean
        return edge.MatchValue(np.bool_(given.value))  # type: ignore[arg-type]  # the stub does not know numpy
    build, field = _MATCHES[type(given)]
    return build(getattr(given, field))


_CONDITIONS: dict[type[Any], Callable[[Any], Any]] = {
    rest.Filter: engine_filter,
    rest.FieldCondition: _field,
    rest.HasIdCondition: _has_id,
    rest.HasVectorCondition: lambda given: edge.HasVectorCondition(given.has_vector),
    rest.IsEmptyCondition: lambda given: edge.IsEmptyCondition(given.is_empty.key),
    rest.IsNullCondition: lambda given: edge.IsNullCondition(given.is_null.key),
    rest.NestedCondition: _nested,
}


def payload_selector(given: Any, *, default: bool) -> Any:
    """Translate ``with_payload``: a switch, names to include, or an include or exclude object."""
    match given:
        case None:
            return default
        case rest.PayloadSelectorInclude():
            return edge.PayloadSelector.Include(given.include)
        case rest.PayloadSelectorExclude():
            return edge.PayloadSelector.Exclude(given.exclude)
        case list():
            return edge.PayloadSelector.Include(given)
        case _:
            return bool(given)


def vector_selector(given: Any, *, default: bool = False) -> bool | list[str]:
    """Translate ``with_vector``: a switch, or the names of the vectors wanted."""
    if isinstance(given, list):
        return [str(name) for name in given]
    return default if given is None else bool(given)


#: Points that a query, a prefetch or a page returns when the request names no limit (Qdrant's default).
DEFAULT_LIMIT = 10

#: The constant of reciprocal rank fusion when the request names none (Qdrant's default).
_RRF_K = 2

#: The share of diversity in maximal marginal relevance when the request names none (Qdrant's default).
_MMR_DIVERSITY = 0.5

#: Fetches the vector of a point: id and vector name in, vector out; it refuses what is not there.
VectorOf = Callable[[int | str, str], Any]

_DIRECTIONS = {rest.Direction.ASC: edge.Direction.Asc, rest.Direction.DESC: edge.Direction.Desc}


@dataclass(frozen=True, kw_only=True)
class QueryReader:
    """Reads the queries sent to one collection.

    Args:
        shape: the collection's vectors.
        vector_of: looks up the vector of a stored point, for queries by id.
    """

    shape: Shape
    vector_of: VectorOf

    def request(self, given: rest.QueryRequest) -> edge.QueryRequest:
        """Translate a whole query.

        Raises:
            BadRequestError: a vector, a limit or a combination is wrong.
            NotFoundError: a point that the query names is missing.
            NotSupportedError: a kind of query or an option is not known here.
        """
        refuse_shard_key(given.shard_key)
        limit = limit_of(given.limit)
        if (given.offset or 0) < 0:
            raise BadRequestError("Wrong input: offset must be 0 or more")
        stage = self._stage(given, limit)
        return edge.QueryRequest(
            limit=limit,
            offset=given.offset or 0,
            query=stage.query,
            prefetches=stage.prefetches,
            filter=stage.filter,
            params=stage.params,
            score_threshold=given.score_threshold,
            with_payload=payload_selector(given.with_payload, default=False),
            with_vector=vector_selector(given.with_vector),
        )

    def _prefetch(self, given: rest.Prefetch) -> edge.Prefetch:
        limit = limit_of(given.limit)
        stage = self._stage(given, limit)
        return edge.Prefetch(
            limit=limit,
            query=stage.query,
            prefetches=stage.prefetches,
            filter=stage.filter,
            params=stage.params,
            score_threshold=given.score_threshold,
        )

    def _stage(self, given: rest.QueryRequest | rest.Prefetch, limit: int) -> "_Stage":
        if given.lookup_from is not None:
            raise NotSupportedError("lookup_from")
        inner = given.prefetch if isinstance(given.prefetch, list) else [given.prefetch] if given.prefetch else []
        stage = _Stage(prefetches=[self._prefetch(one) for one in inner])
        stage.query = self._scoring(given.query, given.using or UNNAMED, limit, stage)
        if isinstance(given.query, rest.FusionQuery | rest.RrfQuery) and not inner:
            raise BadRequestError("Wrong input: a fusion needs at least one prefetch")
        if given.query is None and inner:
            raise BadRequestError("Wrong input: A query is needed to merge the prefetches")
        stage.filter = stage_filter(given.filter, stage.named_ids)
        stage.params = _params(given.params)
        return stage

    def _scoring(self, given: Any, using: str, limit: int, stage: "_Stage") -> Any:
        query: Any = None
        match given:
            case None:
                pass
            case rest.FusionQuery(fusion=rest.Fusion.RRF):
                query = edge.Fusion.Rrf(k=_RRF_K)
            case rest.FusionQuery(fusion=rest.Fusion.DBSF):
                query = edge.Fusion.Dbsf()
            case rest.RrfQuery():
                query = _rrf(given.rrf, len(stage.prefetches))
            case rest.OrderByQuery():
                query = engine_order(given.order_by)
            case rest.SampleQuery():
                query = edge.Sample.Random
            case rest.NearestQuery(mmr=rest.Mmr() as mmr):
                query = edge.Mmr(
                    vector=self._vector(given.nearest, using, stage),
                    lambda_=1 - (_MMR_DIVERSITY if mmr.diversity is None else mmr.diversity),
                    candidates_limit=mmr.candidates_limit or limit,
                    using=using,
                )
            case _:
                near = given.nearest if isinstance(given, rest.NearestQuery) else given
                query = edge.Query.Nearest(self._vector(near, using, stage), using=using)
        return query

    def _vector(self, given: Any, using: str, stage: "_Stage") -> Any:
        match given:
            case int() | str():
                asked = point_id(given)
                stage.named_ids.add(asked)
                return self.vector_of(asked, using)
            case rest.SparseVector():
                return named({"indices": given.indices, "values": given.values}, self.shape, using)
            case list():
                return named(given, self.shape, using)
            case _:
                raise NotSupportedError(f"query {type(given).__name__}")


@dataclass(kw_only=True)
class _Stage:
    """One level of a query while it is translated."""

    prefetches: list[edge.Prefetch]
    named_ids: set[int | str] = field(default_factory=set)
    query: Any = None
    filter: edge.Filter | None = None
    params: edge.SearchParams | None = None


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
    start = given.start_from
    return edge.OrderBy(
        given.key,
        direction=None if given.direction is None else _DIRECTIONS[given.direction],
        start_from=start.isoformat() if isinstance(start, date) else start,
    )


def _rrf(given: rest.Rrf, prefetches: int) -> edge.Fusion.Rrf:
    if given.weights is not None and len(given.weights) != prefetches:
        raise BadRequestError("Wrong input: rrf.weights: as many weights as prefetches are expected")
    if given.k is not None and given.k < 1:
        raise BadRequestError("Wrong input: rrf.k must be 1 or more")
    return edge.Fusion.Rrf(k=_RRF_K if given.k is None else given.k, weights=given.weights)


def _params(given: rest.SearchParams | None) -> edge.SearchParams | None:
    # hnsw_ef, exact, acorn and quantization tune an approximate search; the search here is exact, hence no change
    if given is None:
        return None
    if given.indexed_only:
        raise NotSupportedError("params.indexed_only")
    if not isinstance(given.idf, rest.IdfCorpusParams):
        return None
    return edge.SearchParams(idf=edge.IdfParams(corpus=engine_filter(given.idf.corpus)))
