"""Which parts of a point an answer carries: payload and vector selectors, from REST to the engine."""

from typing import Any

import qdrant_edge as edge
from qdrant_client.http import models as rest


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
