"""The versioned log of shared knowledge: what was published and retracted, in one order for each company.

A line is committed here first, then the store follows, then the head moves up to it; searches see the head. So between
any two steps the process may die: the line holds the content, and the next process carries out what is open.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, RowMapping, and_, select, update

from memcore import ids
from memcore.ledger.database import Repository, Row, checked_key, count_rows, equals, insert_one
from memcore.ledger.rows import RecordRow, decode, encode
from memcore.ledger.tables import shared_heads, shared_log
from memcore.records import MemoryRecord

SharedKind = Literal["publish", "retract"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEntry:
    """A publication, in full but without vectors, or a retraction; versions count a company's lines from 1."""

    version: int
    kind: SharedKind
    memory_id: str
    agent_id: str
    at: datetime
    record: MemoryRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """The position of a company's log: the head, which searches see since all up to it is in the store, and its end.

    ``open_since`` is when the first version after the head was written.
    """

    head: int = 0
    last: int = 0
    open_since: datetime | None = None


#: Most lines read at once: their contents are at most 64 KiB each, and the store takes as many in one request.
MAX_LINES = 256


class SharedLog(Repository):
    """The tables shared_log and shared_heads."""

    def publish(self, company: str, record: MemoryRecord, *, once: bool = False) -> SharedEntry:
        """Write a publication down, unless it stands there already; return its line.

        A fact that was retracted, or has expired, is published anew, under an id of its own.

        The record is the publisher's, without vectors, under the id of its fact (:func:`memcore.ids.fact_id`).
        ``once``: whatever became of its last publication, leave it at that.
        """
        fact_id, agent_id = record.entry.id, checked_key("agent_id", record.entry.agent_id)
        with self._database.write() as connection:
            last = lock_shared_head(connection, company).last
            published = equals(shared_log, company=company, fact_id=fact_id, kind="publish")
            query = select(shared_log).where(published).order_by(shared_log.c.version)
            before = connection.execute(query).mappings().all()
            if before and (once or self._is_published(connection, company, before[-1])):
                return _entry(before[-1])
            if before:
                memory_id = ids.republished_id(fact_id=fact_id, times_before=len(before))
                record = replace(record, entry=record.entry.model_copy(update={"id": memory_id}))
            line = {"company": company, "version": last + 1, "kind": "publish", "memory_id": record.entry.id}
            line |= {"fact_id": fact_id, "agent_id": agent_id, "body": encode(record).body}
            return self._append(connection, line)

    def retract(self, company: str, agent_id: str, memory_id: str) -> SharedEntry | None:
        """Write a retraction down and return its line, or that of an earlier one that searches do not see yet.

        None when the agent has published nothing under this id, or searches see its retraction already.
        """
        key = checked_key("agent_id", agent_id)
        query = select(shared_log).where(shared_log.c.company == company, shared_log.c.memory_id == memory_id)
        with self._database.write() as connection:
            standing = lock_shared_head(connection, company)
            lines = {row["kind"]: row for row in connection.execute(query).mappings()}
            if "publish" not in lines or lines["publish"]["agent_id"] != key:
                return None
            if "retract" in lines:
                earlier = lines["retract"]
                return _entry(earlier) if earlier["version"] > standing.head else None
            line = {**lines["publish"], "version": standing.last + 1, "kind": "retract", "body": None}
            return self._append(connection, line)

    def standing(self, company: str) -> LogPosition:
        """Return the position of the log."""
        first_open = and_(
            shared_log.c.company == shared_heads.c.company, shared_log.c.version == shared_heads.c.head + 1
        )
        query = (
            select(shared_heads.c.head, shared_heads.c.last, shared_log.c.at.label("open_since"))
            .select_from(shared_heads.outerjoin(shared_log, first_open))
            .where(shared_heads.c.company == company)
        )
        row = self._database.row(query)
        return LogPosition(**row) if row else LogPosition()

    def lines(self, company: str, *, after: int = 0, limit: int = MAX_LINES) -> tuple[SharedEntry, ...]:
        """Return the lines that follow a version, in order; those above the head are open."""
        query = (
            select(shared_log)
            .where(shared_log.c.company == company, shared_log.c.version > after)
            .order_by(shared_log.c.version)
            .limit(min(limit, MAX_LINES))
        )
        return tuple(map(_entry, self._database.rows(query)))

    def history(self, company: str, memory_id: str) -> tuple[SharedEntry, ...]:
        """Return all lines of the fact that was once published under this id, in order; none for an unknown id."""
        published = equals(shared_log, company=company, memory_id=memory_id, kind="publish")
        named = select(shared_log.c.fact_id).where(published)
        query = (
            select(shared_log)
            .where(shared_log.c.company == company, shared_log.c.fact_id == named.scalar_subquery())
            .order_by(shared_log.c.version)
        )
        return tuple(map(_entry, self._database.rows(query)))

    def advance(self, company: str, version: int) -> None:
        """Let searches see this version, once all up to it is in the store; an older one changes nothing."""
        behind = and_(shared_heads.c.company == company, shared_heads.c.head < version)
        self._database.change(update(shared_heads).where(behind).values(head=version))

    def _append(self, connection: Connection, line: Row) -> SharedEntry:
        row = {**line, "at": self._clock()}
        connection.execute(shared_log.insert().values(row))
        head = update(shared_heads).where(shared_heads.c.company == row["company"])
        connection.execute(head.values(last=row["version"]))
        return _entry(row)

    def _is_published(self, connection: Connection, company: str, publication: RowMapping) -> bool:
        retraction = equals(shared_log, company=company, memory_id=publication["memory_id"], kind="retract")
        if count_rows(connection, shared_log, retraction):
            return False
        entry = _record(publication["body"]).entry
        return entry.expires_at is None or entry.expires_at > self._clock()


def lock_shared_head(connection: Connection, company: str) -> LogPosition:
    """Return the position of the log, and keep other writers waiting until the transaction ends.

    One writer at a time for each company: a version is given only once the one before is committed, so no search can
    see a version while an older one is still to come.
    """
    insert_one(connection, shared_heads, {"company": checked_key("company", company), "last": 0, "head": 0})
    query = select(shared_heads.c.last, shared_heads.c.head).where(shared_heads.c.company == company)
    return LogPosition(**connection.execute(query.with_for_update()).mappings().one())


def _entry(row: "RowMapping | dict[str, Any]") -> SharedEntry:
    columns = {name: row[name] for name in ("version", "kind", "memory_id", "agent_id", "at")}
    return SharedEntry(**columns, record=None if row["body"] is None else _record(row["body"]))


def _record(body: bytes) -> MemoryRecord:
    return decode(RecordRow(body, None, None, None))
