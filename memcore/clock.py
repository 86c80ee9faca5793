"""Time as a parameter: everything that asks for the time takes a Clock, and tests hand in a stopped one."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime

#: A function that returns the time now, aware of its zone.
Clock = Callable[[], datetime]


#: First and last time that a model takes. Python's own end with the years 1 and 9999: a thousand years of room let any
#: zone, retention or pause be added without an overflow, and four digits keep years in order as text.
EARLIEST, LATEST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def utc_now() -> datetime:
    """Return the time now in UTC; the default Clock."""
    return datetime.now(UTC)


def in_range(at: datetime) -> datetime:
    """Return an aware time from EARLIEST to LATEST; ValueError for any other."""
    if not EARLIEST <= at <= LATEST:
        raise ValueError(f"must lie from the year {EARLIEST.year} to the year {LATEST.year}")
    return at


def within_range(at: datetime) -> datetime:
    """Return the nearest time from EARLIEST to LATEST, for what an older release stored before there was a range."""
    return min(max(at, EARLIEST), LATEST)


#: The type of every time in a model: with a zone, and in the range.
BoundedTime = Annotated[AwareDatetime, AfterValidator(in_range)]
