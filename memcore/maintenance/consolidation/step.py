"""The consolidation step: replaces groups of old memories by summaries, one journal entry each."""

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from memcore.backends.protocol import pages
from memcore.errors import AnswerMissingError, ProviderError
from memcore.ledger.llm_answers import Syntheses, Synthesis, SynthesisState
from memcore.maintenance.consolidation.selection import MAX_ENTRY, SummaryCandidate, SummaryGroup
from memcore.maintenance.consolidation.strategy import ConsolidationStrategy
from memcore.maintenance.consolidation.summary import summary_record
from memcore.maintenance.context import AgentSnapshot, RunContext
from memcore.maintenance.events import MaintenanceEvent
from memcore.maintenance.removals import EntryCounts, PlannedRemoval
from memcore.models.archival import ArchivalMode
from memcore.records import MemoryRecord, Where

#: Fewer sources than this need no summary: the others were changed or removed since they were chosen.
_LEAST_SOURCES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The result of replacing a part.

    Attributes:
        entry_counts: memories that came in and went out.
        unanswered: ids of the memories about which a model has to be asked first; nothing was moved then.
    """

    entry_counts: EntryCounts = field(default_factory=EntryCounts)
    unanswered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A part that was chosen for a summary.

    Attributes:
        ids: the memories.
        kept_id: the memory of their group that stays.
    """

    ids: frozenset[str]
    kept_id: str | None


async def replace_by_summaries(
    run_context: RunContext, strategy: ConsolidationStrategy, where: Where, parts: Sequence[Chosen]
) -> tuple[Replacement, ...]:
    """Replace the memories of each part that still match the filter; each part is one journal entry.

    Args:
        run_context: whose entries these are.
        strategy: writes the summaries.
        where: the conditions under which the memories were chosen; the store looks at them again.
        parts: of at most 256 memories together.
    """
    kept_ids = sorted({part.kept_id for part in parts if part.kept_id is not None})
    kept = await run_context.snapshot.backend.get_many(run_context.snapshot.agent_id, kept_ids) if kept_ids else ()
    by_id = {record.entry.id: record for record in kept}
    writers = [_Writer(run_context, strategy, by_id.get(part.kept_id or "")) for part in parts]
    planned_removal = [
        PlannedRemoval(ids=part.ids, replace=writer.replace, archive_as=writer.archive_as)
        for part, writer in zip(parts, writers, strict=True)
    ]
    entry_counts = await run_context.journaled_store.remove_parts(where, planned_removal, reason="consolidated")
    return tuple(
        Replacement(entry_counts=each, unanswered=writer.unanswered)
        for each, writer in zip(entry_counts, writers, strict=True)
    )


class _Writer:
    """Writes the summary of one part, and remembers the result."""

    def __init__(self, run_context: RunContext, strategy: ConsolidationStrategy, kept: MemoryRecord | None) -> None:
        self._run_context = run_context
        self._strategy = strategy
        self._kept = kept
        self._mode: ArchivalMode | None = None
        self.unanswered: tuple[str, ...] = ()

    async def replace(self, sources: tuple[MemoryRecord, ...]) -> MemoryRecord | None:
        if len(sources) < _LEAST_SOURCES:
            return None
        try:
            draft = await self._strategy.write(sources, kept=self._kept)
        except AnswerMissingError:
            self.unanswered = tuple(source.entry.id for source in sources)
            return None
        self._mode = draft.mode
        return summary_record(sources, draft, company=self._run_context.snapshot.company, strategy=self._strategy.name)

    def archive_as(self, _source: MemoryRecord) -> ArchivalMode:
        # Always, whatever the memory's age and the policy of enforcement: a summary loses words, the archive does not.
        return self._mode or ArchivalMode.EXTRACTIVE


#: Wait before a part's job is sent again if nothing came of it: longer than a model with all its retries takes.
REDISPATCH_AFTER = timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAnswers:
    """A run releases its lease until that time, or until the last answer has come.

    Attributes:
        reason: one sentence for people.
        until: when to look again in any case.
    """

    reason: str
    until: datetime


def wait_for(parts: Sequence[Synthesis], *, now: datetime) -> PendingAnswers | None:
    """Return the answers that a run waits for, or None when its parts are done.

    Raises:
        ProviderError: none waits, and some were refused.
    """
    wanted = [part for part in parts if part.state in {SynthesisState.WANTED, SynthesisState.READY}]
    refused = [part for part in parts if part.state is SynthesisState.REFUSED]
    if not wanted:
        if refused:
            raise ProviderError(f"{len(refused)} of {len(parts)} groups wait for a person: {refused[0].reason}")
        return None
    until = min(part.ring_at or now + REDISPATCH_AFTER for part in wanted)
    reason = next((part.reason for part in wanted if part.reason), None)
    return PendingAnswers(
        reason=reason or f"a language model is asked about {len(wanted)} of {len(parts)} groups", until=until
    )


