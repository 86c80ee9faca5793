"""Filters, from Qdrant's REST models to the engine."""

from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import qdrant_edge as edge
from qdrant_client.http import models as rest

from memcore.vectorstore.refusal import BadRequestError, NotSupportedError
from memcore.vectorstore.vectors import point_id

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
