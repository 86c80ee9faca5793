"""Provenance: the history of a memory, from any summary to its originals and back, through undo and expiry."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import Field

from memcore.backends.protocol import BatchBackend
from memcore.errors import MemoryNotFoundError
from memcore.ledger.erasure.hidden import Hidden, showing_all
from memcore.ledger.journal import EntryReason, RecordKind
from memcore.ledger.ledger import Ledger
from memcore.ledger.lineage import Exchange, ModelTrace, Move
from memcore.ledger.runs import Run, RunKind, RunOrigin
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime, MemoryEntry
from memcore.models.origin import AUTHORITIES, Authority, Channel, Raised, current_writer
from memcore.records import MemoryRecord


class MemoryState(StrEnum):
    """The state of a memory: in the store, replaced by a summary or its next version, removed by a run, or missing.

    A missing memory is not in the store although no run removed it, as something outside of memtend deleted it; or it
    is being erased. A hidden one is in the store, and distrusted: an operator is told so, for others it is missing.
    """

    LIVE = "live"
    REPLACED = "replaced"
    REMOVED = "removed"
    MISSING = "missing"
    HIDDEN = "hidden"


class TextLocation(StrEnum):
    """Where the full text of a memory is."""

    STORE = "store"
    ARCHIVE = "archive"
    JOURNAL = "journal"
    GONE = "gone"


class HistoryEvent(Frozen):
    """One change that a run made to a memory; an open one is decided and not yet carried out.

    What the run was is None when the ledger no longer knows it. ``undoes`` are the runs that an undo took back: the
    one named, the one that this had undone, and so on to the first.
    """

    kind: RecordKind
    reason: EntryReason
    at: BoundedTime
    is_open: bool
    run_id: str
    run_kind: RunKind | None = None
    origin: RunOrigin | None = None
    undo_of: str | None = None
    undoes: tuple[str, ...] = ()


class MemoryTrace(Frozen):
    """One memory of a history.

    Attributes:
        text_until: when its full text expires; None while nothing removes it.
        text: the full text, where it was asked for, and is shown to this reader.
        authority: how far it may be trusted, where its text was asked for, and is shown.
        search_notes: by which words a memory in the store is found too, where its text was asked for.
        covers_since: of a summary in the store, the time of the oldest memory that it stands for.
        covers_until: the same of the newest.
        raised: of a memory in the store, by which approval it has more authority than its channels give it.
        made_of: ids of the memories that it replaced, oldest first; for what an agent stored, none.
        made_into: ids of the summaries and the version that replaced it, the first one first; also undone ones.
        kept_for: names of the memory tests for which the gate left it as it is.
    """

    memory_id: str
    state: MemoryState
    replaced_by: tuple[str, ...] = ()
    text_in: TextLocation
    text_until: BoundedTime | None = None
    text: str | None = Field(default=None, repr=False)
    authority: Authority | None = None
    search_notes: tuple[str, ...] = Field(default=(), repr=False)
    covers_since: BoundedTime | None = None
    covers_until: BoundedTime | None = None
    raised: Raised | None = None
    made_of: tuple[str, ...] = ()
    made_into: tuple[str, ...] = ()
    kept_for: tuple[str, ...] = ()
    chapters: tuple[HistoryEvent, ...] = ()


class MemoryHistory(Frozen):
    """A memory with all its sources and all its summaries, through any depth; each memory is listed once.

    Attributes:
        memories: that one first, then its sources, then its summaries, level by level.
        models: the use of models in the runs that made it, which may have asked for other summaries too.
    """

    memory_id: str
    agent_id: str
    memories: tuple[MemoryTrace, ...] = Field(min_length=1)
    models: tuple[ModelTrace, ...] = ()

    @property
    def memory(self) -> MemoryTrace:
        """The memory itself."""
        return self.memories[0]

    def find(self, memory_id: str) -> MemoryTrace | None:
        """Return a memory of the history."""
        return next((each for each in self.memories if each.memory_id == memory_id), None)

    def originals(self) -> tuple[str, ...]:
        """Return the ids of the memories, stored by agents, that this one replaces; none when an agent stored it."""
        below = self._follow("made_of")
        return tuple(each.memory_id for each in below if not each.made_of)

    def summaries(self) -> tuple[str, ...]:
        """Return the ids of all summaries and versions that this memory went into, also those that are gone."""
        return tuple(each.memory_id for each in self._follow("made_into"))

    def sources(self) -> tuple[MemoryTrace, ...]:
        """Return the memories that this one was made of, at any depth, the nearest first."""
        return tuple(self._follow("made_of"))

    def _follow(self, edge: str) -> Iterator[MemoryTrace]:
        by_id = {each.memory_id: each for each in self.memories}
        seen = {self.memory_id}
        level = [self.memory]
        while level:
            ids = [memory_id for each in level for memory_id in getattr(each, edge)]
            level = [by_id[memory_id] for memory_id in dict.fromkeys(ids) if memory_id not in seen]
            seen.update(each.memory_id for each in level)
            yield from level


async def trace_memory(
    memory_id: str,
    *,
    backend: BatchBackend,
    ledger: Ledger,
    company: str,
    journal_days: int,
    agent_id: str | None = None,
    with_text: bool = False,
    authorities: Mapping[Channel, Authority] = AUTHORITIES,
) -> MemoryHistory:
    """Return the history of any memory of the company; nothing is written.

    Without an agent the journal names it, if a run has moved the memory. The journal keeps full texts for
    ``journal_days``. By the authorities of the channels it is known which texts this reader is shown.

    Raises MemoryNotFoundError when the agent has and had no such memory; or none is named, and no run has moved it.
    """
    owner, hidden = agent_id or ledger.lineage.agent_of(company, memory_id), ledger.hidden.of(company)
    if owner is not None and owner in hidden.agents:
        raise MemoryNotFoundError("memory_id: its agent is being erased; see `memtend erase list`")
    if owner is None:
        raise MemoryNotFoundError(
            "memory_id: names no memory that a run has moved in the days that are known (memory.records); "
            "name its agent, to look for it in the store"
        )
    keep = timedelta(days=journal_days)
    family = _Lineage(
        backend, ledger, company=company, agent_id=owner, keep=keep, hidden=hidden, authorities=authorities
    )
    below = await family.walk(memory_id, family.made_of)
    above = await family.walk(memory_id, family.made_into)
    if not family.is_known(memory_id):
        if memory_id in hidden.distrusted.get(owner, ()):
            raise MemoryNotFoundError("memory_id: is distrusted, and shown to nobody; see `memtend distrust list`")
        raise MemoryNotFoundError(
            "memory_id: names no memory of this agent, now or as long as is known (memory.records)"
        )
    return MemoryHistory(
        memory_id=memory_id,
        agent_id=owner,
        memories=tuple(family.describe(each, with_text=with_text) for each in dict.fromkeys([*below, *above])),
        models=family.models(memory_id),
    )


class _Lineage:
    """The memories read so far, and their moves; each level of the walk costs a few queries, however wide it is."""

    def __init__(
        self,
        backend: BatchBackend,
        ledger: Ledger,
        *,
        company: str,
        agent_id: str,
        keep: timedelta,
        hidden: Hidden,
        authorities: Mapping[Channel, Authority],
    ) -> None:
        self._backend = backend
        self._hidden = hidden
        self._authorities = authorities
        self._ledger = ledger
        self._company = company
        self._agent_id = agent_id
        self._keep = keep
        self._met: set[str] = set()
        self._live = dict[str, MemoryRecord]()
        self._distrusted = set[str]()
        self._archived: set[str] = set()
        self._moves: dict[str, tuple[Move, ...]] = {}
        self._exchanges: dict[str, Exchange] = {}
        self._runs: dict[str, Run | None] = {}
        self._tested: Mapping[str, tuple[str, ...]] | None = None

    async def walk(self, memory_id: str, onward: Callable[[str], tuple[str, ...]]) -> list[str]:
        """Return the memory and all that can be reached from it, level by level, each once."""
        reached: dict[str, None] = {}
        level = [memory_id]
        while level:
            await self._meet(level)
            reached.update(dict.fromkeys(level))
            further = dict.fromkeys(next_id for each in level for next_id in onward(each))
            level = [each for each in further if each not in reached]
        return list(reached)

    def is_known(self, memory_id: str) -> bool:
        """Return whether the agent has or had this memory."""
        return self._is_stored(memory_id) or memory_id in self._moves or memory_id in self._archived

    def _is_stored(self, memory_id: str) -> bool:
        return memory_id in self._live or memory_id in self._distrusted

    def made_of(self, memory_id: str) -> tuple[str, ...]:
        """Return the sources of a summary: by the journal, or by its own metadata where the journal has no entry."""
        made = self._ids_of(memory_id, lambda move: move.kind == "created", lambda each: each.outgoing)
        live = self._live.get(memory_id)
        return made if made or live is None else live.lineage.summary_of

    def made_into(self, memory_id: str) -> tuple[str, ...]:
        """Return the summaries and the version that replaced a memory, the first one first."""
        return self._ids_of(memory_id, _was_replaced, lambda each: each.incoming)

    def describe(self, memory_id: str, *, with_text: bool) -> MemoryTrace:
        """Return the trace of one memory."""
        replaced_by = self._replaced_by(memory_id)
        place, until = self._text_in(memory_id)
        live = self._live.get(memory_id)
        shown = self._shown(memory_id) if with_text else None
        summary = live if live is not None and live.covers_until > live.entry.created_at else None
        return MemoryTrace(
            memory_id=memory_id,
            state=self._state(memory_id, replaced_by),
            replaced_by=replaced_by,
            text_in=place,
            text_until=until,
            text=None if shown is None else shown.content,
            authority=None if shown is None else shown.authority,
            search_notes=live.entry.search_notes if with_text and live is not None else (),
            covers_since=summary.entry.created_at if summary else None,
            covers_until=summary.covers_until if summary else None,
            raised=live.entry.raised if live is not None else None,
            made_of=self.made_of(memory_id),
            made_into=self.made_into(memory_id),
            kept_for=self._kept_for(memory_id) if live is not None else (),
            chapters=tuple(self._history_event(move) for move in self._moves_of(memory_id)),
        )

    def models(self, memory_id: str) -> tuple[ModelTrace, ...]:
        """Return the use of models in the runs that made a summary."""
        made_in = dict.fromkeys(move.run_id for move in self._moves_of(memory_id) if move.kind == "created")
        return tuple(use for run_id in made_in for use in self._ledger.lineage.models(self._company, run_id))

    def _kept_for(self, memory_id: str) -> tuple[str, ...]:
        if self._tested is None:
            self._tested = self._ledger.consolidation_groups.kept_for_tests(self._company, self._agent_id)
        return self._tested.get(memory_id, ())

    async def _meet(self, ids: Collection[str]) -> None:
        new = [each for each in ids if each not in self._met]
        if not new:
            return
        self._met.update(new)
        is_person = current_writer().is_person
        with showing_all():
            found = await self._backend.get_many(self._agent_id, new)
        for record in found:
            entry = self._hidden.with_raised(record.entry)
            if not self._hidden.hides_memory(entry):
                self._live[entry.id] = replace(record, entry=entry)
            elif is_person and not self._hidden.hides(entry.agent_id, entry.namespace):
                self._distrusted.add(entry.id)
        self._archived |= self._ledger.lineage.archived(self._company, self._agent_id, new)
        moves = self._ledger.lineage.moves(self._company, self._agent_id, new)
        self._moves.update(moves)
        exchanged = {move.booking_id for each in moves.values() for move in each if _concerns_others(move)}
        self._exchanges.update(self._ledger.lineage.exchanges(exchanged - self._exchanges.keys()))

    def _moves_of(self, memory_id: str) -> tuple[Move, ...]:
        return self._moves.get(memory_id, ())

    def _ids_of(
        self, memory_id: str, which: Callable[[Move], bool], side: Callable[[Exchange], Iterable[str]]
    ) -> tuple[str, ...]:
        moved = [self._exchanges[move.booking_id] for move in self._moves_of(memory_id) if which(move)]
        return tuple(dict.fromkeys(other for each in moved for other in side(each)))

    def _replaced_by(self, memory_id: str) -> tuple[str, ...]:
        moves = self._moves_of(memory_id)
        if self._is_stored(memory_id) or not moves or moves[-1].kind != "removed":
            return ()
        into = self.made_into(memory_id)
        if not _concerns_others(moves[-1]):
            return ()
        # The undo of an undo removes it again for the summary that comes back.
        came = tuple(each for each in self._exchanges[moves[-1].booking_id].incoming if each in into)
        # A memory that was stored anew and merged anew makes no second summary of the same originals.
        return came or (into if _was_replaced(moves[-1]) else ())

    def _state(self, memory_id: str, replaced_by: tuple[str, ...]) -> MemoryState:
        moves = self._moves_of(memory_id)
        if self._is_stored(memory_id):
            return MemoryState.LIVE if memory_id in self._live else MemoryState.HIDDEN
        if not moves or moves[-1].kind != "removed":
            return MemoryState.MISSING
        return MemoryState.REPLACED if replaced_by else MemoryState.REMOVED

    def _text_in(self, memory_id: str) -> tuple[TextLocation, datetime | None]:
        if self._is_stored(memory_id):
            return TextLocation.STORE, None
        if memory_id in self._archived:
            return TextLocation.ARCHIVE, None
        held = self._last_in_full(memory_id)
        if held is None:
            return TextLocation.GONE, None
        return TextLocation.JOURNAL, None if held.settled_at is None else held.settled_at + self._keep

    def _shown(self, memory_id: str) -> MemoryEntry | None:
        record = self._held(memory_id)
        # As another's source, too, nobody is shown what is hidden.
        if record is None or self._hidden.hides_memory(record.entry):
            return None
        entry = self._hidden.with_raised(record.entry)
        return entry.with_authority(self._authorities) if entry.is_shown(self._authorities) else None

    def _held(self, memory_id: str) -> MemoryRecord | None:
        if memory_id in self._live:
            return self._live[memory_id]
        if memory_id in self._archived:
            archived = self._ledger.archive.find(self._company, self._agent_id, memory_id)
            return None if archived is None else archived.record
        held = self._last_in_full(memory_id)
        return None if held is None else self._ledger.lineage.record(held.booking_id, memory_id)

    def _last_in_full(self, memory_id: str) -> Move | None:
        return next((move for move in reversed(self._moves_of(memory_id)) if move.has_content), None)

    def _history_event(self, move: Move) -> HistoryEvent:
        run = self._run(move.run_id)
        return HistoryEvent(
            kind=move.kind,
            reason=move.reason,
            at=move.at,
            is_open=move.settled_at is None,
            run_id=move.run_id,
            run_kind=run.kind if run else None,
            origin=run.origin if run else None,
            undo_of=run.undo_of if run else None,
            undoes=tuple(self._undone_by(run)),
        )

    def _run(self, run_id: str) -> Run | None:
        if run_id not in self._runs:
            self._runs[run_id] = self._ledger.runs.get(self._company, run_id)
        return self._runs[run_id]

    def _undone_by(self, run: Run | None) -> Iterator[str]:
        # A run undoes an older one: the chain has an end.
        while run is not None and run.undo_of is not None:
            yield run.undo_of
            run = self._run(run.undo_of)


def _was_replaced(move: Move) -> bool:
    return move.kind == "removed" and move.reason in {"consolidated", "updated"}


def _concerns_others(move: Move) -> bool:
    return move.kind == "created" or _was_replaced(move) or (move.kind == "removed" and move.reason == "undone")
