"""The pointer to a company's active collection, the reindex that replaces it, and checkpoints of the embedder."""

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from pydantic import Field, PositiveInt
from sqlalchemy import Column, ColumnElement, Connection, and_, delete, func, select, true, update

from memcore import ids
from memcore.embedding.bm25 import TERMS_VERSION
from memcore.embedding.protocol import Embedder, EmbedderKind
from memcore.embedding.selection import EmbedderChoice
from memcore.errors import CheckpointConflictError, CheckpointNotFoundError, MemoryInputError
from memcore.jobs import ReindexPayload
from memcore.ledger.database import (
    CompanyRecords,
    Repository,
    Row,
    changed,
    checked_key,
    equals,
    insert_one,
    one_record,
    put,
    record_of,
)
from memcore.ledger.organization.audit import AuditNote, append
from memcore.ledger.tables import finetune_checkpoints, pointer, reindex_marks, reindexes, work_items
from memcore.ledger.work_items import Work, WorkEvent, WorkKey, WorkRecord, WorkState, add_items, move, new_item
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.memory import BoundedTime

#: How long a reader uses a cached pointer. A switch delays writers for as long, so that no reader misses a write.
READ_AGE = timedelta(seconds=2)


class EmbedderIdentity(Frozen):
    """The identity of a collection's embedder; another embedder is refused, because its vectors would not fit."""

    name: NotBlankStr
    kind: EmbedderKind
    #: Length of its vectors.
    dims: PositiveInt
    #: Name and version of the form in which a memory is written before it is embedded (speaker, date, text).
    text_form: NotBlankStr

    @property
    def label(self) -> str:
        """All of it in one line."""
        return f"{self.name} ({self.kind}, {self.dims} dimensions, text {self.text_form!r})"

    @classmethod
    def of(cls, embedder: Embedder, *, text_form: str) -> Self:
        """Take the identity of an embedder that reads memories in this text form."""
        return cls(name=embedder.name, kind=embedder.kind, dims=embedder.dims, text_form=text_form)


class Verdict(StrEnum):
    """The verdict of the promotion gate."""

    #: It retrieves better than its base model.
    PROMOTED = "promoted"
    #: Its lead is not told from chance, or there were too few questions to tell.
    UNDECIDED = "undecided"
    #: It does not, and is kept for inspection.
    REJECTED = "rejected"


class Checkpoint(Frozen):
    """A checkpoint's row; a run has one (memcore.ids.checkpoint_id). Its report is memcore.finetune.evaluate's."""

    checkpoint_id: str
    run_id: str
    model_path: str
    kind: str
    base_model: str
    dims: int = Field(ge=1)
    sha256: str
    size_bytes: int = Field(ge=0)
    doc_count: int = Field(ge=0)
    report: dict[str, Any]
    verdict: Verdict
    reason: str
    created_at: BoundedTime


class ServedCollection(Frozen):
    """A collection with its embedder and index settings: it is searched with the embedder that filled it.

    Attributes:
        generation: 1 for the first, and one more with each that a reindex makes.
        choice: how the embedder is loaded, without a server's address or key.
        dense_weight: share of the vectors in a weighted fusion; None leaves it to the policy.
        checkpoint_id: of the checkpoint that was deployed to fill it; None for any other embedder.
        terms_version: of the tokenizer that filled it (memcore.embedding.bm25.TERMS_VERSION).
    """

    name: NotBlankStr
    generation: int = Field(default=1, ge=1)
    identity: EmbedderIdentity
    choice: EmbedderChoice
    text_template: str
    term_weighting: NotBlankStr
    dense_weight: float | None = Field(default=None, ge=0.0, le=1.0)
    checkpoint_id: NotBlankStr | None = None
    terms_version: PositiveInt = 1

    @property
    def has_old_terms(self) -> bool:
        """Whether an earlier tokenizer filled it: then signs and telling case of what it holds are not found by."""
        return self.terms_version < TERMS_VERSION

    def is_of(self, checkpoint: Checkpoint) -> bool:
        """Whether the checkpoint filled it, deployed by its id or configured by its folder."""
        return self.checkpoint_id == checkpoint.checkpoint_id or self.choice.model == checkpoint.model_path


