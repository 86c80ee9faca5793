"""Time as a parameter: everything that asks for the time takes a Clock, and tests hand in a stopped one.

And how people read a length of time.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

#: A function that returns the time now, aware of its zone.
Clock = Callable[[], datetime]

#: The default Clock: the time now in UTC.
utc_now: Clock = partial(datetime.now, UTC)

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def span(value: timedelta | float) -> str:
    """Return a length of time, of seconds or a timedelta, in its largest unit."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    for unit, name in _UNITS:
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
