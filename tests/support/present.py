"""What must be there."""

from typing import TypeVar

Value = TypeVar("Value")


def present(value: Value | None) -> Value:
    """Return a value that a test needs; where it is None, the test fails here."""
    assert value is not None
    return value
