"""How a stage tells how far it is, and learns that nobody wants its result any more."""

from collections.abc import Callable
from threading import Event

from memcore.errors import FineTuneCancelledError

#: Least step of progress that is told.
_STEP = 0.01


class Watch:
    """Pass on progress, and stop what was cancelled.

    Args:
        told: takes the fraction of the stage that is done, 0 to 1.
        cancelled: set by whoever cancels, also from a signal's handler.
    """

    def __init__(self, told: Callable[[float], None] = lambda _: None, cancelled: Event | None = None) -> None:
        self._told = told
        self._cancelled = cancelled or Event()
        self._last = -1.0

    def done(self, fraction: float) -> None:
        """Say how much is done; small steps, and steps back, are not passed on.

        Raises FineTuneCancelledError when the stage was cancelled.
        """
        self.check()
        if fraction >= self._last + _STEP or (fraction >= 1.0 > self._last):
            self._last = fraction
            self._told(min(fraction, 1.0))

    def check(self) -> None:
        """Raise FineTuneCancelledError when the stage was cancelled."""
        if self._cancelled.is_set():
            raise FineTuneCancelledError("a person cancelled the run")

    @property
    def is_cancelled(self) -> bool:
        """Whether it was, for places that may not raise."""
        return self._cancelled.is_set()
