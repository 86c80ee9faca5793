"""The consolidation step: replaces groups of old memories by summaries, one journal entry each."""

import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from memcore import ids
from memcore.backends.protocol import pages
from memcore.config.maintenance import ASKING_STRATEGIES, ConsolidationConfig, ConsolidationStrategyType
from memcore.errors import AnswerMissingError, ProviderError
from memcore.ledger.archive import Archive
from memcore.ledger.consolidation_groups import ConsolidationGroup, GroupState
from memcore.ledger.llm_answers import Syntheses, Synthesis
from memcore.ledger.runs import LEFT_UNMERGED, POSTPONED
from memcore.ledger.work_items import WorkState
from memcore.maintenance.consolidation.proposals import begin_proposal, proposed, undismissed
from memcore.maintenance.consolidation.strategy import (
    ConsolidationStrategy,
    SummaryCandidate,
    SummaryGroup,
    summary_record,
    write_draft,
)
from memcore.maintenance.gate import Gate
from memcore.maintenance.probes import asks_model
from memcore.maintenance.removals import MAX_ENTRY, EntryCounts, JournaledStore, PlannedRemoval, carry_uses
from memcore.maintenance.rules import AgentSnapshot
from memcore.models.archival import ArchivalMode
from memcore.models.memory import FALLBACK_TAG, MemoryCategory
from memcore.models.origin import Authority, authority
from memcore.records import MemoryRecord, Where
from memcore.telemetry.events import Event

#: Fewer sources than this need no summary: the others were changed or removed since they were chosen.
LEAST_SOURCES = 2

#: Share of a retention rule's days that lies at most between the memories behind a summary: so much too early the
#: newest of them may go.
_MAX_SPAN = 0.1

#: What a proposal says of the gate.
_FIGURES = {"probes", "found_before", "found_after", "tests"}

#: Where the spans of time begin: the same in every run.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Wait before a run looks at its parts again, if no answer wakes it before.
LOOKED_AT_AGAIN = timedelta(minutes=15)

#: Gives a run's gate, which is made where a summary loses words.
GateOf = Callable[[], Gate]

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Part:
    """Memories that one summary replaces beside the one that is kept, and what became of them.

    Nothing was moved where a model has to be asked about them first (``unanswered``), about texts of so many
    ``tokens``.
    """

    ids: frozenset[str]
    kept_id: str | None
    category: MemoryCategory
    counts: EntryCounts = field(default_factory=EntryCounts)
    unanswered: tuple[str, ...] = ()
    tokens: int = 0
    mode: ArchivalMode = ArchivalMode.EXTRACTIVE
    judged: ConsolidationGroup | None = None


@dataclass(slots=True)
class TokenCap:
    """Counts the tokens of the groups that a run asks a model about, up to a number; None is no cap."""

    most: int | None
    used: int = 0

    def takes(self, tokens: int) -> bool:
        """Count a group, or return that it has to wait; the first never does, or a low cap would stop it for ever."""
        if self.most is not None and self.used and self.used + tokens > self.most:
            return False
        self.used += tokens
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingAnswers:
    """A run releases its lease until that time, or until the last answer has come; the reason is for people."""

    reason: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FewNew:
    """An agent has too few new memories for a model to be asked: the counts that the run keeps, and why for people."""

    reason: str
    counts: dict[str, int]


async def few_new(snapshot: AgentSnapshot, strategy: ConsolidationStrategy) -> FewNew | None:
    """Return whether too little is new since the agent's last run; None where no model would be asked, or enough is.

    New are more memories than that run left: of all ages after a change of policy or an undo. A summary that is to be
    written again is enough.
    """
    policy = snapshot.policy
    if policy.strategy not in ASKING_STRATEGIES:
        return None
    last = snapshot.ledger.runs.last_done(snapshot.company, snapshot.agent_id)
    left, now = last.counts.get(LEFT_UNMERGED, 0) if last else 0, await snapshot.count_mergeable()
    if now - left >= policy.min_new or [groups async for _, groups in _fallbacks(snapshot, strategy) if groups]:
        return None
    reason = f"{max(now - left, 0)} memories are new, fewer than consolidation.min_new ({policy.min_new})"
    return FewNew(reason=reason, counts={LEFT_UNMERGED: min(left, now)})


