"""The client's checks against policy and ledger: what every worker would refuse is refused at once."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from memcore.errors import (
    FineTuneRunActiveError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
)
from memcore.jobs.payloads import DistillPayload, StoreItem
from memcore.models.memory import MemoryCategory, MemoryLevel, experience_refusal, missing_id, refusal

if TYPE_CHECKING:
    from memcore.config.settings import Settings

#: Seconds for which a level is cached: a changed level takes effect within this time.
REMEMBERED_SECONDS = 60.0


class LevelChecker:
    """Refuses memories without the id that their agent's level requires, and a second fine-tune run.

    The policy holds the company's level, and the ledger an agent's own, which wins. The ledger is asked only about
    memories that the company's level refuses: no engine waits for a database with each memory. What is not known here
    is sent: the worker decides, keeps as a dead letter what it may not store, and ``wait`` says why.

    Args:
        settings: where policy and ledger are; without a policy file the default holds.
        monotonic: seconds on a clock that never goes back.
    """

    def __init__(self, settings: "Settings", *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._monotonic = monotonic
        self._company: tuple[float, MemoryLevel | None] | None = None
        self._own: dict[str, tuple[float, MemoryLevel | None]] = {}

    def check(self, item: StoreItem) -> None:
        """Return if the memory may be sent. Raises MemoryInputError, naming the id that is missing."""
        self._check(item, item.request.category)

    def check_trace(self, payload: DistillPayload) -> None:
        """Return if the trace may be sent. Raises MemoryInputError, naming the id that its memory lacks."""
        self._check(payload, MemoryCategory.EPISODIC)

    def check_experience(self, agent_id: str) -> None:
        """Return if an experience of this agent may be sent. Raises MemoryInputError, saying what to change."""
        level = self._of_company()
        if level is None or experience_refusal(level) is None:
            return
        own = self._of_agent(agent_id, otherwise=level)
        refused = own and experience_refusal(own)
        if refused:
            field, _, problem = refused.partition(": ")
            raise MemoryInputError(field, problem)

    def check_finetune(self, run_id: str) -> None:
        """Return if a fine-tune run may be asked for. Raises FineTuneRunActiveError while another has not ended."""
        from memcore.ledger.ledger import Ledger  # noqa: PLC0415  # few engines need a database

        try:
            ledger = Ledger.open(self._settings.ledger_urls)
            try:
                rows, company = ledger.finetune_runs, self._settings.company
                is_refused = rows.active(company) is not None and rows.get(company, run_id) is None
            finally:
                ledger.close()
        except MemoryError:
            return
        if is_refused:
            raise FineTuneRunActiveError("a run has not ended: see `memtend finetune status`, or cancel it")

    def _check(self, scoped: StoreItem | DistillPayload, category: MemoryCategory) -> None:
        if scoped.session_id is not None and scoped.project_id is not None:
            return
        level = self._of_company()
        if level is None or _missing(level, scoped, category) is None:
            return
        own = self._of_agent(scoped.agent_id, otherwise=level)
        field = own and _missing(own, scoped, category)
        if field:
            raise MemoryInputError(field, refusal(field))

    def _of_company(self) -> MemoryLevel | None:
        now = self._monotonic()
        if self._company is None or self._company[0] <= now:
            self._company = (now + REMEMBERED_SECONDS, self._read_company())
        return self._company[1]

    def _of_agent(self, agent_id: str, *, otherwise: MemoryLevel) -> MemoryLevel | None:
        now = self._monotonic()
        known = self._own.get(agent_id)
        if known is None or known[0] <= now:
            # Agents that are no longer asked about must not be kept for as long as the engine lives.
            self._own = {key: value for key, value in self._own.items() if value[0] > now}
            known = self._own[agent_id] = (now + REMEMBERED_SECONDS, self._read_agent(agent_id, otherwise))
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
            from memcore.ledger.ledger import Ledger  # noqa: PLC0415  # few engines need a database, or have its library

            ledger = Ledger.open(self._settings.ledger_urls)
            try:
                own = ledger.agents.levels(self._settings.company, [agent_id])
            finally:
                ledger.close()
        except (MemoryError, ImportError):
            return None
        return own.get(agent_id, otherwise)


def _missing(level: MemoryLevel, scoped: StoreItem | DistillPayload, category: MemoryCategory) -> str | None:
    return missing_id(level, category=category, session_id=scoped.session_id, project_id=scoped.project_id)
