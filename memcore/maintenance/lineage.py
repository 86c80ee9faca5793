"""Why a memory is there, or is not: from any summary to its originals and back, through any depth, undo and expiry."""

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from memcore.backends.protocol import BatchBackend
from memcore.errors import MemoryNotFoundError
from memcore.ledger.ledger import Ledger
from memcore.ledger.lineage import Exchange, Move
from memcore.maintenance.story import Chapter, MemoryState, Story, StoryMemory, StoryModel, TextPlace

if TYPE_CHECKING:
    from memcore.backends.record import MemoryRecord
    from memcore.ledger.run import Run


async def tell_story(
    memory_id: str,
    *,
    backend: BatchBackend,
    ledger: Ledger,
    company: str,
    journal_days: int,
    agent_id: str | None = None,
    with_text: bool = False,
) -> Story:
    """Return the story of a memory; nothing is written.

    Args:
        memory_id: any memory of the company: live, merged, removed, or a summary of others.
        backend: where the memories live.
        ledger: what runs did.
        company: whose.
        journal_days: how long the journal keeps full texts.
        agent_id: whose memory; left out, the journal says, as far as a run has moved it.
        with_text: whether texts are looked up too.

    Raises:
        MemoryNotFoundError: the agent has and had no such memory; or none is named, and no run has moved it.
    """
    owner = agent_id or ledger.lineage.agent_of(company, memory_id)
    if owner is None:
        raise MemoryNotFoundError(
            "memory_id: names no memory that a run has moved; name its agent, to look for it in the store"
        )
    family = _Family(backend, ledger, company=company, agent_id=owner, keep=timedelta(days=journal_days))
    below = await family.walk(memory_id, family.made_of)
    above = await family.walk(memory_id, family.made_into)
    if not family.is_known(memory_id):
        raise MemoryNotFoundError("memory_id: names no memory of this agent, now or before")
    return Story(
        memory_id=memory_id,
        agent_id=owner,
        memories=tuple(family.tell(each, with_text=with_text) for each in dict.fromkeys([*below, *above])),
        models=family.models(memory_id),
    )