class CollectionUse(StrEnum):
    """What a collection is used for."""

    #: It is read and written.
    SERVES = "serves"
    #: It is being filled to serve.
    FILLING = "filling"
    #: It served before, and is kept for going back.
    KEPT = "kept"


class ReindexKind(StrEnum):
    """The direction of a reindex."""

    #: To a collection that a new embedder fills.
    FORWARD = "forward"
    #: To the collection that was kept from before.
    BACK = "back"


class ReindexStage(StrEnum):
    """The stage of a reindex; the last two are its ends."""

    COPYING = "copying"
    CATCHING_UP = "catching_up"
    SETTLING = "settling"
    DONE = "done"
    CANCELLED = "cancelled"


class Reindex(WorkRecord):
    """A reindex's row.

    Attributes:
        cursor: the id from which the copying goes on; None at its beginning.
        looked_at: points compared in the copying, of the ``total`` that there were when it began.
        written: points written to, or taken out of, the new collection.
        passed_over: points that are no memory and stay behind.
        freezes: how often writes were stopped for the switch.
        reason: why it makes no progress, as an error's name; None when it does.
        attempt: how many slices of it were claimed.
    """

    reindex_id: str
    kind: ReindexKind
    stage: ReindexStage
    cursor: str | None = None
    looked_at: int = 0
    total: int
    written: int = 0
    passed_over: int = 0
    freezes: int = 0
    state: WorkState = WorkState.AVAILABLE
    reason: str | None = None
    started_at: BoundedTime
    finished_at: BoundedTime | None = None

    @property
    def fraction(self) -> float:
        """How much of it is done, 0 to 1; what remains after the copying counts as a tenth."""
        if self.finished_at is not None:
            return 1.0
        if self.stage is not ReindexStage.COPYING:
            return 0.9 if self.stage is ReindexStage.CATCHING_UP else 0.99
        return 0.9 * min(1.0, self.looked_at / self.total) if self.total else 0.0


class Phase(StrEnum):
    """The phase of a reindex, which decides whether writes wait."""

    #: The new collection is being filled: each write names whose memories it touches.
    FILLING = "filling"
    #: The last differences are carried over: writes wait.
    FROZEN = "frozen"
    #: Switched: writes wait until every reader has seen it.
    SETTLING = "settling"


class CollectionPointer(Frozen):
    """The one row that names a company's active collection; its version shows a writer whether it has changed.

    ``target`` is being filled to become current, ``previous`` is kept for going back to it. In the phases in which
    writes wait, they go on at ``until``.
    """

    version: int
    current: ServedCollection
    target: ServedCollection | None = None
    previous: ServedCollection | None = None
    phase: Phase | None = None
    until: BoundedTime | None = None

    def use_of(self, checkpoint: Checkpoint) -> CollectionUse | None:
        """Return what the checkpoint's collection is used for; None when no collection of its counts."""
        uses = (
            (self.current, CollectionUse.SERVES),
            (self.target, CollectionUse.FILLING),
            (self.previous, CollectionUse.KEPT),
        )
        return next((use for each, use in uses if each is not None and each.is_of(checkpoint)), None)

    def is_closed(self, now: datetime) -> bool:
        """Whether writes have to wait."""
        return self.phase in {Phase.FROZEN, Phase.SETTLING} and self.until is not None and now < self.until

    def is_overdue(self, now: datetime) -> bool:
        """Whether the pause of writes has outlasted its time, so that any writer may end it."""
        return self.phase is Phase.FROZEN and not self.is_closed(now)


def read_serving(connection: Connection, company: str) -> CollectionPointer | None:
    """Return the company's pointer; None before the first connection."""
    return one_record(connection, CollectionPointer, select(pointer).where(pointer.c.company == company))


#: Most checkpoints of a page.
MAX_PAGE = 200

#: What ends each use of a checkpoint.
_ENDS = {
    CollectionUse.SERVES: "it serves; `memtend finetune rollback` goes back to what served before",
    CollectionUse.FILLING: "it is being deployed; `memtend reindex --cancel` ends that",
    CollectionUse.KEPT: "its collection is kept for going back; `memtend reindex --drop-old` first",
}


