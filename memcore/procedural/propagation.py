"""Copies one agent's lessons to its peers' memories, each lesson once."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Self

from memcore import errors
from memcore.backends.base import fresh_record
from memcore.backends.protocol import BatchBackend, pages
from memcore.company import CompanyContext
from memcore.config.learning import PropagationConfig
from memcore.errors import MaintenancePausedError
from memcore.ingest import insert_unless_tombstoned
from memcore.ledger.agents import PeerCriterion, check_kill_switch
from memcore.ledger.erasure.hidden import Hidden
from memcore.ledger.ledger import Ledger
from memcore.models.memory import (
    NON_INFERABLE_TAG,
    PROPAGATED_TAG,
    MemoryCategory,
    MemoryLevel,
    MemoryMetadata,
    MemoryStoreRequest,
    propagated_tag,
)
from memcore.procedural.records import SUCCESS_TAG, ProceduralMemoryScope, proposal_of
from memcore.records import LESSON_KEY, ORIGIN_KEY, MemoryRecord, Where
from memcore.telemetry.events import Event


def is_copy(record: MemoryRecord) -> bool:
    """Whether the lesson is a copy of another agent's; a copy is never copied again."""
    return any(tag.startswith(PROPAGATED_TAG) for tag in record.entry.metadata.tags)


def copy_of(record: MemoryRecord, *, company: str, target: str, scope: ProceduralMemoryScope) -> MemoryRecord | None:
    """Return the lesson as the memory of another agent, with its age; None for what must not be copied.

    Copies, superseded lessons and other memories are not copied. What people set on the original, such as a pin, is
    not copied either, nor is its count of applications.
    """
    lesson = proposal_of(record)
    if lesson is None or lesson.superseded_by is not None or is_copy(record):
        return None
    entry, source, tags = record.entry, record.entry.metadata.source, record.entry.metadata.tags
    kept = [tag for tag in (NON_INFERABLE_TAG, SUCCESS_TAG) if tag in tags]
    tags = (*kept, *lesson.tags, propagated_tag(entry.agent_id))
    metadata = MemoryMetadata(source=source, confidence=lesson.confidence, tags=tags)
    request = MemoryStoreRequest(
        category=entry.category, namespace=entry.namespace, content=entry.content, metadata=metadata
    )
    copy = fresh_record(target, request, company=company, now=entry.created_at, origin=entry.origin)
    decided = {**record.extra[LESSON_KEY], "scope": str(scope), "application_count": 0, "last_applied_at": None}
    origin = {} if entry.origin is None else {ORIGIN_KEY: entry.origin.stored()}
    return replace(copy, extra={**origin, LESSON_KEY: decided})


#: Most lessons of one agent that one run copies, the oldest first; the others wait for the next run.
LESSONS_PER_RUN = 100

#: Most that one run looks at: distrusted ones must not keep the others back.
_LOOKED_AT = 10 * LESSONS_PER_RUN

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Propagation:
    """Copies lessons of one company's agents to their peers.

    A lesson's row in the ledger says whether it still is to be copied. The copies are written first, then the row is
    marked: a crash between the two costs one more look, which finds the copies there.
    """

    backend: BatchBackend
    ledger: Ledger
    config: PropagationConfig
    _: KW_ONLY
    company: str
    level: MemoryLevel

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        memory = context.policy.memory
        config = memory.procedural.propagation
        return cls(context.backend, context.ledger, config, company=context.company, level=memory.level)

    async def run(self, agent_id: str, *, by: PeerCriterion) -> int:
        """Copy what the agent has learned since, at most 100 lessons, and return how many copies were written.

        What is distrusted waits until it is trusted again. A peer that cannot take them is logged, and the others get
        theirs. Where no peer could take them, they wait for the next run.

        Raises MemoryError: the lessons, or the agents, cannot be read; nothing is marked, the next run goes on.
        """
        rows = self.ledger.lessons.unpropagated(self.company, agent_id, limit=_LOOKED_AT)
        if not rows:
            return 0
        try:
            check_kill_switch(self.ledger.agents, self.company, agent_id)
        except MaintenancePausedError:
            return 0
        hidden = self.ledger.hidden.of(self.company)
        trusted = (each for each in rows if not hidden.distrusts_lesson(each))
        waiting = tuple(islice(trusted, LESSONS_PER_RUN))
        if not waiting:
            return 0
        learned_at = {each.memory_id: each.created_at for each in waiting if each.memory_id is not None}
        found = await self.backend.get_many(agent_id, list(learned_at))
        lessons = tuple(each for each in found if not hidden.distrusts_memory(each.entry))
        kept_back = {each.entry.id for each in found} - {each.entry.id for each in lessons}
        waiting = tuple(each for each in waiting if each.memory_id not in kept_back)
        limit, agents = self.config.max_propagation_targets, self.ledger.agents
        targets = agents.like(self.company, agent_id, by=by, level=self.level, limit=limit) if lessons else ()
        written, failed = 0, 0
        for target in targets:
            try:
                written += await self._copy_to(target, lessons, learned_at, hidden, scope=ProceduralMemoryScope(by))
            except errors.MemoryError as error:
                failed += 1
                facts = {"agent_id": agent_id, "target": target, "error": type(error).__name__}
                _log.warning(Event.PROCEDURAL_PROPAGATION_TARGET_FAILED, extra=facts)
        if targets and failed == len(targets):
            return 0
        self.ledger.lessons.propagated(self.company, [each.lesson_id for each in waiting])
        counts = {"lessons": len(waiting), "targets": len(targets), "written": written}
        _log.info(Event.PROCEDURAL_PROPAGATION_COMPLETE, extra={"agent_id": agent_id, **counts})
        return written

    async def _copy_to(
        self,
        target: str,
        lessons: Sequence[MemoryRecord],
        learned_at: Mapping[str, datetime],
        hidden: Hidden,
        *,
        scope: ProceduralMemoryScope,
    ) -> int:
        """Give one agent the lessons that it lacks, and return how many they were."""
        copies: dict[str, MemoryRecord] = {}
        sent: dict[str, datetime] = {}
        for lesson in lessons:
            copy = copy_of(lesson, company=self.company, target=target, scope=scope)
            if copy is not None and copy.entry.content not in copies:
                copies[copy.entry.content] = copy
                # What the agent's own runs have removed since is not stored again.
                sent[copy.entry.id] = learned_at[lesson.entry.id]
        for known in await self._known(target, copies, hidden) if copies else ():
            del copies[known]
        if not copies:
            return 0
        tombstoned = await insert_unless_tombstoned(self.backend, self.ledger.journal, list(copies.values()), sent=sent)
        return len(copies) - len(tombstoned)

    async def _known(self, target: str, copies: Mapping[str, MemoryRecord], hidden: Hidden) -> frozenset[str]:
        """Return those of the texts that stand in a lesson of the agent already, and are shown."""
        mine = Where(agent_id=target, categories=frozenset({MemoryCategory.PROCEDURAL}), lessons=True)
        known: set[str] = set()
        async for page in pages(self.backend, mine):
            shown = (each.entry for each in page if not hidden.distrusts_memory(each.entry))
            known.update(entry.content for entry in shown if entry.content in copies)
        return frozenset(known)
