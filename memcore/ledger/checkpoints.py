"""Checkpoints: what fine-tune runs left; a run writes its own in the transaction that completes it."""

from sqlalchemy import Connection, and_, func, or_, select

from memcore.ledger.checkpoint import Checkpoint
from memcore.ledger.engine import Database
from memcore.ledger.finetune_tables import finetune_checkpoints
from memcore.ledger.insert import insert_for

#: Most checkpoints of a page.
MAX_PAGE = 200

_COLUMNS = [finetune_checkpoints.c[name] for name in Checkpoint.model_fields]


class Checkpoints:
    """The finetune_checkpoints table; every method is one short transaction.

    Args:
        database: the ledger.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, company: str, checkpoint_id: str) -> Checkpoint | None:
        """Return the checkpoint, or None when this company has none with that id."""
        table = finetune_checkpoints.c
        query = select(*_COLUMNS).where(table.company == company, table.checkpoint_id == checkpoint_id)
        with self._database.read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        return Checkpoint.model_validate(dict(row)) if row else None

    def page(self, company: str, *, before: Checkpoint | None = None, limit: int = 50) -> tuple[Checkpoint, ...]:
        """Return at most 200 checkpoints, newest first; ``before`` is the last of the page before."""
        at, key = finetune_checkpoints.c.created_at, finetune_checkpoints.c.checkpoint_id
        query = select(*_COLUMNS).where(finetune_checkpoints.c.company == company)
        if before is not None:
            query = query.where(or_(at < before.created_at, and_(at == before.created_at, key < before.checkpoint_id)))
        query = query.order_by(at.desc(), key.desc()).limit(min(limit, MAX_PAGE))
        with self._database.read() as connection:
            return tuple(Checkpoint.model_validate(dict(row)) for row in connection.execute(query).mappings())

    def count(self, company: str) -> int:
        """Return how many a company has."""
        query = select(func.count()).where(finetune_checkpoints.c.company == company)
        with self._database.read() as connection:
            return connection.execute(query).scalar_one()


def add_checkpoint(connection: Connection, company: str, checkpoint: Checkpoint) -> None:
    """Write a checkpoint within somebody's transaction; one that is there stays as it was."""
    row = {"company": company, **checkpoint.model_dump(exclude={"report", "verdict"})}
    row |= {"report": checkpoint.model_dump(mode="json")["report"], "verdict": checkpoint.verdict.value}
    connection.execute(insert_for(connection, finetune_checkpoints).values(row).on_conflict_do_nothing())