class Checkpoints(CompanyRecords[Checkpoint]):
    """The finetune_checkpoints table."""

    _table = finetune_checkpoints
    _model = Checkpoint
    _newest_by = (finetune_checkpoints.c.created_at, finetune_checkpoints.c.checkpoint_id)
    _page_size = MAX_PAGE

    def page(self, company: str, *, limit: int = 50, offset: int = 0) -> tuple[Checkpoint, ...]:
        """Return at most 200 checkpoints, newest first."""
        query = select(finetune_checkpoints).where(finetune_checkpoints.c.company == company).offset(offset)
        return self._page(query, before=None, limit=limit)

    def require_unused(self, company: str, checkpoint: Checkpoint) -> None:
        """Raise CheckpointConflictError when its collection serves, is being filled, or is kept."""
        with self._database.read() as connection:
            _require_unused(connection, company, checkpoint)

    def remove(self, company: str, checkpoint_id: str, *, note: AuditNote) -> Checkpoint:
        """Delete a checkpoint's row, with a line for the audit, and return it; its folder stays.

        Raises CheckpointNotFoundError; CheckpointConflictError when its collection serves, is being filled, or is kept.
        """
        with self._database.write() as connection:
            found = hold_checkpoint(connection, company, checkpoint_id)
            # After it: a deploy holds the checkpoint before it changes this row.
            _require_unused(connection, company, found)
            connection.execute(delete(finetune_checkpoints).where(self._is(company, checkpoint_id)))
            append(connection, company, note, at=self._clock())
        return found


def _require_unused(connection: Connection, company: str, checkpoint: Checkpoint) -> None:
    pointer = read_serving(connection, company)
    if pointer is not None and (use := pointer.use_of(checkpoint)) is not None:
        raise CheckpointConflictError(f"checkpoint {checkpoint.checkpoint_id} cannot be deleted: {_ENDS[use]}")


def hold_checkpoint(connection: Connection, company: str, checkpoint_id: str) -> Checkpoint:
    """Lock a checkpoint until the transaction ends, and return it. Raises CheckpointNotFoundError."""
    is_it = equals(finetune_checkpoints, company=company, checkpoint_id=checkpoint_id)
    found = one_record(connection, Checkpoint, select(finetune_checkpoints).where(is_it).with_for_update())
    if found is None:
        raise CheckpointNotFoundError
    return found


def add_checkpoint(connection: Connection, company: str, checkpoint: Checkpoint) -> None:
    """Insert a checkpoint in the caller's transaction; an existing one stays as it was."""
    row = {"company": company, **checkpoint.model_dump(exclude={"report", "verdict"})}
    row |= {"report": checkpoint.model_dump(mode="json")["report"], "verdict": checkpoint.verdict.value}
    insert_one(connection, finetune_checkpoints, row)