async def left_unmerged(snapshot: AgentSnapshot, strategy: ConsolidationStrategy | None) -> dict[str, int]:
    """Return the counts of what a run leaves that may ask a model: memories in no group, and groups for the next run.

    Those are beyond ``max_tokens_per_run``, or beyond what a person allowed.
    """
    if strategy is None or snapshot.policy.strategy not in ASKING_STRATEGIES:
        return {}
    left, postponed = await snapshot.count_mergeable(), 0
    async for _, groups in groups_by_filter(snapshot, strategy):
        left -= sum(len(group.members) for group in groups if not group.is_fallback)
        postponed += len(groups)
    return {LEFT_UNMERGED: left} | ({POSTPONED: postponed} if postponed else {})


async def groups_by_filter(
    snapshot: AgentSnapshot, strategy: ConsolidationStrategy
) -> AsyncIterator[tuple[Where, list[SummaryGroup]]]:
    """Yield the memories behind each summary, with the filter that they matched; one category at a time.

    Summaries that are to be written again come first: no cap of a run keeps them waiting for ever.
    """
    async for found in _fallbacks(snapshot, strategy):
        yield found
    for category in snapshot.merged_categories:
        where = snapshot.mergeable(category)
        if where is None:
            continue
        members: list[SummaryCandidate] = []
        async for page in pages(snapshot.backend, where):
            members += map(SummaryCandidate.of, list(filter(snapshot.may_merge, page)))
        if members:
            groups = [
                part
                for some in _of_one_age(snapshot, category, members)
                for alike in _of_one_authority(snapshot, some)
                for part in strategy.parts(alike)
            ]
            yield where, _not_refused(snapshot, strategy, groups)


async def _fallbacks(
    snapshot: AgentSnapshot, strategy: ConsolidationStrategy
) -> AsyncIterator[tuple[Where, list[SummaryGroup]]]:
    """Yield the summaries that the strategy made without its model, and of which all originals are in the archive."""
    for category in snapshot.merged_categories:
        where = snapshot.fallbacks(category)
        if where is None:
            continue
        found = [record async for page in pages(snapshot.backend, where) for record in page]
        found = [each for each in found if snapshot.may_merge(each) and _fell_back(each, snapshot.company, strategy)]
        ids_behind = {source_id for each in found for source_id in each.lineage.summary_of}
        archived = snapshot.ledger.lineage.archived(snapshot.company, snapshot.agent_id, ids_behind)
        groups = [
            SummaryGroup(members=(SummaryCandidate.of(each),))
            for each in found
            if archived.issuperset(each.lineage.summary_of)
        ]
        yield where, _not_refused(snapshot, strategy, groups)


def _fell_back(record: MemoryRecord, company: str, strategy: ConsolidationStrategy) -> bool:
    """Return whether a memory is a fallback of this strategy that nobody has changed since."""
    entry, sources = record.entry, record.lineage.summary_of
    if FALLBACK_TAG not in entry.metadata.tags or entry.updated_at is not None:
        return False
    # Its id says who made it, and of what.
    made = ids.summary_id(company=company, agent_id=entry.agent_id, strategy=strategy.name, source_ids=sources)
    return entry.id == made


def written_from(
    found: tuple[MemoryRecord, ...], strategy: ConsolidationStrategy, archive: Archive, *, company: str
) -> tuple[MemoryRecord, ...]:
    """Return the memories from whose texts the summary is written that replaces the found ones: these, as a rule.

    For one summary that fell back these are its originals, read from the archive without vectors, which may mean
    nothing to the store by now; none unless all of them are there.
    """
    if len(found) != 1 or not _fell_back(found[0], company, strategy):
        return found
    entry, behind = found[0].entry, found[0].lineage.summary_of
    archived = [archive.find(company, entry.agent_id, each) for each in behind]
    out = [replace(each.record, vectors=None) for each in archived if each is not None and each.returned_at is None]
    return tuple(out) if len(out) == len(behind) else ()


