"""Changes: memories that newer ones replaced in other words, as a language model says, who is asked about pairs.

A model proposes; code decides which verdict counts. No text is changed and nothing is removed: the older memory stays,
ranks behind the newer one, and says so. What is not sure waits for a person (``memtend conflicts``).
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from functools import partial
from typing import Self

from memcore import ids
from memcore.backends.factory import WorkerBackend
from memcore.backends.protocol import BatchBackend
from memcore.backends.succession import is_replaced_by, reinstate, supersede
from memcore.clock import Clock, utc_now
from memcore.company import CompanyContext
from memcore.config.maintenance import ConsolidationConfig
from memcore.errors import BudgetExceededError, MalformedAnswerError, ProviderError
from memcore.jobs import Skipped, Step
from memcore.ledger.attempt import Lease, worked_slice
from memcore.ledger.consolidation_groups import CHANGES, ConsolidationGroup, GroupState
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun
from memcore.llm.changes import (
    MAX_INPUT_CHARS,
    SYSTEM,
    ChangeAnswer,
    Verdict,
    agreed,
    is_of_one_subject,
    may_replace,
)
from memcore.llm.protocol import Attribution, CompletionRequest, Model
from memcore.llm.structured import ask_structured
from memcore.models import origin
from memcore.models.answers import Shown
from memcore.models.execution import prompt
from memcore.models.memory import (
    COMPRESSED_TAG,
    CONSOLIDATED_TAG,
    CORE_TAG,
    DISTILLATION,
    PROTECTED_FROM_CONSOLIDATION,
    SELF_EDITED_TAG,
    SUPERSEDED_TAG,
    MemoryEntry,
    MemoryQuery,
)
from memcore.models.origin import AUTHORITIES, Authority, Channel
from memcore.records import COMPARED_KEY, MemoryRecord, Where
from memcore.telemetry.events import Event

#: The purpose that the account names.
PURPOSE = "system:memory:changes"

#: Raise it with any change of the prompt, or of which verdicts count: all memories are then compared anew.
VERSION = "changes-2"

#: Older memories that one is compared with, the most alike; and so many of a search are looked at for them.
MOST_OLDER, _MOST_FOUND = 3, 20

#: Least time between two memories of which one may replace the other: what was told at once is one story.
APART = timedelta(hours=1)

#: Memories that are read at a time, and how long one job works for an agent before others have a turn.
AT_A_TIME = 16
SLICE = timedelta(minutes=5)

#: What is nobody's statement, or holds no longer itself: neither side of a pair.
_NO_STATEMENTS = (CONSOLIDATED_TAG, COMPRESSED_TAG, SUPERSEDED_TAG)

_log = logging.getLogger(__name__)


def may_be_replaced(old: MemoryEntry, new: MemoryEntry, *, kept_tags: Sequence[str] = ()) -> bool:
    """Return whether a model's verdict alone may let one memory supersede another; else a person decides.

    Not what people pinned or gave a key, nor what another source said, or said with more confidence. What an agent
    concluded does not replace what it was told.
    """
    protected = {*PROTECTED_FROM_CONSOLIDATION, *kept_tags} - {DISTILLATION}
    concluded = {DISTILLATION, SELF_EDITED_TAG}
    is_of_less = not concluded.isdisjoint(new.metadata.tags) and concluded.isdisjoint(old.metadata.tags)
    return (
        protected.isdisjoint(old.metadata.tags)
        and old.metadata.source == new.metadata.source
        and old.metadata.confidence <= new.metadata.confidence
        and not is_of_less
        and may_replace(old.content, new.content, year=old.created_at.year)
        and (new.valid_until is None or new.valid_until > old.last_stated_at)
    )


def _is_older(old: MemoryEntry, new: MemoryEntry) -> bool:
    """Return whether one memory was said before another, holds still, and may be about the same."""
    return (
        old.id != new.id
        and old.namespace == new.namespace
        and new.last_stated_at - old.last_stated_at >= APART
        and old.superseded_by is None
        and (old.valid_until is None or old.valid_until > new.last_stated_at)
        and frozenset(_NO_STATEMENTS).isdisjoint(old.metadata.tags)
        and is_of_one_subject(old.content, new.content)
    )


@dataclass(frozen=True, eq=False)
class ChangesService:
    """Looks for memories of one company's agents that newer ones replaced.

    A memory that the present model and prompt have not compared is compared once with the older memories that a search
    finds most alike. A verdict is written to the ledger before the store is changed, as part of a run that can be
    undone; after a crash it is carried out, and not asked for again. What a model did not answer is asked after the
    next run.
    """

    backend: WorkerBackend
    ledger: Ledger
    policy: ConsolidationConfig
    _: KW_ONLY
    company: str
    model: Model | None
    default_model: str | None
    core_tag: str = CORE_TAG
    authorities: Mapping[Channel, Authority] = AUTHORITIES
    clock: Clock = utc_now
    monotonic: Callable[[], float] = time.monotonic

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        memory = context.policy.memory
        return cls(
            context.backend,
            context.ledger,
            memory.consolidation,
            company=context.company,
            model=context.model,
            default_model=context.settings.llm(memory.llm).model,
            core_tag=memory.retrieval.self_editing.core_memory_tag,
            authorities=memory.origins.authority,
            clock=context.clock,
        )

    @property
    def by(self) -> str:
        """What compares memories: model and prompt."""
        return f"{self.policy.changes.model or self.default_model or ''}/{VERSION}"

    async def run(self, agent_id: str) -> Step:
        """Compare memories for one slice of time; whatever happens, calling it again goes on where it stopped.

        Returns:
            Done: every memory was compared, or it is the next agent's turn; the facts count verdicts.
            Deferred: it waits for a budget, the end of a pause, or a store that is away.
            Skipped: switched off, or no model.
            Dead: no run has asked for it.
        """
        if self.model is None:
            return Step(outcome=Skipped(reason="no language model is connected to this worker: set MEMTEND_LLM_URL"))
        return await worked_slice(
            self.ledger.change_finding,
            self.company,
            ids.changes_id(company=self.company, agent_id=agent_id),
            agents=self.ledger.agents,
            is_enabled=self.policy.enabled,
            refusal=self._refusal,
            walk=partial(self._walk, agent_id, self.model),
        )

    def _refusal(self) -> str | None:
        return None if self.policy.changes.enabled else "memory.consolidation.changes.enabled is false"

    async def _walk(self, agent_id: str, model: Model, lease: Lease) -> tuple[Counter[str], bool]:
        """Return how many pairs had which verdict, and whether more wait for another slice."""
        until, counts = self.monotonic() + SLICE.total_seconds(), Counter[str]()
        await carry_out_pairs(self.backend, self.ledger, self.company, agent_id, check=lease.enter)
        run = NewRun(company=self.company, agent_id=agent_id, kind="changes", planned_at=self.clock())
        where = Where(agent_id=agent_id, uncompared_by=self.by, lessons=False, without_tags=_NO_STATEMENTS)
        cursor: str | None = ""
        while cursor is not None:
            page = await self.backend.scan(where, cursor=cursor or None, limit=AT_A_TIME)
            cursor = page.cursor
            for place, record in enumerate(page.records, start=1):
                lease.enter()
                verdicts = await self._compared(model, record, run, lease)
                counts.update(verdicts)
                if "failed" in verdicts:
                    return counts, False  # the model is away, and every further question would only wait
                is_last = cursor is None and place == len(page.records)
                if not is_last and self.monotonic() >= until:
                    return counts, True
        _log.info(Event.CHANGES_COMPLETE, extra={"agent_id": agent_id, **counts})
        return counts, False

    async def _compared(self, model: Model, record: MemoryRecord, run: NewRun, lease: Lease) -> list[str]:
        """Compare one memory with older ones, keep what comes of it, and return the verdicts."""
        new, groups = record.entry, self.ledger.consolidation_groups
        known = groups.pairs(self.company, new.agent_id)
        older = await self._older(new, frozenset(pair.source_ids for pair in known))
        verdicts = await asyncio.gather(*(self.verdict(model, old, new) for old in older), return_exceptions=True)
        for verdict in verdicts:
            if isinstance(verdict, BaseException):
                raise verdict
        counted = [str(each or "failed") for each in verdicts if not isinstance(each, BaseException)]
        if "failed" in counted:
            return counted
        states = {Verdict.SUPERSEDES.value: GroupState.APPROVED, Verdict.UNSURE.value: GroupState.PROPOSED}
        found = [
            self._pair(old, new, run, states[verdict])
            for old, verdict in zip(older, counted, strict=True)
            if verdict in states
        ]
        watched = self.ledger.erasures.watch(self.company, [new.agent_id])
        if new.agent_id in watched.barred or new.namespace in watched.erased_people:
            return []
        try:
            if found:
                lease.enter()
                self.ledger.runs.note_done(run)
                groups.note(found)
                await carry_out_pairs(self.backend, self.ledger, self.company, new.agent_id, check=lease.check)
                known = groups.pairs(self.company, new.agent_id)
                self.ledger.runs.count(run.run_id, groups.pair_counts(self.company, new.agent_id, run.run_id))
            superseded = [
                each.source_ids[0]
                for each in known
                if each.source_ids[1] == new.id and each.state is GroupState.ADOPTED and each.is_found
            ]
            compared = {COMPARED_KEY: {"by": self.by, "superseded": superseded}}
            await self.backend.set_metadata_many(new.agent_id, [new.id], None, extra=compared)
        finally:
            self.ledger.erasures.end_write(watched)
        return counted

    async def _older(self, new: MemoryEntry, known: frozenset[tuple[str, ...]]) -> list[MemoryEntry]:
        """Return the older memories that a search finds most alike, without those that were judged before."""
        query = MemoryQuery(
            text=new.content.strip()[:MAX_INPUT_CHARS],
            namespaces=frozenset({new.namespace}),
            standing=Shown.ANY,
            limit=_MOST_FOUND,
        )
        found = await self.backend.retrieve(new.agent_id, query)
        likely = [each for each in found if _is_older(each, new) and (each.id, new.id) not in known]
        stored = await self.backend.get_many(new.agent_id, [each.id for each in likely]) if likely else ()
        lessons = {each.entry.id for each in stored if each.is_lesson}
        return [each for each in likely if each.id not in lessons][:MOST_OLDER]

    def _pair(self, old: MemoryEntry, new: MemoryEntry, run: NewRun, state: GroupState) -> ConsolidationGroup:
        return ConsolidationGroup(
            company=self.company,
            run_id=run.run_id,
            agent_id=new.agent_id,
            category=old.category,
            strategy=CHANGES,
            state=state,
            source_ids=(old.id, new.id),
            decided_by=run.run_id if state is GroupState.APPROVED else None,
            decided_at=self.clock() if state is GroupState.APPROVED else None,
        )

    async def verdict(self, model: Model, old: MemoryEntry, new: MemoryEntry) -> Verdict | None:
        """Return what holds of a pair; None where the model did not answer."""
        is_possible = may_be_replaced(old, new, kept_tags=[self.core_tag])
        hidden = self.ledger.hidden.of(self.company)
        raised = hidden.with_raised(old).raised
        is_possible = is_possible and origin.may_replace(new.origin, old.origin, self.authorities, raised=raised)
        is_possible = is_possible and not hidden.distrusts_memory(new)
        ask = partial(self._asked, model, old, new)
        return await agreed(ask, old.content, new.content, is_possible=is_possible)

    async def _asked(self, model: Model, old: MemoryEntry, new: MemoryEntry, shown: str) -> Verdict | None:
        config = self.policy.changes
        request = CompletionRequest(
            messages=prompt(SYSTEM, shown),
            model=config.model,
            temperature=config.temperature,
            max_tokens=config.max_tokens,
        )
        by = Attribution(company=self.company, agent_id=new.agent_id, run_id=None, purpose=PURPOSE)
        key = by.question_id(config.model, old.id, new.id, shown, VERSION)
        try:
            return (await ask_structured(model, request, ChangeAnswer, by=by, key=key)).verdict(
                old.content, new.content
            )
        except MalformedAnswerError:
            return Verdict.BOTH_HOLD
        except BudgetExceededError:
            raise
        except ProviderError as error:
            about = {"agent_id": new.agent_id, "memory_id": new.id, "error": type(error).__name__}
            _log.warning(Event.CHANGES_FAILED, extra=about)
            return None


async def carry_out_pairs(
    backend: BatchBackend, ledger: Ledger, company: str, agent_id: str, *, check: Callable[[], None]
) -> None:
    """Let an agent's older memories be superseded, or hold again, as the ledger says; a second time changes nothing.

    ``check`` is called before each change. Raises what it raises, and as ``supersede`` does.
    """
    groups = ledger.consolidation_groups
    for pair in groups.pairs(company, agent_id):
        if pair.state not in {GroupState.APPROVED, GroupState.UNDONE}:
            continue
        known = {each.entry.id: each for each in await backend.get_many(agent_id, pair.source_ids)}
        check()
        if pair.state is GroupState.UNDONE:
            await _freed(backend, pair, known)
            continue
        is_done = await _superseded(backend, pair, known)
        state = GroupState.ADOPTED if is_done else GroupState.REFUSED
        groups.decide(company, pair.run_id, [pair.place], state, reason=None if is_done else "one of them has changed")


async def _superseded(backend: BatchBackend, pair: ConsolidationGroup, known: Mapping[str, MemoryRecord]) -> bool:
    old, new = (known.get(memory_id) for memory_id in pair.source_ids)
    if old is None or new is None or await is_replaced_by(backend, new, old.entry.id):
        return False
    if old.entry.last_stated_at > new.entry.last_stated_at:
        return False  # it was said again meanwhile
    if old.entry.superseded_by not in {None, new.entry.id}:
        return False  # an undo could not bring back by what it was replaced before
    await supersede(backend, old, new)
    return True


async def _freed(backend: BatchBackend, pair: ConsolidationGroup, known: Mapping[str, MemoryRecord]) -> None:
    old = known.get(pair.source_ids[0])
    if old is not None and old.entry.superseded_by == pair.source_ids[1]:
        await reinstate(backend, old)
