"""Organisation memory: facts, and a log in which each publication and retraction is a version of its fact.

A writer first increments the version in the fact's row, which locks it, and its line takes that version. So versions
have neither gaps nor doubles under concurrent writers, and the last writer's text stands.
"""

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    delete,
    func,
    literal,
    literal_column,
    or_,
    select,
    update,
)

from memcore import ids
from memcore.clock import Clock
from memcore.embedding.bm25 import Bm25Encoder
from memcore.errors import MemoryInputError, MemoryRetrievalError
from memcore.ledger.database import Database, UtcDateTime, add_new, checked_key, checked_time, insert_for
from memcore.ledger.organization import audit
from memcore.ledger.tables import org_facts, org_log, org_outbox, org_terms
from memcore.models.base import escaped
from memcore.models.memory import MAX_KEY_CHARS
from memcore.models.organization import (
    OperationLogEntry,
    OperationLogSnapshot,
    OrgFact,
    OrgFactAuthor,
    OrgFactCategory,
    OrgFactWriteRequest,
)

#: The form of the body; a reader refuses a newer one rather than guess.
_VERSION = 1


def encode(request: OrgFactWriteRequest) -> bytes:
    """Return the body of a fact: what has no column of its own."""
    body = {"version": _VERSION, "content": request.content, "tags": request.tags}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def author_row(author: OrgFactAuthor) -> dict[str, Any]:
    """Return the column of an author."""
    return author.model_dump(mode="json", exclude_defaults=True)


def fact_of(row: Mapping[str, Any]) -> OrgFact:
    """Return the fact of a row of org_facts."""
    return OrgFact.model_validate(
        {
            **_decoded(row["body"]),
            "id": row["fact_id"],
            "category": row["category"],
            "author": {name: _as_a_name(value) for name, value in row["author"].items()},
            "created_at": row["created_at"],
        }
    )


def snapshot_of(row: Mapping[str, Any]) -> OperationLogSnapshot:
    """Return the state of a row of org_facts, or of one that was read off the log."""
    return OperationLogSnapshot.model_validate(
        {
            **_decoded(row["body"]),
            "fact_id": row["fact_id"],
            "category": row["category"],
            "created_at": row["created_at"],
            "retracted_at": row["retracted_at"],
            "version": row["version"],
        }
    )


def operation_of(row: Mapping[str, Any]) -> OperationLogEntry:
    """Return the line of a row of org_log."""
    return OperationLogEntry.model_validate(
        {
            **({} if row["body"] is None else _decoded(row["body"])),
            **{f"author_{field}": value for field, value in row["author"].items()},
            "operation_id": row["operation_id"],
            "fact_id": row["fact_id"],
            "operation_type": row["operation"],
            "category": row["category"],
            "timestamp": row["at"],
            "version": row["version"],
        }
    )


def _as_a_name(value: Any) -> Any:
    # Older releases took control characters; a fact must not become unreadable for one.
    return escaped(value)[:MAX_KEY_CHARS] if isinstance(value, str) else value


def _decoded(data: bytes) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(data)
    version = body.pop("version")
    if version != _VERSION:
        raise MemoryRetrievalError(f"a fact has form {version}; this release reads form {_VERSION}")
    return body


#: Most lines read at once: their texts are at most 64 KiB each.
MAX_LINES = 64


