"""Time as a parameter: everything that asks for the time takes a Clock, and tests hand in a stopped one."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

#: A function that returns the time now, aware of its zone.
Clock = Callable[[], datetime]

#: The default Clock: the time now in UTC.
utc_now: Clock = partial(datetime.now, UTC)
