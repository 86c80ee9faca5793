"""A cycle's sign of life: while somebody works on it, no other message is sent for it."""

import threading
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Self

from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.ledger.skill_cycles import SkillCycles

#: How often it is given: ten may fail before the sweep takes the cycle's message for lost.
PULSE = timedelta(minutes=1)


class SignOfLife:
    """Say that a cycle is worked on while the block runs; a thread says so again and again.

    It keeps a long cycle from taking every process of its worker. It is no lease: two may work on one cycle, and what
    they do is done once all the same.

    Args:
        cycles: where it is said.
        company: whose cycle.
        cycle_id: the cycle.
        pulse: time between two signs.
    """

    def __init__(self, cycles: SkillCycles, company: str, cycle_id: str, *, pulse: timedelta = PULSE) -> None:
        self._cycles = cycles
        self._about = (company, cycle_id)
        self._pulse_seconds = pulse.total_seconds()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"cycle-{cycle_id}", daemon=True)

    def __enter__(self) -> Self:
        """Say so for the first time."""
        self._cycles.rung(*self._about)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Fall silent."""
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(self._pulse_seconds):
            # A ledger that is away now is there at the next beat, and a message too many does no harm.
            with suppress(MemoryError):
                self._cycles.rung(*self._about)
