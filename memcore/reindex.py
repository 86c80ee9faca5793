"""Begins, ends and carries out a reindex, by slices: copy, catch up, stop the writes, copy the differences, switch.

Any slice may die anywhere. The target's content is never trusted: copying goes on from the id in the ledger, and owners
written meanwhile are marked there until compared. Writes stop for as long as the comparison of the marked owners takes,
and for the two seconds for which readers trust their last read.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Self

from memcore import errors
from memcore.backends.factory import followed_row, mem0_config_of
from memcore.clock import Clock
from memcore.company import CompanyContext
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.embedding.bm25 import TERMS_VERSION, Bm25Encoder
from memcore.embedding.protocol import Embedder
from memcore.embedding.selection import EmbedderChoice
from memcore.errors import LeaseLostError, MemoryBackendUnsupportedError, MemoryInputError
from memcore.jobs import Deferred, Done, Outcome, ProgressCallback, Skipped, Step, no_progress
from memcore.ledger.agents import check_kill_switch
from memcore.ledger.attempt import Attempt, Lease, RetryPolicy
from memcore.ledger.collections import (
    READ_AGE,
    CollectionPointer,
    Phase,
    Reindex,
    ReindexKind,
    ReindexStage,
    ServedCollection,
)
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import AuditNote
from memcore.telemetry.events import Event

if TYPE_CHECKING:
    from memcore.backends.mem0.reindex_target import ReindexTarget


class ReindexPlanning:
    """Changes the pointer's row on a person's command; the worker does the rest."""

    def __init__(self, reindex_target: "ReindexTarget", ledger: Ledger, *, company: str) -> None:
        self._reindex_target = reindex_target
        self._ledger = ledger
        self._company = company

    def ready(self) -> CollectionPointer:
        """Return the row if a new collection may be filled now.

        Raises MemoryInputError when a reindex is under way, when the old collection of the last one is still kept, or
        when nothing is stored yet.
        """
        pointer = self._pointer()
        if pointer.previous is not None:
            raise MemoryInputError(
                "reindex", f"{pointer.previous.name} is still kept for going back: `memtend reindex --drop-old` first"
            )
        self._require_none(pointer)
        return pointer

    async def begin(
        self,
        embedder: Embedder,
        *,
        choice: EmbedderChoice,
        encoder: Bm25Encoder,
        text_template: str,
        dense_weight: float | None = None,
        again: bool = False,
        checkpoint_id: str | None = None,
        note: AuditNote | None = None,
    ) -> CollectionPointer:
        """Begin to fill a new collection with an embedder; ``again`` with the one that serves too.

        Raises:
            MemoryInputError: as ``ready``; or this embedder serves already, or somebody was quicker.
            CheckpointNotFoundError: the checkpoint was deleted.
        """
        from memcore.backends.mem0.writer import IndexedText, Indexing  # noqa: PLC0415  # see create_reindex_target

        pointer = self.ready()
        target = ServedCollection(
            # No company's name has a dot, so that no other company's collection has this name; and no two
            # collections ever have one name, so that dropping one never drops another.
            name=f"{pointer.current.name.partition('.')[0]}.{pointer.version + 1}",
            generation=pointer.current.generation + 1,
            identity=Indexing(embedder=embedder, encoder=encoder, text=IndexedText(text_template)).identity,
            choice=choice.without_server,
            text_template=text_template,
            term_weighting=encoder.weighting.value,
            dense_weight=dense_weight,
            checkpoint_id=checkpoint_id,
            terms_version=TERMS_VERSION,
        )
        if target.identity == pointer.current.identity and not (again or pointer.current.has_old_terms):
            raise MemoryInputError(
                "reindex", f"{target.identity.label} serves already: configure another embedder, or say --again"
            )
        total = await self._reindex_target.count(pointer.current.name)
        return self._ledger.collection_pointers.begin(
            self._company, version=pointer.version, target=target, kind=ReindexKind.FORWARD, total=total, note=note
        )

    async def go_back(
        self, seen: CollectionPointer | None = None, *, note: AuditNote | None = None
    ) -> CollectionPointer:
        """Begin to bring the old collection up to date, to serve again.

        Raises MemoryInputError when none is kept, when a reindex is under way, or when somebody was quicker.
        """
        pointer = seen or self._pointer()
        if pointer.previous is None:
            raise MemoryInputError("reindex", "no old collection is kept to go back to")
        self._require_none(pointer)
        total, old = await self._reindex_target.count(pointer.current.name), pointer.previous
        return self._ledger.collection_pointers.begin(
            self._company, version=pointer.version, target=old, kind=ReindexKind.BACK, total=total, note=note
        )

    async def cancel(self) -> CollectionPointer:
        """End a reindex that has not switched, and drop the collection that it filled. Raises MemoryInputError."""
        pointer = self._pointer()
        target = pointer.target
        changed = self._ledger.collection_pointers.cancel(self._company, version=pointer.version)
        if target is None or changed is None:
            raise MemoryInputError("reindex", "none is under way that could be cancelled: see `--status`, try again")
        if changed.previous is None or changed.previous.name != target.name:
            await self._reindex_target.drop(target.name)
        return changed

    async def drop_old(self) -> CollectionPointer:
        """Drop the collection that is kept for going back, for good. Raises MemoryInputError."""
        pointer = self._pointer()
        self._require_none(pointer)
        if pointer.previous is None:
            raise MemoryInputError("reindex", "no old collection is kept")
        # The pointer first: nobody goes back to it any more.
        changed = self._ledger.collection_pointers.forget_previous(self._company, version=pointer.version)
        if changed is None:
            raise MemoryInputError("reindex", "somebody else changed it meanwhile: see `--status`, try again")
        await self._reindex_target.drop(pointer.previous.name)
        return changed

    def _pointer(self) -> CollectionPointer:
        pointer = self._ledger.collection_pointers.get(self._company)
        if pointer is None:
            raise MemoryInputError("reindex", "nothing is stored yet")
        return pointer

    def _require_none(self, pointer: CollectionPointer) -> None:
        if pointer.phase is not None:
            raise MemoryInputError("reindex", "one is under way: see `memtend reindex --status`")


def create_reindex_target(settings: Settings, policy: Policy) -> "ReindexTarget":
    """Return the reindex target of the company's collections; MemoryBackendUnsupportedError where none has vectors."""
    if "mem0" not in policy.memory.backends.values():
        raise MemoryBackendUnsupportedError("reindex: no backend of this policy embeds anything")
    # The store's client takes 50 MB and a second, and every worker knows this job.
    from memcore.backends.mem0.reindex_target import ReindexTarget  # noqa: PLC0415  # see above

    return ReindexTarget(mem0_config_of(settings), followed=followed_row(settings, policy))