class OrgOutbox:
    """The org_outbox table; every method is one short transaction. OrgLog writes its rows, each with its line.

    Args:
        database: the ledger.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def pending(
        self,
        company: str,
        *,
        fact_id: str | None = None,
        after: OperationLogEntry | None = None,
        limit: int = MAX_LINES,
    ) -> tuple[OperationLogEntry, ...]:
        """Return lines that the store does not show yet, oldest first, those of one fact in their order.

        Args:
            company: whose lines.
            fact_id: only this fact's.
            after: the last line of the page before.
            limit: most lines.
        """
        out, same_line = org_outbox.c, [org_log.c[name] == org_outbox.c[name] for name in ("fact_id", "version")]
        query = (
            select(org_log)
            .join_from(org_outbox, org_log, and_(*same_line))
            .where(out.company == company, org_log.c.company == company)
            .order_by(out.at, out.fact_id, out.version)
        )
        if fact_id is not None:
            query = query.where(out.fact_id == fact_id)
        if after is not None:
            at, of_fact = out.at == after.timestamp, out.fact_id == after.fact_id
            later = and_(at, or_(out.fact_id > after.fact_id, and_(of_fact, out.version > after.version)))
            query = query.where(or_(out.at > after.timestamp, later))
        with self._database.read() as connection:
            rows = connection.execute(query.limit(min(limit, MAX_LINES))).mappings()
            return tuple(operation_of(dict(row)) for row in rows)

    def count(self, company: str) -> int:
        """Return how many lines the store does not show yet."""
        query = select(func.count()).select_from(org_outbox).where(org_outbox.c.company == company)
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def shown(self, company: str, fact_id: str, version: int) -> None:
        """Note that the store shows a line; a second note changes nothing."""
        mine = (org_outbox.c.company == company) & (org_outbox.c.fact_id == fact_id)
        with self._database.write() as connection:
            connection.execute(delete(org_outbox).where(mine, org_outbox.c.version == version))


def wait_for_the_store(connection: Connection, *, company: str, fact_id: str, version: int, at: datetime) -> None:
    """Write down, in the transaction of a line, that the store has yet to show it."""
    row: dict[str, Any] = {"company": company, "fact_id": fact_id, "version": version, "at": at}
    connection.execute(org_outbox.insert().values(row))


_PUBLISHED = org_log.c.operation == "PUBLISH"


def published_facts(company: str, categories: Collection[OrgFactCategory] | None) -> ColumnElement[bool]:
    """Return the condition for facts that are published and not retracted."""
    found = and_(org_facts.c.company == company, org_facts.c.retracted_at.is_(None))
    return found if categories is None else found & org_facts.c.category.in_(sorted(categories))


def term_counts(company: str, terms: Collection[int]) -> Select[*tuple[Any, ...]]:
    """Return the statement that counts, for each of the terms, the facts that have it."""
    mine = (org_terms.c.company == company) & org_terms.c.term.in_(terms)
    return select(org_terms.c.term, func.count().label("facts")).where(mine).group_by(org_terms.c.term)


def best_facts(
    company: str, worth: Mapping[int, float], *, categories: Collection[OrgFactCategory] | None, limit: int
) -> Select[*tuple[Any, ...]]:
    """Return the statement that ranks facts by the sum of their terms' weights, each times what the term is worth."""
    relevance = func.sum(org_terms.c.weight * case(dict(worth), value=org_terms.c.term, else_=0.0))
    of_fact = and_(org_terms.c.company == org_facts.c.company, org_terms.c.fact_id == org_facts.c.fact_id)
    order = (org_facts.c.created_at.desc(), org_facts.c.fact_id)
    hits = (
        select(org_facts.c.fact_id, relevance.label("relevance"))
        .join_from(org_terms, org_facts, of_fact)
        .where(org_terms.c.company == company, org_terms.c.term.in_(worth), published_facts(company, categories))
        .group_by(org_facts.c.fact_id, org_facts.c.created_at)
        .order_by(relevance.desc(), *order)
        .limit(limit)
        .subquery()
    )
    return (
        select(org_facts, hits.c.relevance)
        .join_from(hits, org_facts, hits.c.fact_id == org_facts.c.fact_id)
        .where(org_facts.c.company == company)
        .order_by(hits.c.relevance.desc(), *order)
    )


def facts_as_of(company: str, at: datetime, *, after: str, limit: int) -> Select[*tuple[Any, ...]]:
    """Return the statement that reads off the log how each fact stood at a time, by fact id."""
    version = org_log.c.version
    ends = (
        select(
            org_log.c.fact_id,
            func.max(version).label("version"),
            func.max(version).filter(_PUBLISHED).label("published"),
            func.min(org_log.c.at).label("created_at"),
        )
        .where(org_log.c.company == company, org_log.c.at <= at, org_log.c.fact_id > after)
        .group_by(org_log.c.fact_id)
        .order_by(org_log.c.fact_id)
        .limit(limit)
        .subquery()
    )
    last, text = org_log.alias("last"), org_log.alias("text")
    retracted_at = case((last.c.operation == "RETRACT", last.c.at), else_=literal_column("NULL"))
    return (
        select(
            ends.c.fact_id,
            ends.c.version,
            ends.c.created_at,
            retracted_at.label("retracted_at"),
            text.c.category,
            text.c.body,
        )
        .join_from(ends, last, and_(last.c.fact_id == ends.c.fact_id, last.c.version == ends.c.version))
        .join(text, and_(text.c.fact_id == ends.c.fact_id, text.c.version == ends.c.published))
        .where(last.c.company == company, text.c.company == company)
        .order_by(ends.c.fact_id)
    )


#: Most rows of a page: their texts are at most 64 KiB each.
MAX_PAGE = 256