_log = logging.getLogger(__name__)


async def parts(snapshot: AgentSnapshot, strategy: ConsolidationStrategy) -> AsyncIterator[tuple[Where, SummaryGroup]]:
    """Yield the memories behind each summary, with the filter that they matched; one category at a time."""
    eligibility = snapshot.eligibility
    for category in eligibility.categories:
        where = eligibility.where(snapshot.agent_id, category)
        if where is None:
            continue
        members: list[SummaryCandidate] = []
        async for page in pages(snapshot.backend, where):
            members.extend(SummaryCandidate.of(record) for record in page if eligibility.allows(record))
        for part in strategy.parts(members):
            yield where, part


async def apply_consolidation(
    run_context: RunContext, strategy: ConsolidationStrategy, syntheses: Syntheses
) -> PendingAnswers | None:
    """Replace each part by its summary; return the answers that the run waits for, or None when it is done.

    A part whose model answer is missing is recorded, and a later attempt replaces it: no lease is held while a model
    thinks. A part that has shrunk to one memory since it was chosen stays as it is.

    Raises:
        ProviderError: the model's server refused; its parts stay as they are.
    """
    planned = syntheses.of_run(run_context.run.run_id)
    moved = (
        await _finish(run_context, strategy, syntheses, planned)
        if planned
        else await _begin(run_context, strategy, syntheses)
    )
    _log.info(
        MaintenanceEvent.STRATEGY_COMPLETED,
        extra={
            "agent_id": run_context.snapshot.agent_id,
            "strategy": strategy.name,
            "removed": sum(each.entry_counts.outgoing for each in moved),
            "summaries": sum(each.entry_counts.incoming for each in moved),
        },
    )
    return wait_for(syntheses.of_run(run_context.run.run_id), now=run_context.snapshot.now)


async def _begin(run_context: RunContext, strategy: ConsolidationStrategy, syntheses: Syntheses) -> list[Replacement]:
    """Replace the parts that need no model, and record those that do."""
    moved: list[Replacement] = []
    left: list[Synthesis] = []
    async for where, together in _together(parts(run_context.snapshot, strategy)):
        chosen = [Chosen(ids=part.ids, kept_id=part.kept.id if part.kept else None) for part in together]
        found = await replace_by_summaries(run_context, strategy, where, chosen)
        moved.extend(found)
        for part, choice, became in zip(together, chosen, found, strict=True):
            if became.unanswered:
                left.append(
                    Synthesis(
                        run_id=run_context.run.run_id,
                        place=len(left),
                        company=run_context.snapshot.company,
                        agent_id=run_context.snapshot.agent_id,
                        category=part.members[0].category,
                        source_ids=became.unanswered,
                        kept_id=choice.kept_id,
                    )
                )
    syntheses.plan(left)
    return moved


async def _together(
    found: AsyncIterator[tuple[Where, SummaryGroup]],
) -> AsyncIterator[tuple[Where, list[SummaryGroup]]]:
    """Yield the parts of one filter in batches of at most an entry's size: one round trip to the store each."""
    where: Where | None = None
    together: list[SummaryGroup] = []
    async for its, part in found:
        size = sum(len(each.members) for each in together)
        if where is not None and (its is not where or size + len(part.members) > MAX_ENTRY):
            yield where, together
            together = []
        where = its
        together.append(part)
    if where is not None:
        yield where, together


async def _finish(
    run_context: RunContext, strategy: ConsolidationStrategy, syntheses: Syntheses, planned: tuple[Synthesis, ...]
) -> list[Replacement]:
    """Replace the parts whose answers have come."""
    moved: list[Replacement] = []
    for part in planned:
        if part.state is not SynthesisState.READY:
            continue
        where = run_context.snapshot.eligibility.where(run_context.snapshot.agent_id, part.category)
        found = Replacement()
        if where is not None:
            chosen = Chosen(ids=frozenset(part.source_ids), kept_id=part.kept_id)
            (found,) = await replace_by_summaries(run_context, strategy, where, [chosen])
        moved.append(found)
        if found.unanswered:
            # Some were pinned, changed or removed since the model was asked: it is asked about what is left.
            syntheses.want(part.run_id, part.place, source_ids=found.unanswered)
        else:
            syntheses.turn(part.run_id, part.place, SynthesisState.DONE)
    return moved
