"""Short forms for calls of mem0's client and their answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def refused(kind: str, text: str | None = None) -> Iterator[None]:
    import mem0.exceptions  # noqa: PLC0415  # after the environment was set

    with pytest.raises(getattr(mem0.exceptions, kind), match=text):
        yield


def texts(answer: dict[str, Any]) -> set[str]:
    return {one["memory"] for one in answer["results"]}


def kept(client: Any, text: str, **fields: Any) -> str:
    """Add a text as it is, and return its id."""
    (added,) = client.add(text, infer=False, **fields)["results"]
    return str(added["id"])