def _of_one_age(
    snapshot: AgentSnapshot, category: MemoryCategory, members: list[SummaryCandidate]
) -> Iterator[list[SummaryCandidate]]:
    """Yield the memories that one summary may replace: it goes when the retention rule removes the oldest of them."""
    keep_days = snapshot.terms.keep_days.get(category)
    if keep_days is None or snapshot.policy.strategy == ConsolidationStrategyType.DEDUPE:
        # A repetition is as old as the last time that it was said.
        yield members
        return
    found: defaultdict[int, list[SummaryCandidate]] = defaultdict(list)
    for member in members:
        found[int((member.created_at - _EPOCH) / (_MAX_SPAN * timedelta(days=keep_days)))].append(member)
    for age in sorted(found):
        yield found[age]


def _of_one_authority(snapshot: AgentSnapshot, members: list[SummaryCandidate]) -> Iterator[list[SummaryCandidate]]:
    """Yield the memories of each authority: what is merged with less would lose its own, or lend it."""
    found: defaultdict[Authority, list[SummaryCandidate]] = defaultdict(list)
    for member in members:
        found[authority(member.origin, snapshot.authorities)].append(member)
    for each in sorted(found):
        yield found[each]


def _not_refused(
    snapshot: AgentSnapshot, strategy: ConsolidationStrategy, groups: list[SummaryGroup]
) -> list[SummaryGroup]:
    """Leave out the groups that the gate refused as they are, in the days of the journal; no model is asked again."""
    if not groups or not snapshot.policy.gate.enabled:
        return groups
    keys = [ids.group_key(strategy=strategy.name, source_ids=group.ids) for group in groups]
    judged = snapshot.ledger.consolidation_groups.judged
    refused = judged(snapshot.company, snapshot.agent_id, keys, states=[GroupState.REFUSED])
    return [group for group, key in zip(groups, keys, strict=True) if key not in refused]


async def apply_consolidation(
    store: JournaledStore,
    strategy: ConsolidationStrategy,
    syntheses: Syntheses | None,
    gate: GateOf,
    *,
    most: int | None = None,
    proposes: bool = False,
) -> PendingAnswers | None:
    """Replace each part by its summary; return the answers that the run waits for, or None when it is done.

    A part whose summary the gate refuses stays as it is. Of a released run at most so many memories are replaced as a
    person was shown (``most``). A run that ``proposes`` replaces nothing: it notes each group with its summary.

    A part whose model answer is missing is recorded, and a later attempt replaces it: no lease is held while a model
    thinks. Without ``syntheses`` no model is connected. A part that has shrunk to one memory since it was chosen stays
    as it is.

    Raises ProviderError when the model's server refused; its parts stay as they are.
    """
    run = store.run
    planned = syntheses.of_run(run.company, run.run_id) if syntheses else ()
    if syntheses and planned:
        moved = await _finish(store, strategy, syntheses, gate, planned, proposes=proposes)
    else:
        moved = await _begin(store, strategy, gate, most=most, proposes=proposes)
        if syntheses:
            syntheses.plan(_unanswered(store, moved))
    counts = {
        "removed": sum(each.counts.outgoing for each in moved),
        "summaries": sum(each.counts.incoming for each in moved),
    }
    facts = {"agent_id": run.agent_id, "strategy": strategy.name}
    _log.info(Event.CONSOLIDATION_STRATEGY_COMPLETE, extra={**facts, **counts})
    if refused := sum(part.judged is not None and part.judged.state is GroupState.REFUSED for part in moved):
        _log.info(Event.CONSOLIDATION_GATE_REFUSED, extra={**facts, "refused": refused})
    if syntheses is None or not (planned or any(part.unanswered for part in moved)):
        return None
    return _pending(syntheses.of_run(run.company, run.run_id), now=store.snapshot.now)


async def _begin(
    store: JournaledStore,
    strategy: ConsolidationStrategy,
    gate: GateOf,
    *,
    most: int | None,
    proposes: bool,
) -> list[_Part]:
    """Replace the parts that need no model."""
    moved: list[_Part] = []
    if proposes:
        begin_proposal(store)
    async for where, groups in groups_by_filter(store.snapshot, strategy):
        if proposes:
            groups = undismissed(store, strategy.name, groups)  # noqa: PLW2901
        # What was stored while a released run planned, nobody was shown: the next run judges it.
        allowed = groups if most is None else _within(groups, most)
        if most is not None:
            most -= sum(len(each.members) for each in allowed)
        for batch in _batches(allowed):
            found = [
                _Part(ids=each.ids, kept_id=each.kept.id if each.kept else None, category=each.members[0].category)
                for each in batch
            ]
            await _replace(store, strategy, gate, where, found, proposes=proposes)
            moved += found
    return moved