class CollectionPointers(Repository):
    """The serving table, with optimistic locks: a change names the version it read, and does nothing on another."""

    def get(self, company: str) -> CollectionPointer | None:
        """Return the company's pointer; None before the first connection."""
        with self._database.read() as connection:
            return read_serving(connection, company)

    def adopt(self, company: str, current: ServedCollection) -> CollectionPointer:
        """Insert the pointer unless there is one, and return the stored one."""
        row = {
            "company": checked_key("company", company),
            "version": 1,
            "current": current.model_dump(mode="json"),
            "changed_at": self._clock(),
        }
        with self._database.write() as connection:
            insert_one(connection, pointer, row)
            query = select(pointer).where(pointer.c.company == company)
            return record_of(CollectionPointer, connection.execute(query).mappings().one())

    def begin(
        self,
        company: str,
        *,
        version: int,
        target: ServedCollection,
        kind: ReindexKind,
        total: int,
        note: AuditNote | None = None,
    ) -> CollectionPointer:
        """Begin a reindex that fills the target with so many points; from now on every write leaves a mark.

        The line for the audit is there exactly when the reindex is. Raises MemoryInputError when the row has changed,
        or a reindex is under way, and CheckpointNotFoundError when the target's checkpoint was deleted.
        """
        now = self._clock()
        new = Reindex(reindex_id=ids.new_id(), kind=kind, stage=ReindexStage.COPYING, total=total, started_at=now)
        row = {"company": company, **new.model_dump(include=set(reindexes.c.keys()))}
        name = WorkKey(company, ReindexPayload.task, new.reindex_id)
        item = new_item(name, ReindexPayload(company=company), now=now, lock="reindex")
        with self._database.write() as connection:
            if target.checkpoint_id is not None:
                # First, as a removal does: the second of the two sees what the other one did.
                hold_checkpoint(connection, company, target.checkpoint_id)
            values = {"phase": Phase.FILLING.value, "target": target.model_dump(mode="json"), "until": None}
            changed = self._change(connection, company, version, None, values)
            if changed is None or not add_items(connection, [item]):
                raise MemoryInputError("reindex", "another one is under way, or has just ended: see `--status`")
            connection.execute(delete(reindex_marks).where(reindex_marks.c.company == company))
            put(connection, reindexes, [row])
            if note is not None:
                append(connection, company, note, at=now)
        return changed

    def freeze(self, company: str, *, version: int, lasts: timedelta) -> CollectionPointer | None:
        """Stop the writes to copy the last differences, for so long at most; None when the row has changed."""
        new = {"phase": Phase.FROZEN.value, "until": self._clock() + lasts}
        with self._database.write() as connection:
            return self._change(connection, company, version, Phase.FILLING, new)

    def unfreeze(self, company: str, *, version: int) -> CollectionPointer | None:
        """Resume the writes without a switch; None when the row has changed."""
        with self._database.write() as connection:
            new = {"phase": Phase.FILLING.value, "until": None}
            return self._change(connection, company, version, Phase.FROZEN, new)

    def switch(self, company: str, *, version: int, settles: timedelta) -> CollectionPointer | None:
        """Make the target current, and keep the current one as previous; None when the row has changed.

        Collection, embedder and fusion weight change in this one update. Writes wait until every reader has seen it.
        """
        with self._database.write() as connection:
            found = read_serving(connection, company)
            if found is None or found.target is None:
                return None
            new = {
                "phase": Phase.SETTLING.value,
                "until": self._clock() + settles,
                "current": found.target.model_dump(mode="json"),
                "previous": found.current.model_dump(mode="json"),
                "target": None,
            }
            changed = self._change(connection, company, version, Phase.FROZEN, new)
            if changed is not None:
                values = {"stage": ReindexStage.SETTLING.value}
                connection.execute(update(reindexes).where(reindexes.c.company == company).values(values))
            return changed

    def settle(self, company: str, *, version: int) -> CollectionPointer | None:
        """End a reindex that has switched; None when the row has changed."""
        with self._database.write() as connection:
            changed = self._change(connection, company, version, Phase.SETTLING, {"phase": None, "until": None})
            if changed is not None:
                # Of a worker that slept over the end of its lease, nobody or another one holds it.
                self._end(connection, company, ReindexStage.DONE, "finish", "settle")
            return changed

    def cancel(self, company: str, *, version: int) -> CollectionPointer | None:
        """End a reindex that has not switched, and forget its target; None when the row has changed."""
        with self._database.write() as connection:
            new = {"phase": None, "until": None, "target": None}
            changed = self._change(connection, company, version, Phase.FILLING, new)
            changed = changed or self._change(connection, company, version, Phase.FROZEN, new)
            if changed is not None:
                self._end(connection, company, ReindexStage.CANCELLED, "cancel")
            return changed

    def forget_previous(self, company: str, *, version: int) -> CollectionPointer | None:
        """Forget the collection that was kept from before; None when the row has changed."""
        with self._database.write() as connection:
            return self._change(connection, company, version, None, {"previous": None})

    def _change(
        self, connection: Connection, company: str, version: int, phase: Phase | None, new: dict[str, Any]
    ) -> CollectionPointer | None:
        query = update(pointer).where(equals(pointer, company=company, version=version, phase=phase))
        query = query.values(version=version + 1, changed_at=self._clock(), **new)
        return changed(connection, CollectionPointer, query)

    def _end(self, connection: Connection, company: str, stage: ReindexStage, *events: WorkEvent) -> None:
        for event in events:
            move(connection, event, equals(work_items, company=company, kind=ReindexPayload.task), now=self._clock())
        connection.execute(update(reindexes).where(reindexes.c.company == company).values(stage=stage.value))
        connection.execute(delete(reindex_marks).where(reindex_marks.c.company == company))


