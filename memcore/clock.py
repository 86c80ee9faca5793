"""Time as a parameter: everything that asks for the time takes a Clock, and tests hand in a stopped one."""

from collections.abc import Callable
from datetime import UTC, datetime

#: A function that returns the time now, aware of its zone.
Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the time now in UTC; the default Clock."""
    return datetime.now(UTC)