def _unanswered(store: JournaledStore, moved: Sequence[_Part]) -> list[Synthesis]:
    """Return the parts that a model is to be asked about, as far as the run's tokens go."""
    cap = TokenCap(store.snapshot.policy.max_tokens_per_run)
    return [
        Synthesis(
            run_id=store.run.run_id,
            place=place,
            company=store.run.company,
            agent_id=store.run.agent_id,
            category=part.category,
            source_ids=part.unanswered,
            kept_id=part.kept_id,
        )
        for place, part in enumerate(part for part in moved if part.unanswered and cap.takes(part.tokens))
    ]


def _within(groups: Sequence[SummaryGroup], most: int) -> list[SummaryGroup]:
    """Return those of the groups, in order, that have at most so many memories together."""
    found: list[SummaryGroup] = []
    for group in groups:
        if len(group.members) <= most:
            most -= len(group.members)
            found.append(group)
    return found


def _batches(groups: Sequence[SummaryGroup]) -> Iterator[list[SummaryGroup]]:
    """Yield the groups in batches of at most an entry's size: one round trip to the store each."""
    batch, size = list[SummaryGroup](), 0
    for group in groups:
        if batch and size + len(group.members) > MAX_ENTRY:
            yield batch
            batch, size = [], 0
        batch.append(group)
        size += len(group.members)
    if batch:
        yield batch


async def _finish(
    store: JournaledStore,
    strategy: ConsolidationStrategy,
    syntheses: Syntheses,
    gate: GateOf,
    planned: tuple[Synthesis, ...],
    *,
    proposes: bool,
) -> list[_Part]:
    """Replace the parts whose answers have come."""
    moved: list[_Part] = []
    for synthesis in planned:
        if not synthesis.is_ready:
            continue
        part = _Part(ids=frozenset(synthesis.source_ids), kept_id=synthesis.kept_id, category=synthesis.category)
        is_fallback = len(part.ids) < LEAST_SOURCES
        where = (store.snapshot.fallbacks if is_fallback else store.snapshot.mergeable)(synthesis.category)
        if where is not None:
            await _replace(store, strategy, gate, where, [part], proposes=proposes)
        moved.append(part)
        if part.unanswered:
            # Some were pinned, changed or removed since the model was asked: it is asked about what is left.
            syntheses.ask_again(synthesis, part.unanswered)
        else:
            syntheses.replaced(synthesis)
    return moved


async def _replace(
    store: JournaledStore,
    strategy: ConsolidationStrategy,
    gate: GateOf,
    where: Where,
    parts: Sequence[_Part],
    *,
    proposes: bool,
) -> None:
    """Replace the memories of each part that still match the filter, one journal entry each; or propose to."""
    kept_ids = sorted({part.kept_id for part in parts if part.kept_id is not None})
    kept = await store.snapshot.backend.get_many(store.run.agent_id, kept_ids) if kept_ids else ()
    by_id = {record.entry.id: record for record in kept}
    removals = [
        _removal(store, strategy, gate, part, kept=by_id.get(part.kept_id or ""), proposes=proposes) for part in parts
    ]
    if proposes:
        await _propose(store, strategy, where, parts, removals, kept=by_id)
        return
    entry_counts = await store.remove_parts(where, removals, reason="consolidated")
    for part, counts in zip(parts, entry_counts, strict=True):
        part.counts = counts
    # After the journal: a worker that dies in between leaves figures out, and no group that stayed is said to be gone.
    store.snapshot.ledger.consolidation_groups.note([part.judged for part in parts if part.judged is not None])


