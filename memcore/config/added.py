"""The mark on every key that memtend adds to the reference; docs/reference/configuration.md lists them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Added:
    """Marks a field, in its ``Annotated`` type, as a key of memtend's own; a marked section marks all its keys.

    Args:
        reason: why the key exists, one clause.
    """

    reason: str
