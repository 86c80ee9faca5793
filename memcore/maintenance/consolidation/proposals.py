"""Proposals: groups of memories that a person is shown with their summary, and the adoption of those approved."""

import hashlib
import json
from collections.abc import Mapping, Sequence

from memcore import ids
from memcore.backends.protocol import BatchBackend
from memcore.ledger.consolidation_groups import ConsolidationGroup, GroupState, packed_summary
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import Run
from memcore.maintenance.consolidation.strategy import SummaryGroup
from memcore.maintenance.removals import JournaledStore, PlannedRemoval, carry_uses
from memcore.models.archival import ArchivalMode
from memcore.models.base import Frozen
from memcore.models.memory import CONSOLIDATED_TAG, BoundedTime
from memcore.models.origin import AUTHORITIES, Authority, Channel
from memcore.records import MemoryRecord, Where

#: Why an approved group is left as it is: what a person was shown is not what would be replaced.
CHANGED = "a memory of the group was changed, pinned, restored, removed or distrusted since it was proposed"

#: What an agent may change of a memory in place, as ``is_untouched`` has it.
_SEEN = {"id", "content", "metadata", "category", "namespace", "created_at", "expires_at"}


def begin_proposal(store: JournaledStore) -> None:
    """Delete what an earlier attempt of the run proposed: the memories may have changed since."""
    store.snapshot.ledger.consolidation_groups.withdraw(store.run.company, store.run.run_id)


def undismissed(store: JournaledStore, strategy: str, groups: Sequence[SummaryGroup]) -> list[SummaryGroup]:
    """Return the groups that nobody has decided against: nobody is asked twice about the same memories."""
    run = store.run
    keys = [ids.group_key(strategy=strategy, source_ids=group.ids) for group in groups]
    dismissed = store.snapshot.ledger.consolidation_groups.judged(
        run.company, run.agent_id, keys, states=[GroupState.DISMISSED]
    )
    return [group for group, key in zip(groups, keys, strict=True) if key not in dismissed]


def proposed(
    run: Run,
    strategy: str,
    sources: Sequence[MemoryRecord],
    summary: MemoryRecord,
    *,
    kept: MemoryRecord | None,
    mode: ArchivalMode,
) -> ConsolidationGroup:
    """Return the group of these memories, which the summary would replace."""
    return ConsolidationGroup(
        company=run.company,
        run_id=run.run_id,
        agent_id=run.agent_id,
        category=summary.entry.category,
        strategy=strategy,
        state=GroupState.PROPOSED,
        source_ids=tuple(source.entry.id for source in sources),
        kept_id=None if kept is None else kept.entry.id,
        summary_id=summary.entry.id,
        seen=_seen(sources, kept),
        mode=mode,
        body=packed_summary(summary),
    )


def _seen(sources: Sequence[MemoryRecord], kept: MemoryRecord | None) -> str:
    # The one that is kept too: a summary leaves out what that one says.
    shown = [record.entry.model_dump(mode="json", include=_SEEN) for record in (*sources, *([kept] if kept else []))]
    return hashlib.blake2b(json.dumps(shown, sort_keys=True).encode(), digest_size=16).hexdigest()


async def adopt_groups(store: JournaledStore) -> None:
    """Replace the memories of each approved group by the summary that was shown, one journal entry each.

    A group of which anything has changed since it was shown stays as it is, and says so.
    """
    run, ledger = store.run, store.snapshot.ledger
    for group in ledger.consolidation_groups.of_run(run.company, run.run_id, state=GroupState.APPROVED):
        # An earlier attempt may have died behind its entry, which is carried out by now.
        is_adopted = bool(ledger.journal.removed_by_run(run.run_id, group.source_ids)) or await _adopted(store, group)
        state, reason = (GroupState.ADOPTED, None) if is_adopted else (GroupState.PROPOSED, CHANGED)
        ledger.consolidation_groups.decide(run.company, run.run_id, [group.place], state, reason=reason)


