"""How many examples a test tries: few in `make test`, many in `make test-thorough`."""

import os
from typing import Any

import pytest

#: Set by `make test-thorough`.
THOROUGH = os.environ.get("MEMTEND_TEST_THOROUGH") == "1"

#: How many times as many examples the search tries.
_SEARCH = 25


def sized(quick: int, *, thorough: int) -> int:
    """Return how many of something a test works with."""
    return thorough if THOROUGH else quick


def examples(quick: int) -> int:
    """Return how many examples a property tries that is dear, and therefore names a number of its own."""
    return _SEARCH * quick if THOROUGH else quick


def also_thorough(*params: Any) -> tuple[Any, ...]:
    """Return the parameters that only `make test-thorough` tries, because other tests hold what differs in them."""
    return params if THOROUGH else ()


def only_thorough(*, because: str) -> pytest.MarkDecorator:
    """Leave a test to `make test-thorough`, and say why that is enough."""
    return pytest.mark.skipif(not THOROUGH, reason=f"MEMTEND_TEST_THOROUGH is not 1: {because}")
