"""A mapping that nobody can change, and that can be copied, pickled and hashed, as MappingProxyType cannot."""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class ReadOnlyMap(Mapping[_K, _V], Generic[_K, _V]):
    """Hold a copy of a mapping, to read only.

    A policy travels to worker processes by pickle, and pydantic copies defaults that it cannot hash.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[_K, _V]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: _K) -> _V:
        return self._items[key]

    def __iter__(self) -> Iterator[_K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)