#: Greatest age of the last renewal when a write is sent. The rest of the lease is longer than a call to the store may
#: take, so that no write of a worker that lost it arrives later.
FRESH = timedelta(seconds=5)


#: How long one job works, so that the runs behind it have their turn.
SLICE = timedelta(seconds=10)

#: Pause after a page, as a share of what the page took: the store belongs to the engines.
REST_SHARE = 1.0

#: Longest pause after a page.
LONGEST_REST = timedelta(seconds=1)

#: Owners compared together.
OWNERS = 64

#: How long writes are stopped for the last differences, before they go on without a switch.
FREEZE = timedelta(seconds=20)

#: How long they stay stopped if the worker dies over it: then the next writer restarts them.
UNFREEZE = timedelta(seconds=30)

#: How long they stay stopped after a switch if the worker dies over it.
SETTLE = timedelta(seconds=30)

#: After a switch, readers have this much more than the time for which they trust their last read.
_MARGIN = timedelta(milliseconds=500)

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _LeasedReindex:
    """A reindex whose lease this worker holds, and what takes its progress."""

    reindex: Reindex
    lease: Lease
    on_progress: ProgressCallback


@dataclass(frozen=True, eq=False)
class ReindexService:
    """Carries a company's reindex on."""

    reindex_target: "ReindexTarget"
    ledger: Ledger
    _: KW_ONLY
    company: str
    clock: Clock
    rest: Callable[[float], Awaitable[None]] = asyncio.sleep
    monotonic: Callable[[], float] = time.monotonic

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company, and open the store for it.

        It is opened by the first slice: a reindex is rare, and its embedder may take as much memory as the rest.
        """
        target = create_reindex_target(context.settings, context.policy)
        context.opened.callback(lambda: context.loop.run(target.close()))
        return cls(target, context.ledger, company=context.company, clock=context.clock)

    async def run(self, *, lasts: timedelta = SLICE, on_progress: ProgressCallback = no_progress) -> Step:
        """Work for a while; does nothing when the reindex is over or another worker has its lease.

        Trouble is noted in its row and never ends it: a person does, with `memtend reindex --cancel`.
        """
        reindexes, goes_on = self.ledger.reindexes, False
        last = reindexes.last(self.company)
        if last is None:
            return Step(outcome=Skipped(reason="no reindex is under way"))
        with Attempt(
            reindexes,
            self.company,
            last.reindex_id,
            retry=RetryPolicy(attempts=None),
            switch=self._check_switch,
            monotonic=self.monotonic,
        ) as attempt:
            held = _LeasedReindex(reindex=attempt.claim(), lease=attempt.lease, on_progress=on_progress)
            try:
                goes_on = await self._step(held, self.clock() + lasts)
            except LeaseLostError:
                raise
            except errors.MemoryError as error:
                attempt.outcome = self._troubled(held, error)
            else:
                self._release(held)
                seen = reindexes.last(self.company) or last
                attempt.outcome = Done(facts={"looked_at": seen.looked_at, "written": seen.written})
        return Step(outcome=attempt.outcome, goes_on=goes_on)

    def _check_switch(self, _reindex: Reindex) -> None:
        check_kill_switch(self.ledger.agents, self.company)

    def _troubled(self, held: _LeasedReindex, error: errors.MemoryError) -> Outcome:
        _log.warning(Event.MEMORY_REINDEX_TROUBLE, extra={"company": self.company, "error": type(error).__name__})
        # A configuration error names what a person has to do; another one may quote stored data.
        self._release(held, str(error) if isinstance(error, errors.MemoryConfigError) else type(error).__name__)
        return Deferred(reason=type(error).__name__)

    async def _step(self, held: _LeasedReindex, until: datetime) -> bool:
        pointer = self.ledger.collection_pointers.get(self.company)
        if pointer is None or pointer.phase is None:
            return False
        if pointer.phase is Phase.SETTLING:
            return await self._settle(pointer)
        if pointer.phase is Phase.FROZEN:
            # The worker that stopped the writes is dead: its lease has ended.
            pointer = self.ledger.collection_pointers.unfreeze(self.company, version=pointer.version)
        if pointer is None or pointer.target is None:
            return True
        is_begun = held.reindex.stage is not ReindexStage.COPYING or held.reindex.cursor is not None
        await self.reindex_target.prepare(pointer.target, is_begun=is_begun)
        if held.reindex.stage is ReindexStage.COPYING and not await self._copy(held, pointer, until):
            return True
        return await self._catch_up(held, pointer, until)

    async def _copy(self, held: _LeasedReindex, pointer: CollectionPointer, until: datetime) -> bool:
        """Copy page by page; return True after the last one."""
        cursor = held.reindex.cursor
        while self.clock() < until:
            cursor = await self._page(held, pointer, None, cursor)
            if cursor is None:
                return True
        return False

    async def _catch_up(self, held: _LeasedReindex, pointer: CollectionPointer, until: datetime) -> bool:
        marks, before = self.ledger.reindex_marks, None
        while self.clock() < until:
            left = marks.count(self.company)
            # At most one comparison's owners are left, or as many as arrive during one.
            if left <= OWNERS or (before is not None and left * 2 > before):
                return await self._switch(held, pointer)
            before = left
            for _ in range(0, left, OWNERS):
                if await self._compare(held, pointer) == 0 or self.clock() >= until:
                    break
        return True

    async def _switch(self, held: _LeasedReindex, pointer: CollectionPointer) -> bool:
        frozen = self.ledger.collection_pointers.freeze(self.company, version=pointer.version, lasts=UNFREEZE)
        if frozen is None:
            return True
        self._save(held, ReindexStage.CATCHING_UP, freezes=1)
        until = self.clock() + FREEZE
        try:
            while await self._compare(held, frozen, rests=False):
                if self.clock() >= until:
                    _log.warning(Event.MEMORY_REINDEX_THAWED, extra={"company": self.company})
                    self.ledger.collection_pointers.unfreeze(self.company, version=frozen.version)
                    return False  # the sweep dispatches again: writes have a while for themselves
        except errors.MemoryError:
            self.ledger.collection_pointers.unfreeze(self.company, version=frozen.version)
            raise
        held.lease.confirm(fresh=FRESH)
        switched = self.ledger.collection_pointers.switch(self.company, version=frozen.version, settles=SETTLE)
        if switched is None:
            return True
        about = {"generation": switched.current.generation, "checkpoint_id": switched.current.checkpoint_id}
        _log.info(Event.MEMORY_REINDEX_SWITCHED, extra={"company": self.company, **about})
        return await self._settle(switched)

    async def _settle(self, pointer: CollectionPointer) -> bool:
        await self.rest((READ_AGE + _MARGIN).total_seconds())
        self.ledger.collection_pointers.settle(self.company, version=pointer.version)
        return False

    async def _compare(self, held: _LeasedReindex, pointer: CollectionPointer, *, rests: bool = True) -> int:
        """Compare some marked owners; return their number."""
        owners = self.ledger.reindex_marks.take(self.company, held.lease.token, limit=OWNERS)
        cursor = None
        while owners:
            cursor = await self._page(held, pointer, owners, cursor, rests=rests)
            if cursor is None:
                self.ledger.reindex_marks.compared(self.company, held.lease.token, owners)
                break
        return len(owners)

    async def _page(
        self,
        held: _LeasedReindex,
        pointer: CollectionPointer,
        owners: tuple[str, ...] | None,
        cursor: str | None,
        *,
        rests: bool = True,
    ) -> str | None:
        source, target = pointer.current, pointer.target
        if target is None:
            raise LeaseLostError("the reindex has ended")
        began, alive = self.clock(), partial(held.lease.confirm, fresh=FRESH)
        done = await self.reindex_target.page(source, target, cursor, owners=owners, alive=alive)
        if owners is None:
            stage = ReindexStage.CATCHING_UP if done.following is None else ReindexStage.COPYING
            counts = {"looked_at": done.looked_at, "written": done.written, "passed_over": done.passed_over}
            self._save(held, stage, cursor=done.following, **counts)
        else:
            self._save(held, ReindexStage.CATCHING_UP, written=done.written)
        if rests:
            took = (self.clock() - began).total_seconds()
            await self.rest(min(took * REST_SHARE, LONGEST_REST.total_seconds()))
        return done.following

    def _save(self, held: _LeasedReindex, stage: ReindexStage, *, cursor: str | None = None, **counts: int) -> None:
        saved = self.ledger.reindexes.advance(
            self.company, held.reindex.reindex_id, held.lease.token, stage=stage, cursor=cursor, **counts
        )
        held.on_progress(saved.stage, saved.fraction)

    def _release(self, held: _LeasedReindex, reason: str | None = None) -> None:
        with suppress(LeaseLostError):  # raised too when it has ended
            self.ledger.reindexes.release(self.company, held.reindex.reindex_id, held.lease.token, reason=reason)
