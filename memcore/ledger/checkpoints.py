"""Checkpoints: what fine-tune runs left; a run writes its own in the transaction that completes it."""

from sqlalchemy import Connection, and_, delete, func, or_, select

from memcore.clock import Clock
from memcore.errors import CheckpointConflictError, CheckpointNotFoundError
from memcore.ledger.audit import AuditNote, append
from memcore.ledger.checkpoint import Checkpoint
from memcore.ledger.engine import Database
from memcore.ledger.finetune_tables import finetune_checkpoints
from memcore.ledger.insert import insert_for
from memcore.ledger.serving import CollectionUse
from memcore.ledger.serving_rows import read_serving

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
        """Take out a checkpoint's row, with a line for the audit, and return what it was; its folder stays.

        Raises:
            CheckpointNotFoundError: the id names none.
            CheckpointConflictError: its collection serves, is being filled, or is kept.
        """
        with self._database.write() as connection:
            found = hold_checkpoint(connection, company, checkpoint_id)
            # After it: a deploy holds the checkpoint before it changes this row.
            serving = read_serving(connection, company)
            if serving is not None and (use := serving.use_of(found)) is not None:
                raise CheckpointConflictError(f"checkpoint {checkpoint_id} cannot be deleted: {_ENDS[use]}")
            table = finetune_checkpoints.c
            named = and_(table.company == company, table.checkpoint_id == checkpoint_id)
            connection.execute(delete(finetune_checkpoints).where(named))
            append(connection, company, note, at=self._clock())
        return found


def hold_checkpoint(connection: Connection, company: str, checkpoint_id: str) -> Checkpoint:
    """Return a checkpoint that nobody else removes before the transaction ends. Raises CheckpointNotFoundError."""
    table = finetune_checkpoints.c
    named = and_(table.company == company, table.checkpoint_id == checkpoint_id)
    row = connection.execute(select(*_COLUMNS).where(named).with_for_update()).mappings().one_or_none()
    if row is None:
        raise CheckpointNotFoundError
    return Checkpoint.model_validate(dict(row))


def add_checkpoint(connection: Connection, company: str, checkpoint: Checkpoint) -> None:
    """Write a checkpoint within somebody's transaction; one that is there stays as it was."""
    row = {"company": company, **checkpoint.model_dump(exclude={"report", "verdict"})}
    row |= {"report": checkpoint.model_dump(mode="json")["report"], "verdict": checkpoint.verdict.value}
    connection.execute(insert_for(connection, finetune_checkpoints).values(row).on_conflict_do_nothing())
