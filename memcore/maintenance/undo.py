"""What brings memories back: the undo of a run, and the restore of an archived memory.

An undo is a run of its own: it reverses the entries of the first, the last first. So it is as safe as a run, and can
itself be undone. Memories that later runs or agents have changed stay as they are, and are reported.
"""

import logging
from collections.abc import Collection
from datetime import timedelta
from enum import StrEnum

from memcore.backends.protocol import BatchBackend
from memcore.errors import MemoryInputError
from memcore.ledger.consolidation_groups import GroupState
from memcore.ledger.erasure.reach import reach_of, were_deleted
from memcore.ledger.journal import EntryReason, Journal, JournalEntry
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import Run
from memcore.ledger.work_items import OPEN_STATES
from memcore.maintenance.changes import carry_out_pairs
from memcore.maintenance.removals import JournaledStore, is_same
from memcore.maintenance.rules import AgentSnapshot
from memcore.models.base import Frozen
from memcore.records import MemoryRecord
from memcore.telemetry.events import Event

_log = logging.getLogger(__name__)


#: The counts of a run by its kind: each one's name, and the reason and direction of the journal's moves that it counts.
_COUNTS: dict[str, dict[str, tuple[EntryReason, str]]] = {
    "maintenance": {
        "ended": ("ended", "removed"),
        "retention": ("retention", "removed"),
        "expired": ("expired", "removed"),
        "pruned": ("pruned", "removed"),
        "consolidated": ("consolidated", "removed"),
        "summaries": ("consolidated", "created"),
        "enforced": ("enforced", "removed"),
    },
    "undo": {"restored": ("undone", "restored"), "removed": ("undone", "removed")},
    "restore": {"restored": ("restored", "restored")},
    "remove": {"removed": ("deleted", "removed")},
    "update": {"updated": ("updated", "removed")},
}

_END_COUNTS: dict[str, tuple[EntryReason, str]] = {"ended": ("ended", "removed")}


def run_counts(journal: Journal, run: Run) -> dict[str, int]:
    """Return the counts of a run so far, from the journal.

    Of an undo, ``skipped`` is the number of moves of the undone run that it left as they are.
    """
    moved = journal.totals(run.run_id)
    counts = {name: moved[key] for name, key in _COUNTS.get(run.kind, _END_COUNTS).items()}
    if run.undo_of is not None:
        counts["skipped"] = journal.totals(run.undo_of).total() - moved.total()
    return counts


async def apply_undo(store: JournaledStore, ledger: Ledger) -> None:
    """Reverse every entry of the run ``undo_of``, and protect the restored memories from the next runs.

    Raises MemoryInputError when the run cannot be undone; the message says why.
    """
    run, journal = store.run, ledger.journal
    target = undo_target(ledger, run.company, run.undo_of or "", agent_id=run.agent_id)
    start, stays = journal.next_seq(run.run_id), given_back(ledger, target)
    # A reversal has the place of the entry that it reverses, counted from the end: after a crash the journal shows
    # how far the undo came, and no entry is reversed twice.
    for place, journal_entry in enumerate(journal.journal_entries(target.run_id, newest_first=True)):
        if place >= start:
            await _reverse(store, ledger, journal_entry, place, stays)
    ledger.consolidation_groups.turn_pairs(run.company, run.agent_id, target.run_id, by=run.run_id)
    await carry_out_pairs(store.snapshot.backend, ledger, run.company, run.agent_id, check=store.check)
    moved = journal.totals(run.run_id)
    counts = {kind: moved["undone", kind] for kind in ("restored", "removed")}
    facts = {"agent_id": run.agent_id, "run_id": run.run_id, "undo_of": target.run_id}
    _log.info(Event.CONSOLIDATION_UNDO_COMPLETE, extra={**facts, **counts})


def undo_target(ledger: Ledger, company: str, run_id: str, *, agent_id: str | None = None) -> Run:
    """Return the run to undo; an idle run that an undo may preempt counts as ended.

    Raises MemoryInputError when it cannot be undone; the message says why.
    """
    target = ledger.runs.get(company, run_id)
    if target is None or agent_id not in {None, target.agent_id}:
        whose = "company" if agent_id is None else "agent"
        raise MemoryInputError("undo_of", f"names no run of this {whose} that is still known (memory.records)")
    if target.state in OPEN_STATES and not target.is_preemptible:
        raise MemoryInputError("undo_of", f"names a run that is {target.state}; wait until it has ended")
    journal = ledger.journal
    # Entries that a run has left open are finished first, and are complete until then.
    is_whole = journal.undoable(run_id) or journal.open_entries(run_id)
    # The entries of an agent's last runs go before these.
    moved = journal.next_seq(run_id) or any(target.counts.get(name) for name in _COUNTS.get(target.kind, _END_COUNTS))
    if moved and not is_whole:
        raise MemoryInputError("undo_of", "names a run whose journal has expired; it can no longer be undone")
    return target


