"""Makes agents due again and again; beat, tick and workers do the rest."""

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count, islice

from chaos.fault_thread import FaultThread

from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.ledger.agents import AgentSpec, first_due
from memcore.ledger.consolidation_groups import GroupState
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun
from memcore.ledger.work_items import WorkState
from memcore.models.memory import ConsolidationInterval

#: Agents made due at a time, and seconds until the next ones: what two children can do between two ticks.
_AT_ONCE, _PAUSE_SECONDS = 5, 6.0

#: Seconds before the ledger is told again of what it did not answer.
_AGAIN_SECONDS = 0.5

#: The interval that every agent has: its own slots come so seldom that the chaos run's are the only ones.
_INTERVAL = ConsolidationInterval.WEEKLY

#: Time in which no agent may have a slot of its own: far longer than a chaos run.
_FREE = timedelta(hours=3)

#: Every third agent may have no more memories than this, so that enforcement has something to do.
_LIMITED_EVERY, _LIMIT = 3, 120

#: States in which a run is on its way.
ACTIVE = frozenset({WorkState.AVAILABLE, WorkState.WAITING, WorkState.LEASED})


def agents_of(company: str, number: int, *, now: datetime) -> list[str]:
    """Return ids of agents that have no slot of their own within the next hours."""
    names = (f"agent-{place}" for place in count())
    free = (name for name in names if (first_due(company, name, _INTERVAL, now) or now) > now + _FREE)
    return list(islice(free, number))


def register(ledger: Ledger, company: str, agents: Sequence[str]) -> None:
    """Make the agents known before the chaos run."""
    for place, agent_id in enumerate(agents):
        limit = None if place % _LIMITED_EVERY else _LIMIT
        ledger.agents.put(AgentSpec(company=company, agent_id=agent_id, interval=_INTERVAL, max_memories=limit))


class RunPlanner(FaultThread):
    """Make idle agents due at a time that is written down; each time must become one run that ends.

    Attributes:
        planned: agent and time, for each run that the ledger was told.
    """

    def __init__(self, ledger: Ledger, company: str, agents: Sequence[str], *, dice: random.Random) -> None:
        super().__init__()
        self.planned: list[tuple[str, datetime]] = []
        self._last: dict[str, str] = {}
        self._ledger = ledger
        self._company = company
        self._agents = list(agents)
        self._dice = dice

    def work(self) -> None:
        """Plan runs for agents whose last one has ended: a due agent with an active run would lose its slot."""
        while not self.is_over.wait(_PAUSE_SECONDS):
            try:
                self._adopt()
                idle = [agent_id for agent_id in self._agents if self._is_idle(agent_id)]
                for agent_id in self._dice.sample(idle, min(_AT_ONCE, len(idle))):
                    self._plan(agent_id)
            except MemoryConnectionError:
                continue  # the ledger was away for longer than anybody waits; the next look comes soon

    def _adopt(self) -> None:
        """Adopt what runs propose, as a person would; the sweep sends them again."""
        for run in self._ledger.runs.list(self._company, state=WorkState.HELD, limit=_AT_ONCE):
            if self._last.get(run.agent_id) != run.run_id:
                continue  # the agent is due again: with this run under way it would lose its slot
            # A newer run of the agent may have taken its place, or a worker have it already.
            with suppress(MemoryInputError):
                self._ledger.runs.decide_groups(self._company, run.run_id, GroupState.APPROVED, by="chaos")

    def is_busy(self) -> bool:
        """Whether a run is running now."""
        try:
            return bool(self._ledger.runs.list(self._company, state=WorkState.LEASED, limit=1))
        except MemoryConnectionError:
            return False

    def _is_idle(self, agent_id: str) -> bool:
        run_id = self._last.get(agent_id)
        run = self._ledger.runs.get(self._company, run_id) if run_id else None
        return run_id is None or (run is not None and run.state not in ACTIVE)

    def _plan(self, agent_id: str) -> None:
        at = datetime.now(UTC)
        while True:
            try:
                self._ledger.agents.set_due(self._company, agent_id, at)
            except MemoryConnectionError:
                # The answer may be all that was lost. Said again, even when its run has ended, it must not run twice.
                time.sleep(_AGAIN_SECONDS)
            else:
                break
        self.planned.append((agent_id, at))
        self._last[agent_id] = NewRun(company=self._company, agent_id=agent_id, planned_at=at).run_id