async def _adopted(store: JournaledStore, group: ConsolidationGroup) -> bool:
    snapshot = store.snapshot
    kept = await snapshot.backend.get_many(snapshot.agent_id, [group.kept_id]) if group.kept_id else ()
    if any(snapshot.hidden.keeps_unmerged(each.entry) for each in kept):
        return False

    async def shown(found: tuple[MemoryRecord, ...]) -> MemoryRecord | None:
        by_id = {record.entry.id: record for record in found}
        if not _is_as_shown(group, by_id, kept[0] if kept else None) or group.summary is None:
            return None
        if CONSOLIDATED_TAG not in group.summary.entry.metadata.tags:
            # One of the repetitions itself, not a summary of them.
            carry_uses(store, found, group.summary)
        return group.summary

    # One memory alone is a summary that is written again.
    taken = {CONSOLIDATED_TAG} if len(group.source_ids) == 1 else set()
    where = Where(
        agent_id=snapshot.agent_id,
        without_tags=tuple(tag for tag in snapshot.unmerged_tags if tag not in taken),
        without_ids=snapshot.protected_by_undo,
    )
    mode = group.mode or ArchivalMode.EXTRACTIVE
    removal = PlannedRemoval(ids=frozenset(group.source_ids), replace=shown, archive_as=lambda _: mode)
    (counts,) = await store.remove_parts(where, [removal], reason="consolidated")
    return counts.outgoing > 0


def _is_as_shown(group: ConsolidationGroup, found: Mapping[str, MemoryRecord], kept: MemoryRecord | None) -> bool:
    sources = [found[each] for each in group.source_ids if each in found]
    return len(sources) == len(group.source_ids) and _seen(sources, kept) == group.seen


class ShownMemory(Frozen):
    """A memory of a group as it is now; without a text it is no longer in the store."""

    id: str
    created_at: BoundedTime | None = None
    content: str | None = None


class ShownGroup(Frozen):
    """A group as a person decides about it.

    Attributes:
        group: its number in the run.
        has_changed: whether a proposed group can no longer be adopted.
        summary: the text of the proposed summary.
        probes: questions that the gate asked; None when it asked none.
        found_before: probes that the memories answer.
        found_after: probes that the summary would answer.
        tests: names of the memory tests that the summary would break.
    """

    group: int
    state: GroupState
    category: str
    strategy: str
    has_changed: bool
    sources: tuple[ShownMemory, ...]
    kept: ShownMemory | None
    summary_id: str | None
    summary: str | None
    probes: int | None
    found_before: int | None
    found_after: int | None
    tests: tuple[str, ...]
    decided_by: str | None
    reason: str | None


async def shown_groups(
    ledger: Ledger, backend: BatchBackend, run: Run, *, authorities: Mapping[Channel, Authority] = AUTHORITIES
) -> tuple[ShownGroup, ...]:
    """Return the groups of a run with the texts of their memories, which are read from the store.

    What this reader is not shown has no text, and neither has the summary of what is hidden.
    """
    found: list[ShownGroup] = []
    hidden = ledger.hidden.of(run.company)
    distrusted = hidden.distrusted.get(run.agent_id, frozenset())
    for group in ledger.consolidation_groups.of_run(run.company, run.run_id):
        wanted = [*group.source_ids, *([group.kept_id] if group.kept_id else [])]
        by_id = {record.entry.id: record for record in await backend.get_many(run.agent_id, wanted)}
        is_as_shown = _is_as_shown(group, by_id, by_id.get(group.kept_id or ""))
        summary = group.summary
        if summary is not None and (hidden.hides_memory(summary.entry) or not distrusted.isdisjoint(group.source_ids)):
            summary = None
        if summary is not None and not summary.entry.is_shown(authorities):
            summary = None
        by_id = {key: each for key, each in by_id.items() if each.entry.is_shown(authorities)}
        names = ("state", "category", "strategy", "summary_id", "probes", "found_before", "found_after")
        found.append(
            ShownGroup(
                **{name: getattr(group, name) for name in (*names, "decided_by", "reason")},
                group=group.place,
                has_changed=group.state is GroupState.PROPOSED and not is_as_shown,
                sources=tuple(_shown(each, by_id) for each in group.source_ids),
                kept=_shown(group.kept_id, by_id) if group.kept_id else None,
                summary=None if summary is None else summary.entry.content,
                tests=group.tests or (),
            )
        )
    return tuple(found)


def _shown(memory_id: str, found: Mapping[str, MemoryRecord]) -> ShownMemory:
    record = found.get(memory_id)
    if record is None:
        return ShownMemory(id=memory_id)
    return ShownMemory(id=memory_id, created_at=record.entry.created_at, content=record.entry.content)