class OrgLog:
    """The tables org_log, org_facts and org_terms; every method is one short transaction.

    What a person publishes or retracts is noted in the audit, and what the vector store has yet to show in org_outbox,
    both in the transaction of the line. Nobody is asked here whether the author may write: ``LedgerOrgMemory`` in
    memcore/org does that.

    Args:
        database: the ledger.
        clock: what time it is.

    Attributes:
        outbox: what of the log the vector store does not show yet.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._encoder = Bm25Encoder()
        self.outbox = OrgOutbox(database)

    def publish(
        self, company: str, fact_id: str, request: OrgFactWriteRequest, *, author: OrgFactAuthor
    ) -> OperationLogEntry:
        """Publish a text as a fact's next version, its first one or also after a retraction; return the line.

        Raises:
            MemoryInputError: the fact has another category; it keeps the one under whose rule it was first written.
        """
        words = self._encoder.encode_document(request.content)
        key = {"company": checked_key("company", company), "fact_id": checked_key("fact_id", fact_id)}
        fact = {
            **key,
            "version": 1,
            "category": request.category.value,
            "author": author_row(author),
            "body": encode(request),
            "retracted_at": None,
        }
        with self._database.write() as connection:
            head = self._move_on(connection, fact)
            connection.execute(delete(org_terms).where(_is(org_terms, **key)))
            terms = [
                {**key, "term": term, "weight": weight}
                for term, weight in zip(words.indices, words.values, strict=True)
            ]
            add_new(connection, org_terms, terms)
            return _append(connection, "PUBLISH", {**fact, **head}, author=author)

    def retract(self, company: str, fact_id: str, *, author: OrgFactAuthor) -> OperationLogEntry | None:
        """Take back a fact and return the line; None, and nothing is written, when there is none that stands."""
        with self._database.write() as connection:
            at = _not_before(literal(self._clock(), UtcDateTime), org_facts.c.changed_at)
            query = (
                update(org_facts)
                .where(_is(org_facts, company, fact_id), org_facts.c.retracted_at.is_(None))
                .values(version=org_facts.c.version + 1, changed_at=at, retracted_at=at)
                .returning(org_facts.c.version, org_facts.c.category, org_facts.c.changed_at)
            )
            head = connection.execute(query).mappings().one_or_none()
            if head is None:
                return None
            connection.execute(delete(org_terms).where(_is(org_terms, company, fact_id)))
            line = {"company": company, "fact_id": fact_id, "author": author_row(author), "body": None}
            return _append(connection, "RETRACT", {**line, **head}, author=author)

    def deny(self, company: str, action: str, *, author: OrgFactAuthor, fact_id: str | None, reason: str) -> None:
        """Note in the audit that an author was refused.

        Args:
            company: whose facts.
            action: what was tried, ``org.write`` or ``org.retract``.
            author: who tried.
            fact_id: the fact that it was aimed at; None for one that was to be new.
            reason: the rule, in one sentence, without the text.
        """
        denied = audit.AuditVerdict.DENIED
        note = audit.AuditNote(actor=_actor(author), action=action, subject=fact_id, verdict=denied, reason=reason)
        with self._database.write() as connection:
            audit.append(connection, checked_key("company", company), note, at=self._clock())

    def head(self, company: str, fact_id: str) -> OperationLogSnapshot | None:
        """Return how a fact stands now, also one that was retracted; None when there never was one."""
        found = self._read(select(org_facts).where(_is(org_facts, company, fact_id)))
        return snapshot_of(found[0]) if found else None

    def facts(
        self,
        company: str,
        *,
        categories: Collection[OrgFactCategory] | None = None,
        offset: int = 0,
        limit: int = MAX_PAGE,
        newest_first: bool = False,
    ) -> tuple[OrgFact, ...]:
        """Return a page of the facts that stand, by the time of their first publication."""
        at = org_facts.c.created_at.desc() if newest_first else org_facts.c.created_at
        query = select(org_facts).where(published_facts(company, categories)).order_by(at, org_facts.c.fact_id)
        return tuple(map(fact_of, self._read(query.offset(offset).limit(min(limit, MAX_PAGE)))))

    def standing(self, company: str, fact_ids: Collection[str]) -> dict[str, tuple[int, OrgFact]]:
        """Return those of the facts that stand, by id, each with the version of its text."""
        found = self._read(
            select(org_facts).where(published_facts(company, None), org_facts.c.fact_id.in_(sorted(fact_ids)))
        )
        return {row["fact_id"]: (row["version"], fact_of(row)) for row in found}

    def count(self, company: str, *, categories: Collection[OrgFactCategory] | None = None) -> int:
        """Return how many facts stand."""
        query = select(func.count()).select_from(org_facts).where(published_facts(company, categories))
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def spread(self, company: str, terms: Collection[int]) -> dict[int, int]:
        """Return for each of the terms that facts have, how many facts have it."""
        with self._database.read() as connection:
            return {row.term: row.facts for row in connection.execute(term_counts(company, terms))}

    def search(
        self,
        company: str,
        worth: Mapping[int, float],
        *,
        categories: Collection[OrgFactCategory] | None = None,
        limit: int = MAX_PAGE,
    ) -> tuple[tuple[float, OrgFact], ...]:
        """Return the facts that have one of the terms, best first, each with its relevance.

        Args:
            company: whose facts.
            worth: what each term of the question is worth; none is found by no term.
            categories: only these.
            limit: most facts.
        """
        if not worth:
            return ()
        found = self._read(best_facts(company, worth, categories=categories, limit=min(limit, MAX_PAGE)))
        return tuple((row["relevance"], fact_of(row)) for row in found)

    def snapshot_at(
        self, company: str, at: datetime, *, after: str = "", limit: int = MAX_PAGE
    ) -> tuple[OperationLogSnapshot, ...]:
        """Return how the facts stood at a time, as the log tells, also those retracted by then; by fact id.

        Args:
            company: whose facts.
            at: the time, inclusive.
            after: the last fact id of the page before.
            limit: most facts.
        """
        checked_time("at", at)
        return tuple(map(snapshot_of, self._read(facts_as_of(company, at, after=after, limit=min(limit, MAX_PAGE)))))

    def operations(
        self, company: str, fact_id: str, *, after: int = 0, limit: int = MAX_PAGE
    ) -> tuple[OperationLogEntry, ...]:
        """Return a fact's lines that follow a version, in order."""
        query = select(org_log).where(_is(org_log, company, fact_id), org_log.c.version > after)
        return tuple(map(operation_of, self._read(query.order_by(org_log.c.version).limit(min(limit, MAX_PAGE)))))

    def newest(
        self, company: str, *, fact_id: str | None = None, until: datetime | None = None, limit: int = MAX_PAGE
    ) -> tuple[OperationLogEntry, ...]:
        """Return the newest lines of all facts or of one, up to a time inclusive, newest first."""
        query = select(org_log).where(org_log.c.company == company)
        if fact_id is not None:
            query = query.where(org_log.c.fact_id == fact_id)
        if until is not None:
            query = query.where(org_log.c.at <= checked_time("until", until))
        order = (org_log.c.at.desc(), org_log.c.fact_id, org_log.c.version.desc())
        return tuple(map(operation_of, self._read(query.order_by(*order).limit(min(limit, MAX_PAGE)))))

    def _move_on(self, connection: Connection, fact: Mapping[str, Any]) -> Mapping[str, Any]:
        # Asked for in here: SQLite's writers have waited for each other by now.
        at = self._clock()
        fresh = insert_for(connection, org_facts).values(**fact, created_at=at, changed_at=at)
        new = fresh.excluded
        query = fresh.on_conflict_do_update(
            index_elements=[org_facts.c.company, org_facts.c.fact_id],
            set_={
                "version": org_facts.c.version + 1,
                "author": new.author,
                "body": new.body,
                "changed_at": _not_before(new.changed_at, org_facts.c.changed_at),
                "retracted_at": None,
            },
            where=org_facts.c.category == new.category,
        ).returning(org_facts.c.version, org_facts.c.changed_at)
        head = connection.execute(query).mappings().one_or_none()
        if head is None:
            raise MemoryInputError("category", "is not that of the fact; a fact keeps its category")
        return dict(head)

    def _read(self, query: Select[*tuple[Any, ...]]) -> list[Mapping[str, Any]]:
        with self._database.read() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]


