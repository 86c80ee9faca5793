"""Checkpoints of the embedder, and the pointer to a company's active collection."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pydantic import Field
from sqlalchemy import Connection, and_, delete, func, or_, select, update

from memcore import ids
from memcore.clock import Clock
from memcore.embedding.protocol import EmbedderIdentity
from memcore.embedding.selection import EmbedderChoice
from memcore.errors import CheckpointConflictError, CheckpointNotFoundError, MemoryInputError
from memcore.ledger.database import Database, checked_key, insert_for
from memcore.ledger.embedders.reindexes import ReindexKind, ReindexStage
from memcore.ledger.organization.audit import AuditNote, append
from memcore.ledger.tables import finetune_checkpoints, pointer, reindex_marks, reindexes
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.memory import BoundedTime


class Verdict(StrEnum):
    """The verdict of the promotion gate."""

    #: It retrieves better than its base model.
    PROMOTED = "promoted"
    #: It does not, and is kept for inspection.
    REJECTED = "rejected"


class Checkpoint(Frozen):
    """A checkpoint's row.

    Attributes:
        checkpoint_id: deterministic (memcore.ids.checkpoint_id): a run has one.
        model_path: its folder.
        kind: ``transformer`` or ``static``.
        base_model: what it was trained from.
        dims: length of its vectors.
        sha256: over its files.
        size_bytes: of its files.
        doc_count: different passages that were trained on or measured by.
        report: what the evaluation found (memcore.finetune.evaluate) as JSON.
        verdict: the gate's verdict.
        reason: why, in one sentence.
    """

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
        name: of the collection in the store.
        generation: 1 for the first, and one more with each that a reindex makes.
        identity: whose vectors lie in it.
        choice: how that embedder is loaded, without a server's address or key.
        text_template: the text that is embedded and indexed.
        term_weighting: how terms count in the sparse vectors.
        dense_weight: share of the vectors in a weighted fusion; None leaves it to the policy.
        checkpoint_id: of the checkpoint that was deployed to fill it; None for any other embedder.
    """

    name: NotBlankStr
    generation: int = Field(default=1, ge=1)
    identity: EmbedderIdentity
    choice: EmbedderChoice
    text_template: str
    term_weighting: NotBlankStr
    dense_weight: float | None = Field(default=None, ge=0.0, le=1.0)
    checkpoint_id: NotBlankStr | None = None

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


class Phase(StrEnum):
    """The phase of a reindex, which decides whether writes wait."""

    #: The new collection is being filled: each write names whose memories it touches.
    FILLING = "filling"
    #: The last differences are carried over: writes wait.
    FROZEN = "frozen"
    #: Switched: writes wait until every reader has seen it.
    SETTLING = "settling"


class CollectionPointer(Frozen):
    """The one row that names a company's active collection.

    Attributes:
        version: one more with every change of the row, so that a writer sees whether it has changed under its write.
        current: what is read and written.
        target: what is being filled to become current.
        previous: what was current before, kept for going back to it.
        phase: what is under way; None for nothing.
        until: when writes go on, in the phases in which they wait.
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


#: The columns that are read.
COLUMNS = [pointer.c[name] for name in CollectionPointer.model_fields]


def read_serving(connection: Connection, company: str) -> CollectionPointer | None:
    """Return the company's pointer; None before the first connection."""
    row = connection.execute(select(*COLUMNS).where(pointer.c.company == company)).mappings().one_or_none()
    return CollectionPointer.model_validate(dict(row)) if row else None


#: Most checkpoints of a page.
MAX_PAGE = 200

_COLUMNS = [finetune_checkpoints.c[name] for name in Checkpoint.model_fields]

#: What ends each use of a checkpoint.
_ENDS = {
    CollectionUse.SERVES: "it serves; `memtend finetune rollback` goes back to what served before",
    CollectionUse.FILLING: "it is being deployed; `memtend reindex --cancel` ends that",
    CollectionUse.KEPT: "its collection is kept for going back; `memtend reindex --drop-old` first",
}


class Checkpoints:
    """The finetune_checkpoints table; every method is one short transaction.

    Args:
        database: the ledger.
        clock: the time.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def get(self, company: str, checkpoint_id: str) -> Checkpoint | None:
        """Return the checkpoint, or None when this company has none with that id."""
        table = finetune_checkpoints.c
        query = select(*_COLUMNS).where(table.company == company, table.checkpoint_id == checkpoint_id)
        with self._database.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return Checkpoint.model_validate(dict(row)) if row else None

    def page(
        self, company: str, *, before: Checkpoint | None = None, limit: int = 50, offset: int = 0
    ) -> tuple[Checkpoint, ...]:
        """Return at most 200 checkpoints, newest first; ``before`` is the last of the page before."""
        at, key = finetune_checkpoints.c.created_at, finetune_checkpoints.c.checkpoint_id
        query = select(*_COLUMNS).where(finetune_checkpoints.c.company == company)
        if before is not None:
            query = query.where(or_(at < before.created_at, and_(at == before.created_at, key < before.checkpoint_id)))
        query = query.order_by(at.desc(), key.desc()).limit(min(limit, MAX_PAGE)).offset(offset)
        with self._database.read() as connection:
            return tuple(Checkpoint.model_validate(dict(row)) for row in connection.execute(query).mappings())

    def count(self, company: str) -> int:
        """Return how many a company has."""
        query = select(func.count()).where(finetune_checkpoints.c.company == company)
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()

    def remove(self, company: str, checkpoint_id: str, *, note: AuditNote) -> Checkpoint:
        """Delete a checkpoint's row, with a line for the audit, and return it; its folder stays.

        Raises:
            CheckpointNotFoundError: the id names none.
            CheckpointConflictError: its collection serves, is being filled, or is kept.
        """
        with self._database.write() as connection:
            found = hold_checkpoint(connection, company, checkpoint_id)
            # After it: a deploy holds the checkpoint before it changes this row.
            pointer = read_serving(connection, company)
            if pointer is not None and (use := pointer.use_of(found)) is not None:
                raise CheckpointConflictError(f"checkpoint {checkpoint_id} cannot be deleted: {_ENDS[use]}")
            table = finetune_checkpoints.c
            named = and_(table.company == company, table.checkpoint_id == checkpoint_id)
            connection.execute(delete(finetune_checkpoints).where(named))
            append(connection, company, note, at=self._clock())
        return found


def hold_checkpoint(connection: Connection, company: str, checkpoint_id: str) -> Checkpoint:
    """Lock a checkpoint until the transaction ends, and return it. Raises CheckpointNotFoundError."""
    table = finetune_checkpoints.c
    named = and_(table.company == company, table.checkpoint_id == checkpoint_id)
    row = connection.execute(select(*_COLUMNS).where(named).with_for_update()).mappings().one_or_none()
    if row is None:
        raise CheckpointNotFoundError
    return Checkpoint.model_validate(dict(row))


def add_checkpoint(connection: Connection, company: str, checkpoint: Checkpoint) -> None:
    """Insert a checkpoint in the caller's transaction; an existing one stays as it was."""
    row = {"company": company, **checkpoint.model_dump(exclude={"report", "verdict"})}
    row |= {"report": checkpoint.model_dump(mode="json")["report"], "verdict": checkpoint.verdict.value}
    connection.execute(insert_for(connection, finetune_checkpoints).values(row).on_conflict_do_nothing())


