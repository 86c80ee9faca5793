"""The row that says where a company's memories are, and every change that it can see."""

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, and_, delete, select, update

from memcore import ids
from memcore.clock import Clock
from memcore.errors import MemoryInputError
from memcore.ledger.agent import checked_key
from memcore.ledger.audit import AuditNote, append
from memcore.ledger.checkpoints import hold_checkpoint
from memcore.ledger.engine import Database
from memcore.ledger.insert import insert_for
from memcore.ledger.reindex import ReindexKind, ReindexStage
from memcore.ledger.serving import Phase, ServedCollection, Serving
from memcore.ledger.serving_rows import COLUMNS, read_serving
from memcore.ledger.serving_tables import reindex_marks, reindexes, serving


class Servings:
    """The serving table. Every change names the version that it was decided on, and does nothing on another.

    Args:
        database: the ledger.
        clock: the time.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def get(self, company: str) -> Serving | None:
        """Return where the company's memories are; None when nobody has connected to them yet."""
        with self._database.read() as connection:
            return read_serving(connection, company)

    def adopt(self, company: str, current: ServedCollection) -> Serving:
        """Write down what serves unless that is known already, and return what is known."""
        row = {
            "company": checked_key("company", company),
            "version": 1,
            "current": current.model_dump(mode="json"),
            "changed_at": self._clock(),
        }
        with self._database.write() as connection:
            connection.execute(insert_for(connection, serving).values(row).on_conflict_do_nothing())
            query = select(*COLUMNS).where(serving.c.company == company)
            return Serving.model_validate(dict(connection.execute(query).mappings().one()))

    def begin(
        self,
        company: str,
        *,
        version: int,
        target: ServedCollection,
        kind: ReindexKind,
        total: int,
        note: AuditNote | None = None,
    ) -> Serving:
        """Begin to fill a collection; from now on every write leaves a mark.

        Args:
            company: whose.
            version: of the row that this was decided on.
            target: what is to serve.
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
                # First, as a removal does: whoever comes second sees what the other one did.
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

    def freeze(self, company: str, *, version: int, lasts: timedelta) -> Serving | None:
        """Stop the writes for the last differences, for so long at most; None when the row has changed."""
        with self._database.write() as connection:
            new = {"phase": Phase.FROZEN.value, "until": self._clock() + lasts}
            return self._change(connection, company, version, Phase.FILLING, new)

    def thaw(self, company: str, *, version: int) -> Serving | None:
        """Let the writes go on without a switch; None when the row has changed."""
        with self._database.write() as connection:
            new = {"phase": Phase.FILLING.value, "until": None}
            return self._change(connection, company, version, Phase.FROZEN, new)

    def switch(self, company: str, *, version: int, settles: timedelta) -> Serving | None:
        """Let the target serve, and keep what served before; None when the row has changed.

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

    def settle(self, company: str, *, version: int) -> Serving | None:
        """End a reindex that has switched; None when the row has changed."""
        with self._database.write() as connection:
            changed = self._change(connection, company, version, Phase.SETTLING, {"phase": None, "until": None})
            if changed is not None:
                self._end(connection, company, ReindexStage.DONE)
            return changed

    def cancel(self, company: str, *, version: int) -> Serving | None:
        """End a reindex that has not switched, and forget its target; None when the row has changed."""
        with self._database.write() as connection:
            new = {"phase": None, "until": None, "target": None}
            changed = self._change(connection, company, version, Phase.FILLING, new)
            changed = changed or self._change(connection, company, version, Phase.FROZEN, new)
            if changed is not None:
                self._end(connection, company, ReindexStage.CANCELLED)
            return changed

    def forget_previous(self, company: str, *, version: int) -> Serving | None:
        """Forget the collection that was kept from before; None when the row has changed."""
        with self._database.write() as connection:
            return self._change(connection, company, version, None, {"previous": None})

    def close(self) -> None:
        """Close the connections that are kept."""
        self._database.close()

    def _change(
        self, connection: Connection, company: str, version: int, phase: Phase | None, new: dict[str, Any]
    ) -> Serving | None:
        stands = and_(serving.c.company == company, serving.c.version == version, serving.c.phase == phase)
        query = update(serving).where(stands).values(version=version + 1, changed_at=self._clock(), **new)
        row = connection.execute(query.returning(*COLUMNS)).mappings().one_or_none()
        return Serving.model_validate(dict(row)) if row else None

    def _end(self, connection: Connection, company: str, stage: ReindexStage) -> None:
        values = {"stage": stage.value, "finished_at": self._clock(), "token": None, "lease_until": None}
        connection.execute(update(reindexes).where(reindexes.c.company == company).values(values))
        connection.execute(delete(reindex_marks).where(reindex_marks.c.company == company))