def _append(
    connection: Connection, operation: str, fact: Mapping[str, Any], *, author: OrgFactAuthor
) -> OperationLogEntry:
    kept = ("company", "fact_id", "version", "category", "author", "body")
    line = {name: fact[name] for name in kept}
    company, fact_id, at = fact["company"], fact["fact_id"], fact["changed_at"]
    line |= {"operation_id": ids.new_id(), "operation": operation, "at": at}
    connection.execute(org_log.insert().values(line))
    wait_for_the_store(connection, company=company, fact_id=fact_id, version=fact["version"], at=at)
    if author.is_human:
        action = "org.write" if operation == "PUBLISH" else "org.retract"
        done = audit.AuditVerdict.DONE
        note = audit.AuditNote(actor=_actor(author), action=action, subject=fact_id, verdict=done)
        audit.append(connection, company, note, at=at)
    return operation_of(line)


def _actor(author: OrgFactAuthor) -> str:
    return audit.person(author.name) if author.is_human else audit.agent(author.agent_id or "")


def _is(table: Any, company: str, fact_id: str) -> ColumnElement[bool]:
    mine: ColumnElement[bool] = (table.c.company == company) & (table.c.fact_id == fact_id)
    return mine


def _not_before(time: ColumnElement[Any], earlier: ColumnElement[Any]) -> ColumnElement[Any]:
    # Clocks of machines differ: without this a version could be older than the one that it follows.
    return case((time > earlier, time), else_=earlier)