class CollectionPointers:
    """The serving table, with optimistic locks: a change names the version that it read, and does nothing on another.

    Args:
        database: the ledger.
        clock: the time.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

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
            connection.execute(insert_for(connection, pointer).values(row).on_conflict_do_nothing())
            query = select(*COLUMNS).where(pointer.c.company == company)
            return CollectionPointer.model_validate(dict(connection.execute(query).mappings().one()))

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
        """Begin a reindex that fills the target; from now on every write leaves a mark.

        Args:
            company: whose.
            version: of the row that this was decided on.
            target: the collection to fill.
            kind: where it leads.
            total: points that there are.
            note: a line for the audit, which is there exactly when the reindex is.

        Raises:
            MemoryInputError: the row has changed, or a reindex is under way.
            CheckpointNotFoundError: the target's checkpoint was deleted.
        """
        now = self._clock()
        row = {
            "reindex_id": ids.new_id(),
            "kind": kind.value,
            "stage": ReindexStage.COPYING.value,
            "cursor": None,
            **dict.fromkeys(("looked_at", "written", "passed_over", "freezes"), 0),
            "total": total,
            "token": None,
            "lease_until": None,
            "rung_at": now,
            "started_at": now,
            "finished_at": None,
            "trouble": None,
        }
        with self._database.write() as connection:
            if target.checkpoint_id is not None:
                # First, as a removal does: the second of the two sees what the other one did.
                hold_checkpoint(connection, company, target.checkpoint_id)
            new = {"phase": Phase.FILLING.value, "target": target.model_dump(mode="json"), "until": None}
            changed = self._change(connection, company, version, None, new)
            if changed is None:
                raise MemoryInputError("reindex", "another one is under way, or has just ended: see `--status`")
            connection.execute(delete(reindex_marks).where(reindex_marks.c.company == company))
            statement = insert_for(connection, reindexes).values(company=company, **row)
            connection.execute(statement.on_conflict_do_update(index_elements=["company"], set_=row))
            if note is not None:
                append(connection, company, note, at=now)
        return changed

    def freeze(self, company: str, *, version: int, lasts: timedelta) -> CollectionPointer | None:
        """Stop the writes to copy the last differences, for so long at most; None when the row has changed."""
        with self._database.write() as connection:
            new = {"phase": Phase.FROZEN.value, "until": self._clock() + lasts}
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
                self._end(connection, company, ReindexStage.DONE)
            return changed

    def cancel(self, company: str, *, version: int) -> CollectionPointer | None:
        """End a reindex that has not switched, and forget its target; None when the row has changed."""
        with self._database.write() as connection:
            new = {"phase": None, "until": None, "target": None}
            changed = self._change(connection, company, version, Phase.FILLING, new)
            changed = changed or self._change(connection, company, version, Phase.FROZEN, new)
            if changed is not None:
                self._end(connection, company, ReindexStage.CANCELLED)
            return changed

    def forget_previous(self, company: str, *, version: int) -> CollectionPointer | None:
        """Forget the collection that was kept from before; None when the row has changed."""
        with self._database.write() as connection:
            return self._change(connection, company, version, None, {"previous": None})

    def close(self) -> None:
        """Close the connections that are kept."""
        self._database.close()

    def _change(
        self, connection: Connection, company: str, version: int, phase: Phase | None, new: dict[str, Any]
    ) -> CollectionPointer | None:
        is_current = and_(pointer.c.company == company, pointer.c.version == version, pointer.c.phase == phase)
        query = update(pointer).where(is_current).values(version=version + 1, changed_at=self._clock(), **new)
        row = connection.execute(query.returning(*COLUMNS)).mappings().one_or_none()
        return CollectionPointer.model_validate(dict(row)) if row else None

    def _end(self, connection: Connection, company: str, stage: ReindexStage) -> None:
        values = {"stage": stage.value, "finished_at": self._clock(), "token": None, "lease_until": None}
        connection.execute(update(reindexes).where(reindexes.c.company == company).values(values))
        connection.execute(delete(reindex_marks).where(reindex_marks.c.company == company))
