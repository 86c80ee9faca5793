"""Weighing an agent's memories: what the company's rule is asked about each, looked up page by page."""

import builtins
import math
from collections.abc import Sequence
from datetime import datetime

from memcore.backends.record import MemoryRecord
from memcore.backends.where import Where
from memcore.errors import MemoryConfigError
from memcore.maintenance.attempt import View
from memcore.maintenance.pages import pages
from memcore.maintenance.repeats import find_repeats
from memcore.maintenance.value import Candidate, MemoryValue


class Appraisal:
    """Weigh one agent's memories as they are now; repetitions are looked for when the first is asked for.

    Args:
        view: whose memories.
        value: the rule.
    """

    def __init__(self, view: View, value: MemoryValue) -> None:
        self._view = view
        self._value = value
        self._repeated: frozenset[str] | None = None

    async def values(self, records: Sequence[MemoryRecord], *, now: datetime) -> list[float]:
        """Return what each is worth.

        Raises:
            MemoryConfigError: the rule failed, or gave what is no finite number.
            MemoryRetrievalError, MemoryConnectionError: the store or the uses cannot be read.
        """
        if self._repeated is None:
            mine = Where(agent_id=self._view.agent_id, without_ids=self._view.held)
            self._repeated = await find_repeats(pages(self._view.backend, mine))
        uses = self._view.uses([record.entry.id for record in records])
        worth: list[float] = []
        for record in records:
            use = uses.get(record.entry.id)
            candidate = Candidate(
                entry=record.entry,
                uses=0 if use is None else use.uses,
                last_used_at=None if use is None else use.last_used_at,
                is_repeated=record.entry.id in self._repeated,
            )
            worth.append(self._asked(candidate, now))
        return worth

    def _asked(self, candidate: Candidate, now: datetime) -> float:
        try:
            worth = float(self._value(candidate, now))
        except builtins.MemoryError:
            raise
        except Exception as error:
            raise MemoryConfigError(
                f"the value of memories: the rule failed with {type(error).__name__}; nothing was removed by it"
            ) from error
        if not math.isfinite(worth):
            raise MemoryConfigError(f"the value of memories: the rule gave {worth}, not a finite number")
        return worth