class _Family:
    """What is known of the memories met so far; each level of the walk costs a few queries, however wide it is."""

    def __init__(self, backend: BatchBackend, ledger: Ledger, *, company: str, agent_id: str, keep: timedelta) -> None:
        self._backend = backend
        self._ledger = ledger
        self._company = company
        self._agent_id = agent_id
        self._keep = keep
        self._met: set[str] = set()
        self._live: dict[str, MemoryRecord] = {}
        self._archived: set[str] = set()
        self._moves: dict[str, tuple[Move, ...]] = {}
        self._exchanges: dict[str, Exchange] = {}
        self._runs: dict[str, Run | None] = {}

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
        return memory_id in self._live or memory_id in self._moves or memory_id in self._archived

    def made_of(self, memory_id: str) -> tuple[str, ...]:
        """Return what a summary replaced, by the journal, or by its own word where that never saw it made."""
        made = self._ids_of(memory_id, lambda move: move.kind == "created", lambda each: each.outgoing)
        live = self._live.get(memory_id)
        return made if made or live is None else live.lineage.summary_of

    def made_into(self, memory_id: str) -> tuple[str, ...]:
        """Return the summaries that replaced a memory, the first one first."""
        return self._ids_of(memory_id, _was_merged, lambda each: each.incoming)

    def tell(self, memory_id: str, *, with_text: bool) -> StoryMemory:
        """Return what is known of one memory."""
        replaced_by = self._replaced_by(memory_id)
        place, until = self._text_in(memory_id)
        return StoryMemory(
            memory_id=memory_id,
            state=self._state(memory_id, replaced_by),
            replaced_by=replaced_by,
            text_in=place,
            text_until=until,
            text=self._text(memory_id) if with_text else None,
            made_of=self.made_of(memory_id),
            made_into=self.made_into(memory_id),
            chapters=tuple(self._chapter(move) for move in self._moves_of(memory_id)),
        )

    def models(self, memory_id: str) -> tuple[StoryModel, ...]:
        """Return what models were asked for in the runs that made a summary."""
        made_in = [move.run_id for move in self._moves_of(memory_id) if move.kind == "created"]
        return tuple(
            StoryModel(
                run_id=run_id,
                purpose=use.purpose,
                model=use.model,
                calls=use.calls,
                tokens=use.tokens,
                cost=use.cost,
            )
            for run_id in dict.fromkeys(made_in)
            for use in self._ledger.lineage.models(self._company, run_id)
        )

    async def _meet(self, ids: Collection[str]) -> None:
        new = [each for each in ids if each not in self._met]
        if not new:
            return
        self._met.update(new)
        found = await self._backend.get_many(self._agent_id, new)
        self._live.update((record.entry.id, record) for record in found)
        self._archived |= self._ledger.lineage.archived(self._company, self._agent_id, new)
        moves = self._ledger.lineage.moves(self._company, self._agent_id, new)
        self._moves.update(moves)
        told = {move.booking_id for each in moves.values() for move in each if _tells_of_others(move)}
        self._exchanges.update(self._ledger.lineage.exchanges(told - self._exchanges.keys()))

    def _moves_of(self, memory_id: str) -> tuple[Move, ...]:
        return self._moves.get(memory_id, ())

    def _ids_of(
        self, memory_id: str, which: Callable[[Move], bool], side: Callable[[Exchange], Iterable[str]]
    ) -> tuple[str, ...]:
        moved = [self._exchanges[move.booking_id] for move in self._moves_of(memory_id) if which(move)]
        return tuple(dict.fromkeys(other for each in moved for other in side(each)))

    def _replaced_by(self, memory_id: str) -> tuple[str, ...]:
        moves = self._moves_of(memory_id)
        if memory_id in self._live or not moves or moves[-1].kind != "removed":
            return ()
        into = self.made_into(memory_id)
        if not _tells_of_others(moves[-1]):
            return ()
        # The undo of an undo removes it again for the summary that comes back.
        came = tuple(each for each in self._exchanges[moves[-1].booking_id].incoming if each in into)
        # A memory that was stored anew and merged anew makes no second summary of the same originals.
        return came or (into if _was_merged(moves[-1]) else ())

    def _state(self, memory_id: str, replaced_by: tuple[str, ...]) -> MemoryState:
        moves = self._moves_of(memory_id)
        if memory_id in self._live:
            return MemoryState.LIVE
        if not moves or moves[-1].kind != "removed":
            return MemoryState.MISSING
        return MemoryState.REPLACED if replaced_by else MemoryState.REMOVED

    def _text_in(self, memory_id: str) -> tuple[TextPlace, datetime | None]:
        if memory_id in self._live:
            return TextPlace.STORE, None
        if memory_id in self._archived:
            return TextPlace.ARCHIVE, None
        held = self._last_in_full(memory_id)
        if held is None:
            return TextPlace.GONE, None
        return TextPlace.JOURNAL, None if held.settled_at is None else held.settled_at + self._keep

    def _text(self, memory_id: str) -> str | None:
        if memory_id in self._live:
            return self._live[memory_id].entry.content
        if memory_id in self._archived:
            archived = self._ledger.archive.find(self._company, self._agent_id, memory_id)
            return None if archived is None else archived.record.entry.content
        held = self._last_in_full(memory_id)
        record = None if held is None else self._ledger.lineage.record(held.booking_id, memory_id)
        return None if record is None else record.entry.content

    def _last_in_full(self, memory_id: str) -> Move | None:
        return next((move for move in reversed(self._moves_of(memory_id)) if move.has_content), None)

    def _chapter(self, move: Move) -> Chapter:
        if move.run_id not in self._runs:
            self._runs[move.run_id] = self._ledger.runs.get(move.run_id)
        run = self._runs[move.run_id]
        return Chapter(
            kind=move.kind,
            reason=move.reason,
            at=move.at,
            is_open=move.settled_at is None,
            run_id=move.run_id,
            run_kind=run.kind if run else None,
            origin=run.origin if run else None,
            undo_of=run.undo_of if run else None,
        )


def _was_merged(move: Move) -> bool:
    return move.kind == "removed" and move.reason == "consolidated"


def _tells_of_others(move: Move) -> bool:
    return move.kind == "created" or _was_merged(move) or (move.kind == "removed" and move.reason == "undone")