def deleted_since(ledger: Ledger, journal_entry: JournalEntry) -> bool:
    """Return whether memories were replaced by others that an engine or a person has deleted since.

    Deleting a summary deletes its sources, also where it went into a further summary before. A deletion that was undone
    does not count.
    """
    return bool(journal_entry.outgoing) and were_deleted(ledger, journal_entry.incoming_ids)


def rewritten_since(ledger: Ledger, journal_entry: JournalEntry) -> bool:
    """Return whether the summary that replaced memories was written again since: its new text says what they say."""
    gone = ledger.journal.gone(journal_entry.incoming_ids)
    exchanges = ledger.lineage.exchanges({booking_id for booking_id, _ in gone.values()})
    return any(each.reason == "consolidated" and len(each.outgoing) == 1 for each in exchanges.values())


def given_back(ledger: Ledger, target: Run) -> frozenset[str]:
    """Return what a distrust in force would bring back, where another one's run did: there is nothing else of it."""
    company, agent_id, distrusts = target.company, target.agent_id, ledger.distrusts
    if target.kind != "restore" or distrusts.find(company, target.scope_id or "") is None:
        return frozenset()
    others = [each.rule for each in distrusts.in_force(company) if each.distrust_id != target.scope_id]
    reaches = [reach_of(ledger, company, agent_id, rule) for rule in others if rule.is_of(agent_id)]
    return frozenset[str]().union(*(each.clean for each in reaches))


async def _reverse(
    store: JournaledStore, ledger: Ledger, journal_entry: JournalEntry, place: int, stays: frozenset[str]
) -> None:
    journal, run = ledger.journal, store.run
    known = frozenset(each.booking_id for each in journal.removals(journal_entry.incoming_ids))
    if deleted_since(ledger, journal_entry) or rewritten_since(ledger, journal_entry):
        return
    overtaken = journal.overtaken(
        journal_entry.booking_id,
        journal_entry.incoming_ids | journal_entry.outgoing_ids,
        not_by={journal_entry.run_id, run.run_id},
    )
    back_ids = journal_entry.outgoing_ids - overtaken
    back_ids -= await store.there(sorted(back_ids))
    back = tuple(record for record in journal_entry.outgoing if record.entry.id in back_ids)
    if back:
        hold_back(store.snapshot, journal, back_ids)
    overtaken |= stays
    came = {record.entry.id: record for record in journal_entry.incoming if record.entry.id not in overtaken}
    await store.exchange(
        incoming=back,
        outgoing_ids=frozenset(came),
        may_go=lambda record: is_untouched(record, came[record.entry.id]),
        seq=place,
        reverses=journal_entry.booking_id,
        known=known,
    )


def hold_back(snapshot: AgentSnapshot, journal: Journal, ids: Collection[str]) -> None:
    """Protect memories that come back from the next runs."""
    until = snapshot.now + timedelta(days=snapshot.policy.restored_hold_days)
    journal.hold(snapshot.company, snapshot.agent_id, ids, until=until)


def is_untouched(now: MemoryRecord, then: MemoryRecord) -> bool:
    """Return whether a memory is unchanged since a run brought it in, so that an undo may remove it."""
    # Not updated_at: a backend may write one of its own when it stores.
    return all(
        getattr(now.entry, name) == getattr(then.entry, name)
        for name in ("content", "metadata", "category", "namespace", "created_at", "expires_at")
    )


async def apply_restore(store: JournaledStore, ledger: Ledger) -> str | None:
    """Restore the memory ``scope_id``, an archival id or its own id, and protect it from the next runs.

    It returns with its id, namespace, times, expiry, metadata and lineage, and with its vectors if the store's embedder
    has not changed since; else it is embedded anew. The summary that replaced it stays. Returns one sentence why
    nothing was done; None when it was brought back.

    Raises MemoryInputError when the agent's archive has no such memory, or it was restored before and removed since.
    """
    run, snapshot = store.run, store.snapshot
    if ledger.journal.next_seq(run.run_id):
        # An earlier attempt decided, and the journaled store has executed it.
        return None
    archived = ledger.archive.find(run.company, run.agent_id, run.scope_id or "")
    if archived is None:
        raise MemoryInputError("scope_id", "names no archived memory of this agent")
    memory_id = archived.original_id
    if await store.there([memory_id]):
        return f"memory {memory_id} stands in the store already"
    if archived.returned_at is not None:
        raise MemoryInputError(
            "scope_id", "names a memory that came back from the archive before and was removed since; see its runs"
        )
    hold_back(snapshot, ledger.journal, [memory_id])
    await store.restore_removed(archived.record_for(snapshot.backend.vector_space))
    facts = {"agent_id": run.agent_id, "run_id": run.run_id}
    _log.info(
        Event.CONSOLIDATION_ARCHIVAL_RESTORED,
        extra={**facts, "memory_id": memory_id, "archival_id": archived.archival_id},
    )
    return None