class Reindexes(Work[Reindex]):
    """The reindexes table, with the last reindex of each company, and its work item."""

    _kind = ReindexPayload.task
    _table = reindexes
    _model = Reindex

    @property
    def _key(self) -> Column[Any]:
        return reindexes.c.reindex_id

    def last(self, company: str) -> Reindex | None:
        """Return the company's reindex, the last one when it has ended; None when there was none."""
        return self._one(self._rows().where(reindexes.c.company == company))

    def advance(
        self, company: str, reindex_id: str, token: str, *, stage: ReindexStage, cursor: str | None, **counts: int
    ) -> Reindex:
        """Save the progress, and add to the counts by their names. Raises LeaseLostError."""
        sums = {name: reindexes.c[name] + more for name, more in counts.items()}
        return self._leased(company, reindex_id, token, own={"stage": stage.value, "cursor": cursor, **sums})


# A writer marks before its write. The write counts only if the mark still stands after it and no comparison has begun.
# So every write that counts is compared later.

_OWNER = reindex_marks.c.owner
_TAKEN = reindex_marks.c.taken_by


class ReindexMarks(Repository):
    """The reindex_marks table, and the check that ends every write."""

    def mark(self, company: str, owners: Collection[str]) -> None:
        """Mark these owners, unless they are marked and no comparison of them has begun."""
        if not owners:
            return
        if self._database.value(select(_all_marked(company, owners))):
            return
        rows: list[Row] = [{"company": company, "owner": owner, "taken_by": None} for owner in sorted(set(owners))]
        with self._database.write() as connection:
            put(connection, reindex_marks, rows)

    def counts(self, company: str, *, version: int, owners: Collection[str] = ()) -> bool:
        """Return whether a write counts: the pointer is as it was before it, and the marks of its owners stand."""
        key = "counts", company, version, *sorted(owners)
        return self._database.remembered(key, lambda: self._is_unchanged(company, version, owners))

    def _is_unchanged(self, company: str, version: int, owners: Collection[str]) -> bool:
        which = _all_marked(company, owners), equals(pointer, company=company, version=version)
        return self._database.row(select(pointer.c.version).where(*which)) is not None

    def take(self, company: str, token: str, *, limit: int) -> tuple[str, ...]:
        """Claim marked owners to compare; those that a dead worker claimed come again."""
        free = and_(reindex_marks.c.company == company, _TAKEN.is_distinct_from(token))
        with self._database.write() as connection:
            query = select(_OWNER).where(free).order_by(_OWNER).limit(limit).with_for_update()
            owners = tuple(connection.execute(query).scalars())
            if owners:
                these = and_(reindex_marks.c.company == company, _OWNER.in_(owners))
                connection.execute(update(reindex_marks).where(these).values(taken_by=token))
        return owners

    def compared(self, company: str, token: str, owners: Collection[str]) -> None:
        """Drop the marks of owners that were compared, but for those marked anew meanwhile."""
        these = and_(reindex_marks.c.company == company, _OWNER.in_(owners), _TAKEN.is_not_distinct_from(token))
        self._database.change(delete(reindex_marks).where(these))

    def count(self, company: str) -> int:
        """Return how many owners are marked."""
        return self._database.count(reindex_marks, reindex_marks.c.company == company)


def _all_marked(company: str, owners: Collection[str]) -> ColumnElement[bool]:
    wanted = sorted(set(owners))
    if not wanted:
        return true()
    these = and_(reindex_marks.c.company == company, _OWNER.in_(wanted), _TAKEN.is_(None))
    return select(func.count()).select_from(reindex_marks).where(these).scalar_subquery() == len(wanted)
