"""Organisation memory: facts, and a log in which each publication and retraction is a version of its fact.

A writer first increments the version in the fact's row, which locks it, and its line takes that version. So versions
have neither gaps nor doubles under concurrent writers, and the last writer's text stands.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    and_,
    case,
    delete,
    false,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
    update,
)

from memcore import ids
from memcore.clock import Clock
from memcore.embedding.bm25 import Bm25Encoder
from memcore.errors import MemoryInputError
from memcore.ledger.access.distrusts import Distrusts
from memcore.ledger.database import (
    Database,
    Repository,
    UtcDateTime,
    add_new,
    checked_key,
    checked_time,
    equals,
    insert_for,
    later_of,
    record_of,
)
from memcore.ledger.organization import audit
from memcore.ledger.rows import pack, unpack
from memcore.ledger.tables import org_facts, org_log, org_outbox, org_terms
from memcore.models.base import escaped
from memcore.models.distrust import DistrustRule
from memcore.models.memory import MAX_KEY_CHARS
from memcore.models.organization import (
    EVERYBODY,
    WHOLE,
    FactView,
    OperationLogEntry,
    OperationLogSnapshot,
    OrgFact,
    OrgFactAuthor,
    OrgFactCategory,
    OrgFactWriteRequest,
    origin_of,
)


def _author_row(author: OrgFactAuthor, principal: str | None) -> dict[str, Any]:
    by = {} if principal is None else {"principal": principal}
    return author.model_dump(mode="json", exclude_defaults=True) | by


def _fact(row: Mapping[Any, Any]) -> OrgFact:
    author = {name: _as_a_name(value) for name, value in row["author"].items()}
    return record_of(OrgFact, row, **unpack("a fact", row["body"]), id=row["fact_id"], author=author)


def _snapshot(row: Mapping[Any, Any]) -> OperationLogSnapshot:
    """Return the state of a row of org_facts, or of one that was read off the log."""
    return record_of(OperationLogSnapshot, row, **unpack("a fact", row["body"]))


def _operation(row: Mapping[Any, Any]) -> OperationLogEntry:
    body = {} if row["body"] is None else unpack("a fact", row["body"])
    author = {f"author_{field}": value for field, value in row["author"].items()}
    return record_of(OperationLogEntry, row, **body, **author, operation_type=row["operation"], timestamp=row["at"])


def _as_a_name(value: Any) -> Any:
    # Older releases took control characters; a fact must not become unreadable for one.
    return escaped(value)[:MAX_KEY_CHARS] if isinstance(value, str) else value


#: Most lines read at once: their texts are at most 64 KiB each.
MAX_LINES = 64


_PUBLISHED = org_log.c.operation == "PUBLISH"


def _published_facts(
    company: str, categories: Collection[OrgFactCategory] | None, view: FactView
) -> ColumnElement[bool]:
    """Return the condition for facts that are published and not retracted, and that this reader is shown."""
    found = and_(org_facts.c.company == company, org_facts.c.retracted_at.is_(None), _is_shown(org_facts, view))
    return found if categories is None else found & org_facts.c.category.in_(sorted(categories))


def _is_by(table: FromClause, authors: Collection[bool]) -> ColumnElement[bool]:
    """Return the condition for texts of these kinds of authors; no condition for everybody's."""
    is_human = func.coalesce(table.c.author["is_human"].as_boolean(), false())
    return true() if set(authors) >= EVERYBODY else or_(false(), *(is_human == each for each in authors))


def _is_shown(table: FromClause, view: FactView) -> ColumnElement[bool]:
    """Return the condition for texts that a reader is shown."""
    by = _is_by(table, view.authors)
    return by if view.marks or not view.rules else by & ~_is_distrusted(table, view.rules)


def _is_distrusted(table: FromClause, rules: Collection[DistrustRule]) -> ColumnElement[bool]:
    """Return the condition for texts that rules take, as these take what the store shows of them: no agent's is one."""
    return or_(
        false(),
        *(_is_taken(table, rule) for rule in rules if not (rule.agent_id or rule.session_id or rule.memory_id)),
    )


def _is_taken(table: FromClause, rule: DistrustRule) -> ColumnElement[bool]:
    kinds = [each for each in EVERYBODY if rule.channel in {None, *origin_of(is_human=each).channels}]
    met = [_is_by(table, kinds)]
    if rule.principal is not None:
        met.append(func.coalesce(table.c.author["principal"].as_string(), "") == rule.principal)
    if rule.source is not None:
        met.append(table.c.fact_id == rule.source)
    if rule.since or rule.until:
        at = table.c.at if "at" in table.c else _said_at(table)
        met += [at >= rule.since] if rule.since else []
        met += [at < rule.until] if rule.until else []
    return and_(*met)