async def _propose(
    store: JournaledStore,
    strategy: ConsolidationStrategy,
    where: Where,
    parts: Sequence[_Part],
    removals: Sequence[PlannedRemoval],
    *,
    kept: Mapping[str, MemoryRecord],
) -> None:
    """Note what would replace the memories of each part, which stay as they are."""
    found = await store.matching(where, frozenset[str]().union(*(part.ids for part in parts)))
    noted = []
    for part, removal in zip(parts, removals, strict=True):
        sources = tuple([record for record in found if record.entry.id in part.ids])
        summary = await removal.replace(sources) if removal.replace is not None and sources else None
        judged = part.judged
        if summary is not None:
            beside = kept.get(part.kept_id or "")
            group = proposed(store.run, strategy.name, sources, summary, kept=beside, mode=part.mode)
            noted.append(group if judged is None else group.model_copy(update=judged.model_dump(include=_FIGURES)))
        elif judged is not None:
            noted.append(judged)
    store.snapshot.ledger.consolidation_groups.note(noted)


def _removal(
    store: JournaledStore,
    strategy: ConsolidationStrategy,
    gate: GateOf,
    part: _Part,
    *,
    kept: MemoryRecord | None,
    proposes: bool,
) -> PlannedRemoval:
    company, snapshot = store.run.company, store.snapshot

    async def written(found: tuple[MemoryRecord, ...]) -> MemoryRecord | None:
        sources = written_from(found, strategy, snapshot.ledger.archive, company=company)
        if len(sources) < LEAST_SOURCES:
            return None
        is_fallback = sources is not found
        try:
            draft = await write_draft(strategy, sources, kept=kept, is_fallback=is_fallback)
        except AnswerMissingError:
            part.unanswered = tuple(record.entry.id for record in found)
            part.tokens = shown_tokens(sources, snapshot.policy)
            return None
        if draft is None:
            return None
        part.mode = draft.mode or part.mode
        summary = summary_record(sources, draft, company=company, strategy=strategy.name, replaced=found)
        verdict = None
        if not summary.is_lossless:
            verdict = await gate().judge(sources, summary, fallback_id=found[0].entry.id if is_fallback else None)
        is_refused = verdict is not None and verdict.is_refused
        if (is_fallback or draft.same_as is not None) and not (is_refused or proposes):
            carry_uses(store, found, summary)
        if verdict is None:
            return summary
        part.judged = ConsolidationGroup(
            company=company,
            run_id=store.run.run_id,
            agent_id=store.run.agent_id,
            category=part.category,
            strategy=strategy.name,
            state=GroupState.REFUSED if is_refused else GroupState.ADOPTED,
            source_ids=tuple(record.entry.id for record in found),
            kept_id=part.kept_id,
            summary_id=summary.entry.id,
            mode=part.mode,
            probes=verdict.figures.probes,
            found_before=verdict.figures.found_before,
            found_after=verdict.figures.found_after,
            tests=verdict.tests or None,
        )
        return None if is_refused else verdict.summary

    # Archived always: a summary loses words, the archive does not.
    return PlannedRemoval(ids=part.ids, replace=written, archive_as=lambda _: part.mode)


def shown_tokens(sources: Sequence[MemoryRecord], policy: ConsolidationConfig) -> int:
    """Return about how many tokens of memories a model is shown that writes their summary, and asks for probes."""
    tokens = sum(SummaryCandidate.of(source).tokens for source in sources)
    return 2 * tokens if asks_model(policy) else tokens


def _pending(parts: Sequence[Synthesis], *, now: datetime) -> PendingAnswers | None:
    """Return the answers that a run waits for, or None when its parts are done.

    Raises ProviderError when none waits, and some were refused.
    """
    wanted = [part for part in parts if part.is_open or part.is_ready]
    refused = [part for part in parts if part.state is WorkState.FAILED]
    if not wanted:
        if refused:
            raise ProviderError(f"{len(refused)} of {len(parts)} groups wait for a person: {refused[0].reason}")
        return None
    waiting = [part for part in wanted if part.state is WorkState.WAITING]
    until = min((part.dispatch_after for part in waiting if part.dispatch_after), default=now + LOOKED_AT_AGAIN)
    if len(waiting) < len(wanted):
        until = min(until, now + LOOKED_AT_AGAIN)
    reason = next((part.reason for part in waiting if part.reason), None)
    return PendingAnswers(
        reason=reason or f"a language model is asked about {len(wanted)} of {len(parts)} groups", until=until
    )
