"""How often a lesson is asked for while the language model is away, and how long is waited between."""

from datetime import timedelta

#: The wait after the first time in vain; it doubles with each further one.
FIRST_PAUSE = timedelta(minutes=1)

LONGEST_PAUSE = timedelta(hours=6)

#: Times in vain after which a lesson is given up: more than three days.
MAX_TRIES = 21


def pause_after(tries: int) -> timedelta | None:
    """Return the wait after so many times in vain, 1 or more; None when that were enough."""
    return None if tries >= MAX_TRIES else min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (tries - 1))