def _said_at(table: FromClause) -> ColumnElement[Any]:
    """Return when the text was published that a fact has, also one that was retracted since."""
    its = and_(org_log.c.company == table.c.company, org_log.c.fact_id == table.c.fact_id, _PUBLISHED)
    return select(func.max(org_log.c.at)).where(its).scalar_subquery()


def _marked(table: FromClause, view: FactView) -> ColumnElement[bool]:
    """Return the column that marks what is distrusted; all that other readers are shown is not."""
    return (_is_distrusted(table, view.rules) if view.marks else false()).label("distrusted")


#: Most rows of a page: their texts are at most 64 KiB each.
MAX_PAGE = 256


class OrgLog(Repository):
    """The tables org_log, org_facts, org_terms and org_outbox.

    What a person publishes or retracts is noted in the audit, and what the vector store has yet to show in org_outbox,
    both in the transaction of the line. Nobody is asked here whether the author may write: ``LedgerOrgMemory`` in
    memcore/org does that.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        super().__init__(database, clock=clock)
        self._distrusts = Distrusts(database, clock=clock)

    def view(self, company: str, *, authors: frozenset[bool] = EVERYBODY, marks: bool = False) -> FactView:
        """Return what a reader is shown now of these kinds of authors, with the distrusts in force."""
        rules = tuple(each.rule for each in self._distrusts.in_force(company))
        return FactView(authors=authors, rules=rules, marks=marks)

    def publish(
        self,
        company: str,
        fact_id: str,
        request: OrgFactWriteRequest,
        *,
        author: OrgFactAuthor,
        principal: str | None = None,
    ) -> OperationLogEntry:
        """Publish a text as a fact's next version, its first one or also after a retraction; return the line.

        ``principal`` is the id of the key that writes it, None in a process of the installation itself.
        Raises MemoryInputError when the fact has another category: it keeps the one that it was first written with.
        """
        words = Bm25Encoder().encode_document(request.content)
        key = {"company": checked_key("company", company), "fact_id": checked_key("fact_id", fact_id)}
        fact = {
            **key,
            "version": 1,
            "category": request.category.value,
            "author": _author_row(author, principal),
            "body": pack("content", {"content": request.content, "tags": request.tags}),
            "retracted_at": None,
        }
        with self._database.write() as connection:
            head = self._move_on(connection, fact)
            connection.execute(delete(org_terms).where(equals(org_terms, **key)))
            terms = [
                {**key, "term": term, "weight": weight}
                for term, weight in zip(words.indices, words.values, strict=True)
            ]
            add_new(connection, org_terms, terms)
            return _append(connection, "PUBLISH", {**fact, **head}, author=author)

    def retract(
        self, company: str, fact_id: str, *, author: OrgFactAuthor, reason: str | None = None
    ) -> OperationLogEntry | None:
        """Take back a fact and return the line; None, and nothing is written, when there is none that stands."""
        with self._database.write() as connection:
            # Clocks of machines differ: without this a version could be older than the one that it follows.
            at = later_of(literal(self._clock(), UtcDateTime), org_facts.c.changed_at)
            query = (
                update(org_facts)
                .where(equals(org_facts, company=company, fact_id=fact_id), org_facts.c.retracted_at.is_(None))
                .values(version=org_facts.c.version + 1, changed_at=at, retracted_at=at)
                .returning(org_facts.c.version, org_facts.c.category, org_facts.c.changed_at)
            )
            head = connection.execute(query).mappings().one_or_none()
            if head is None:
                return None
            connection.execute(delete(org_terms).where(equals(org_terms, company=company, fact_id=fact_id)))
            line = {"company": company, "fact_id": fact_id, "author": _author_row(author, None), "body": None}
            return _append(connection, "RETRACT", {**line, **head}, author=author, reason=reason)

    def deny(self, company: str, action: str, *, author: OrgFactAuthor, fact_id: str | None, reason: str) -> None:
        """Note in the audit that an author was refused; the reason is the rule, without the text of the fact."""
        denied = audit.AuditVerdict.DENIED
        note = audit.AuditNote(actor=_actor(author), action=action, subject=fact_id, verdict=denied, reason=reason)
        with self._database.write() as connection:
            audit.append(connection, checked_key("company", company), note, at=self._clock())

    def pending(
        self, company: str, *, fact_id: str | None = None, after: OperationLogEntry | None = None
    ) -> tuple[OperationLogEntry, ...]:
        """Return lines that the store does not show yet, oldest first, those of one fact in their order."""
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
        return tuple(map(_operation, self._database.rows(query.limit(MAX_LINES))))

    def shown(self, company: str, fact_id: str, version: int) -> None:
        """Note that the store shows a line; a second note changes nothing."""
        line = equals(org_outbox, company=company, fact_id=fact_id, version=version)
        self._database.change(delete(org_outbox).where(line))

    def head(self, company: str, fact_id: str, *, view: FactView = WHOLE) -> OperationLogSnapshot | None:
        """Return how a fact stands now, also one that was retracted; None when there is none that this view shows."""
        its = equals(org_facts, company=company, fact_id=fact_id) & _is_shown(org_facts, view)
        row = self._database.row(select(org_facts, _marked(org_facts, view)).where(its))
        return _snapshot(row) if row else None

    def facts(
        self,
        company: str,
        *,
        categories: Collection[OrgFactCategory] | None = None,
        offset: int = 0,
        limit: int = MAX_PAGE,
        newest_first: bool = False,
        view: FactView = WHOLE,
    ) -> tuple[OrgFact, ...]:
        """Return a page of the facts that stand, by the time of their first publication."""
        at = org_facts.c.created_at.desc() if newest_first else org_facts.c.created_at
        stand = _published_facts(company, categories, view)
        query = select(org_facts, _marked(org_facts, view)).where(stand).order_by(at, org_facts.c.fact_id)
        return tuple(map(_fact, self._database.rows(query.offset(offset).limit(min(limit, MAX_PAGE)))))

    def standing(
        self, company: str, fact_ids: Collection[str], *, view: FactView = WHOLE
    ) -> dict[str, tuple[int, OrgFact]]:
        """Return those of the facts that stand, by id, each with the version of its text."""
        named = org_facts.c.fact_id.in_(sorted(fact_ids))
        shown = _published_facts(company, None, view)
        found = self._database.rows(select(org_facts, _marked(org_facts, view)).where(shown, named))
        return {row["fact_id"]: (row["version"], _fact(row)) for row in found}

    def count(
        self,
        company: str,
        *,
        categories: Collection[OrgFactCategory] | None = None,
        view: FactView = WHOLE,
    ) -> int:
        """Return how many facts stand."""
        return self._database.count(org_facts, _published_facts(company, categories, view))

    def spread(self, company: str, terms: Collection[int]) -> dict[int, int]:
        """Return for each of the terms that facts have, how many facts have it."""
        query = select(org_terms.c.term, func.count().label("facts")).group_by(org_terms.c.term)
        query = query.where(org_terms.c.company == company, org_terms.c.term.in_(terms))
        return {row["term"]: row["facts"] for row in self._database.rows(query)}

    def search(
        self,
        company: str,
        worth: Mapping[int, float],
        *,
        categories: Collection[OrgFactCategory] | None = None,
        limit: int = MAX_PAGE,
        view: FactView = WHOLE,
    ) -> tuple[tuple[float, OrgFact], ...]:
        """Return the facts that have one of the terms, best first, each with its relevance.

        ``worth`` is what each term of the question is worth; none is found by no term.
        """
        if not worth:
            return ()
        relevance = func.sum(org_terms.c.weight * case(dict(worth), value=org_terms.c.term, else_=0.0))
        of_fact = and_(org_terms.c.company == org_facts.c.company, org_terms.c.fact_id == org_facts.c.fact_id)
        order = (org_facts.c.created_at.desc(), org_facts.c.fact_id)
        hits = (
            select(org_facts.c.fact_id, relevance.label("relevance"))
            .join_from(org_terms, org_facts, of_fact)
            .where(org_terms.c.company == company, org_terms.c.term.in_(worth))
            .where(_published_facts(company, categories, view))
            .group_by(org_facts.c.fact_id, org_facts.c.created_at)
            .order_by(relevance.desc(), *order)
            .limit(min(limit, MAX_PAGE))
            .subquery()
        )
        query = (
            select(org_facts, hits.c.relevance, _marked(org_facts, view))
            .join_from(hits, org_facts, hits.c.fact_id == org_facts.c.fact_id)
            .where(org_facts.c.company == company)
            .order_by(hits.c.relevance.desc(), *order)
        )
        found = self._database.rows(query)
        return tuple((row["relevance"], _fact(row)) for row in found)

    def snapshot_at(
        self,
        company: str,
        at: datetime,
        *,
        after: str = "",
        limit: int = MAX_PAGE,
        view: FactView = WHOLE,
    ) -> tuple[OperationLogSnapshot, ...]:
        """Return how the facts stood at a time, inclusive, as the log tells, also those retracted by then; by fact id.

        ``after`` is the last fact id of the page before; what the ``view`` does not show has no place on a page.
        """
        checked_time("at", at)
        version, most = org_log.c.version, min(limit, MAX_PAGE)
        heads = (
            select(
                org_log.c.fact_id,
                func.max(version).label("version"),
                func.max(version).filter(_PUBLISHED).label("published"),
                func.min(org_log.c.at).label("created_at"),
            )
            .where(org_log.c.company == company, org_log.c.at <= at, org_log.c.fact_id > after)
            .group_by(org_log.c.fact_id)
            .order_by(org_log.c.fact_id)
        )
        # Else a page of which nothing is shown would end the pages.
        ends = (heads.limit(most) if view.is_whole else heads).subquery()
        last, text = org_log.alias("last"), org_log.alias("text")
        retracted_at = case((last.c.operation == "RETRACT", last.c.at), else_=literal_column("NULL"))
        query = (
            select(
                ends.c.fact_id,
                ends.c.version,
                ends.c.created_at,
                retracted_at.label("retracted_at"),
                text.c.category,
                text.c.body,
                _marked(text, view),
            )
            .join_from(ends, last, and_(last.c.fact_id == ends.c.fact_id, last.c.version == ends.c.version))
            .join(text, and_(text.c.fact_id == ends.c.fact_id, text.c.version == ends.c.published))
            .where(last.c.company == company, text.c.company == company, _is_shown(text, view))
            .order_by(ends.c.fact_id)
            .limit(most)
        )
        return tuple(map(_snapshot, self._database.rows(query)))

    def operations(
        self, company: str, fact_id: str, *, after: int = 0, view: FactView = WHOLE
    ) -> tuple[OperationLogEntry, ...]:
        """Return a fact's lines that follow a version, in order."""
        its = equals(org_log, company=company, fact_id=fact_id)
        query = select(org_log, _marked(org_log, view)).where(its, org_log.c.version > after, _is_shown(org_log, view))
        return tuple(map(_operation, self._database.rows(query.order_by(org_log.c.version).limit(MAX_PAGE))))

    def newest(
        self,
        company: str,
        *,
        fact_id: str | None = None,
        until: datetime | None = None,
        limit: int = MAX_PAGE,
        view: FactView = WHOLE,
    ) -> tuple[OperationLogEntry, ...]:
        """Return the newest lines of all facts or of one, up to a time inclusive, newest first."""
        query = select(org_log, _marked(org_log, view)).where(org_log.c.company == company, _is_shown(org_log, view))
        if fact_id is not None:
            query = query.where(org_log.c.fact_id == fact_id)
        if until is not None:
            query = query.where(org_log.c.at <= checked_time("until", until))
        order = (org_log.c.at.desc(), org_log.c.fact_id, org_log.c.version.desc())
        return tuple(map(_operation, self._database.rows(query.order_by(*order).limit(min(limit, MAX_PAGE)))))

    def _move_on(self, connection: Connection, fact: Mapping[str, Any]) -> Mapping[str, Any]:
        # Asked for in here: SQLite's writers have waited for each other by now.
        at = self._clock()
        fresh = insert_for(connection, org_facts).values(**fact, created_at=at, changed_at=at)
        new = fresh.excluded
        query = fresh.on_conflict_do_update(
            index_elements=["company", "fact_id"],
            set_={
                "version": org_facts.c.version + 1,
                "author": new.author,
                "body": new.body,
                "changed_at": later_of(new.changed_at, org_facts.c.changed_at),
                "retracted_at": None,
            },
            where=org_facts.c.category == new.category,
        ).returning(org_facts.c.version, org_facts.c.changed_at)
        head = connection.execute(query).mappings().one_or_none()
        if head is None:
            raise MemoryInputError("category", "is not that of the fact; a fact keeps its category")
        return dict(head)


def _append(
    connection: Connection,
    operation: str,
    fact: Mapping[str, Any],
    *,
    author: OrgFactAuthor,
    reason: str | None = None,
) -> OperationLogEntry:
    kept = ("company", "fact_id", "version", "category", "author", "body")
    line = {name: fact[name] for name in kept}
    company, fact_id, at = fact["company"], fact["fact_id"], fact["changed_at"]
    line |= {"operation_id": ids.new_id(), "operation": operation, "at": at}
    connection.execute(org_log.insert().values(line))
    waiting = {"company": company, "fact_id": fact_id, "version": fact["version"], "at": at}
    connection.execute(org_outbox.insert().values(waiting))
    if author.is_human:
        action = "org.write" if operation == "PUBLISH" else "org.retract"
        done = audit.AuditVerdict.DONE
        note = audit.AuditNote(actor=_actor(author), action=action, subject=fact_id, verdict=done, reason=reason)
        audit.append(connection, company, note, at=at)
    return _operation(line)


def _actor(author: OrgFactAuthor) -> str:
    return audit.person(author.name) if author.is_human else audit.agent(author.agent_id or "")