class SkipReason(StrEnum):
    """The reason why an undo leaves a memory as it is."""

    #: A later run has decided about it.
    DECIDED_SINCE = "decided since"
    #: It would be restored, and a memory with its id is in the store.
    THERE_ALREADY = "there already"
    #: It would be removed, and an agent has changed it.
    CHANGED_SINCE = "changed since"
    #: An engine or a person has since deleted the memory that replaced it: its summary or its original.
    DELETED_SINCE = "what it was exchanged for was deleted since"
    #: It would be removed, and is not in the store.
    GONE_ALREADY = "gone already"


class UndoSkip(Frozen):
    """A memory that an undo would leave as it is."""

    memory_id: str
    reason: SkipReason


class UndoPlan(Frozen):
    """The effects of undoing a run; a memory that the run moved twice is listed twice.

    ``reinstated`` memories would hold again, and ``superseded`` ones be replaced again.
    """

    run_id: str
    agent_id: str
    restored: tuple[str, ...]
    removed: tuple[str, ...]
    skipped: tuple[UndoSkip, ...]
    reinstated: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()


async def plan_undo(run_id: str, *, backend: BatchBackend, ledger: Ledger, company: str) -> UndoPlan:
    """Return the plan of undoing the run now; nothing is written or claimed.

    Raises MemoryInputError: the run cannot be undone; the message says why.
    """
    target = undo_target(ledger, company, run_id)
    store = _Store(backend, target.agent_id)
    # An undo first finishes the open entries of the agent's runs.
    for journal_entry in ledger.journal.open_of(company, target.agent_id):
        await store.finish(journal_entry)
    restored: list[str] = []
    removed: list[str] = []
    skipped: list[UndoSkip] = []
    kept = given_back(ledger, target)
    for journal_entry in ledger.journal.journal_entries(run_id, newest_first=True):
        ids = journal_entry.incoming_ids | journal_entry.outgoing_ids
        overtaken = ledger.journal.overtaken(journal_entry.booking_id, ids, not_by={run_id}) | kept
        await store.read(ids)
        stays = SkipReason.DECIDED_SINCE if rewritten_since(ledger, journal_entry) else None
        stays = SkipReason.DELETED_SINCE if deleted_since(ledger, journal_entry) else stays
        sides = ((journal_entry.outgoing, restored, store.restore), (journal_entry.incoming, removed, store.remove))
        for records, moved, move in sides:
            for record in records:
                memory_id = record.entry.id
                reason = SkipReason.DECIDED_SINCE if memory_id in overtaken else stays or move(record)
                if reason is None:
                    moved.append(memory_id)
                else:
                    skipped.append(UndoSkip(memory_id=memory_id, reason=reason))
    pairs = [each for each in ledger.consolidation_groups.pairs(company, target.agent_id) if each.decided_by == run_id]
    return UndoPlan(
        run_id=run_id,
        agent_id=target.agent_id,
        restored=tuple(restored),
        removed=tuple(removed),
        skipped=tuple(skipped),
        reinstated=tuple(each.source_ids[0] for each in pairs if each.state is GroupState.ADOPTED),
        superseded=tuple(each.source_ids[0] for each in pairs if each.state is GroupState.UNDONE),
    )


class _Store:
    """Simulates the store while one entry after the other is reversed."""

    def __init__(self, backend: BatchBackend, agent_id: str) -> None:
        self._backend = backend
        self._agent_id = agent_id
        self._there: dict[str, MemoryRecord | None] = {}

    async def read(self, ids: frozenset[str]) -> None:
        """Read the ids that were not read before."""
        new = sorted(each for each in ids if each not in self._there)
        if new:
            self._there.update(dict.fromkeys(new))
            found = await self._backend.get_many(self._agent_id, new)
            self._there.update((record.entry.id, record) for record in found)

    async def finish(self, journal_entry: JournalEntry) -> None:
        """Simulate the rest of an open entry."""
        await self.read(journal_entry.incoming_ids | journal_entry.outgoing_ids)
        for record in journal_entry.incoming:
            self.restore(record)
        for record in journal_entry.outgoing:
            now = self._there[record.entry.id]
            if now is not None and is_same(now, record):
                self._there[record.entry.id] = None

    def restore(self, record: MemoryRecord) -> SkipReason | None:
        """Put a memory back, or return why it could not be."""
        if self._there[record.entry.id] is not None:
            return SkipReason.THERE_ALREADY
        self._there[record.entry.id] = record
        return None

    def remove(self, record: MemoryRecord) -> SkipReason | None:
        """Take a memory out, or return why it could not be."""
        now = self._there[record.entry.id]
        if now is None:
            return SkipReason.GONE_ALREADY
        if not is_untouched(now, record):
            return SkipReason.CHANGED_SINCE
        self._there[record.entry.id] = None
        return None
