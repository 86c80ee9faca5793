"""What an engine's process knows of the agents' levels: what every worker would refuse is refused before it is sent."""

import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from memcore.errors import (
    FineTuneRunActiveError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
)
from memcore.jobs import DistillPayload, StoreItem
from memcore.models.memory import MemoryCategory, MemoryLevel, experience_refusal, missing_id, refusal

if TYPE_CHECKING:
    from memcore.config.settings import Settings
    from memcore.ledger.ledger import Ledger

#: Seconds for which a level is cached: a changed level takes effect within this time.
REMEMBERED_SECONDS = 60.0


class LevelChecker:
    """Refuses memories without the id that their agent's level requires, and a second fine-tune run.

    The policy holds the company's level, and the ledger an agent's own, which wins. The ledger is asked only about
    memories that the company's level refuses: no engine waits for a database with each memory. What is not known here
    is sent: the worker decides, keeps as a dead letter what it may not store, and ``wait`` says why.
    """

    def __init__(self, settings: "Settings", *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._monotonic = monotonic
        # Until when each agent's level is believed, and the level; None stands for the company.
        self._known: dict[str | None, tuple[float, MemoryLevel | None]] = {}

    def check(self, scoped: StoreItem | DistillPayload) -> None:
        """Return if the memory, or that of the trace, may be sent. Raises MemoryInputError naming the missing id."""
        if scoped.session_id is not None and scoped.project_id is not None:
            return
        category = scoped.request.category if isinstance(scoped, StoreItem) else MemoryCategory.EPISODIC

        def missing(level: MemoryLevel) -> str | None:
            return missing_id(level, category=category, session_id=scoped.session_id, project_id=scoped.project_id)

        field = self._refused(scoped.agent_id, missing)
        if field:
            raise MemoryInputError(field, refusal(field))

    def check_experience(self, agent_id: str) -> None:
        """Return if an experience of this agent may be sent. Raises MemoryInputError, saying what to change."""
        refused = self._refused(agent_id, experience_refusal)
        if refused:
            field, _, problem = refused.partition(": ")
            raise MemoryInputError(field, problem)

    def check_finetune(self, run_id: str) -> None:
        """Return if a fine-tune run may be asked for. Raises FineTuneRunActiveError while another has not ended."""
        try:
            with self._ledger() as ledger:
                rows, company = ledger.finetune_runs, self._settings.company
                is_refused = rows.active(company) is not None and rows.get(company, run_id) is None
        except MemoryError:
            return
        if is_refused:
            raise FineTuneRunActiveError("a run has not ended: see `memtend finetune status`, or cancel it")

    def _refused(self, agent_id: str, why: Callable[[MemoryLevel], str | None]) -> str | None:
        level = self._level(None, self._read_company)
        if level is None or why(level) is None:
            return None
        own = self._level(agent_id, lambda: self._read_agent(agent_id, level))
        return None if own is None else why(own)

    def _level(self, agent_id: str | None, read: Callable[[], MemoryLevel | None]) -> MemoryLevel | None:
        now = self._monotonic()
        known = self._known.get(agent_id)
        if known is None or known[0] <= now:
            # Agents that are no longer asked about must not be kept for as long as the engine lives.
            self._known = {key: value for key, value in self._known.items() if value[0] > now}
            known = self._known[agent_id] = (now + REMEMBERED_SECONDS, read())
        return known[1]

    def _read_company(self) -> MemoryLevel | None:
        try:
            # An engine imports YAML when it first sends, or not at all: it may be installed without it.
            from memcore.config.loader import effective_policy  # noqa: PLC0415  # see above

            return effective_policy(self._settings.policy_path).memory.level
        except (MemoryError, ImportError):
            return None

    def _read_agent(self, agent_id: str, otherwise: MemoryLevel) -> MemoryLevel | None:
        try:
            with self._ledger() as ledger:
                own = ledger.agents.levels(self._settings.company, [agent_id])
        except (MemoryError, ImportError):
            return None
        return own.get(agent_id, otherwise)

    def _ledger(self) -> "closing[Ledger]":
        from memcore.ledger.ledger import Ledger  # noqa: PLC0415  # few engines need a database, or have its library

        return closing(Ledger.open(self._settings.ledger_urls))
