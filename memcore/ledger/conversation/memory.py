"""The memory of owners: facts, arcs and rules. What a step writes is one transaction, fenced by the owner's version."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, Table, func, select, update

from memcore.ledger.conversation.identity import identity_of, slot_of
from memcore.ledger.conversation.tables import arcs, candidates, facts, owners, rules, sessions, turns
from memcore.ledger.database import Repository, Row, equals, id_chunks, insert_for, insert_one, rows_with
from memcore.ledger.rows import holds, pack, unpack
from memcore.ledger.tables import OPEN_WORK, work_items
from memcore.models.conversation import (
    EVICTION,
    Arc,
    Fact,
    FactState,
    LayerCounts,
    Owner,
    ProceduralCandidate,
    ProfileRule,
    SemanticCandidate,
)

#: Most rows of a page.
MAX_PAGE = 500

# Little-endian whatever the machine; half precision ranks the same.
_HALF = np.dtype("<f2")


class StaleOwnerError(Exception):
    """Another step has written the owner's memory since it was read: read it again, and decide anew."""


class Embedded(NamedTuple):
    """A vector, and the embedder's space that it lies in."""

    space: str
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What one step writes of an owner's memory, all of it or nothing.

    Attributes:
        facts: new facts; their versions are those of this commit, whatever they say.
        rules: new rules, likewise.
        arc: the session's summary; it takes the place of an earlier one of the same session.
        vectors: by id, the vectors of new facts and of the arc.
        bumped: ids of facts and rules that were said again.
        superseded: by the id of a fact or a rule that holds no longer, the id of what replaces it.
    """

    facts: tuple[Fact, ...] = ()
    rules: tuple[ProfileRule, ...] = ()
    arc: Arc | None = None
    vectors: Mapping[str, Embedded] = field(default_factory=dict)
    bumped: Collection[str] = ()
    superseded: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.facts or self.rules or self.arc or self.bumped or self.superseded)


class OwnerState(NamedTuple):
    """The version of an owner's memory, 0 before the first write; and whether it is shown before replies."""

    version: int
    recall: bool


class UnsureFacts(NamedTuple):
    """Two facts of which the later one may have replaced the earlier one: a person decides."""

    owner: Owner
    older: Fact
    newer: Fact


class Searchable(NamedTuple):
    """A fact or an arc, with its vector where it has one."""

    entry: Fact | Arc
    embedded: Embedded | None


_Entry = TypeVar("_Entry", bound=BaseModel)

#: Stands in the body of a fact that a model was not sure of.
_UNSURE = b'"unsure_with":["'

#: Of each table: the column of its ids, which is the field of its records too.
_IDS = {facts: "fact_id", rules: "rule_id", arcs: "arc_id"}

#: Fields that stand in columns of their own.
_COLUMNS = frozenset(
    {"state", "superseded_by", "version", "session_id", "created_at", "last_referenced_at", "changed_at"}
)


def _owned(table: Table, company: str, owner: Owner, **values: Any) -> ColumnElement[bool]:
    return equals(table, company=company, agent_id=owner.agent_id, subject=owner.subject, **values)


def _row(company: str, owner: Owner, entry: Fact | ProfileRule | Arc, **more: Any) -> Row:
    own: Row = {"company": company, "agent_id": owner.agent_id, "subject": owner.subject, **more}
    own |= {name: getattr(entry, name) for name in _COLUMNS}
    own["state"] = entry.state.value
    return own | _body(entry)


def _body(entry: Fact | ProfileRule | Arc) -> Row:
    # The owner's subject stands in a column, the fact's in the body.
    return {"body": pack("a memory", entry.model_dump(mode="json", exclude=set(_COLUMNS)))}


def _entry(model: type[_Entry], row: Mapping[Any, Any]) -> _Entry:
    return model.model_validate(
        {name: row[name] for name in _COLUMNS} | unpack("a memory", row["body"]), extra="ignore"
    )


def _vector_columns(embedded: Embedded | None) -> Row:
    if embedded is None:
        return {"space": None, "vector": None}
    return {"space": embedded.space, "vector": np.asarray(embedded.vector, dtype=_HALF).tobytes()}


def _searchable(model: type[Fact] | type[Arc], row: Mapping[Any, Any]) -> Searchable:
    embedded = None
    if row["space"] is not None and row["vector"] is not None:
        embedded = Embedded(row["space"], np.frombuffer(row["vector"], dtype=_HALF).astype(np.float32))
    return Searchable(_entry(model, row), embedded)


def arc_key(session_id: str) -> str:
    """Return the id of a session's arc: each session has one."""
    return session_id


def commit_in(
    connection: Connection,
    company: str,
    owner: Owner,
    commit: Commit,
    *,
    expected: int,
    at: datetime,
    max_rules: int,
) -> int:
    """Write what a step decided, and return the owner's version behind it; an empty commit changes nothing.

    Raises StaleOwnerError where the version is not the expected one.
    """
    if not commit:
        return expected
    version = _moved_on(connection, company, owner, expected=expected, at=at)
    for fact in commit.facts:
        candidate = SemanticCandidate(**{name: getattr(fact, name) for name in SemanticCandidate.model_fields})
        row = _row(
            company,
            owner,
            fact.model_copy(update={"version": version, "changed_at": at}),
            fact_id=fact.fact_id,
            slot=slot_of(candidate),
            identity=identity_of(candidate),
        )
        insert_one(connection, facts, row | _vector_columns(commit.vectors.get(fact.fact_id)))
    for rule in commit.rules:
        candidate_rule = ProceduralCandidate(rule=rule.rule, evidence_quote=rule.quotes[0], kind=rule.kind)
        row = _row(
            company,
            owner,
            rule.model_copy(update={"version": version, "changed_at": at}),
            rule_id=rule.rule_id,
            identity=identity_of(candidate_rule),
        )
        insert_one(connection, rules, row)
    if commit.arc is not None:
        _put_arc(connection, company, owner, commit, version=version, at=at)
    for table in (facts, rules):
        _bump(connection, table, company, owner, commit.bumped, at=at)
        _supersede(connection, table, company, owner, commit.superseded, at=at)
    _keep_newest(connection, company, owner, at=at, max_rules=max_rules)
    return version


def _moved_on(connection: Connection, company: str, owner: Owner, *, expected: int, at: datetime) -> int:
    _ensure(connection, company, owner, at=at)
    query = (
        update(owners)
        .where(_owned(owners, company, owner, version=expected))
        .values(version=expected + 1, changed_at=at)
        .returning(owners.c.version)
    )
    version = connection.execute(query).scalar_one_or_none()
    if version is None:
        raise StaleOwnerError(f"the memory of this owner is no longer at version {expected}")
    return int(version)


def require_version(connection: Connection, company: str, owner: Owner, *, expected: int, at: datetime) -> None:
    """Keep other steps from writing an owner's memory until the end of the transaction.

    Raises StaleOwnerError where the version is not the expected one.
    """
    _ensure(connection, company, owner, at=at)
    query = select(owners.c.version).where(_owned(owners, company, owner)).with_for_update()
    if connection.execute(query).scalar_one() != expected:
        raise StaleOwnerError(f"the memory of this owner is no longer at version {expected}")


def _ensure(connection: Connection, company: str, owner: Owner, *, at: datetime) -> None:
    row: Row = {"company": company, **owner.model_dump(), "version": 0, "recall": True, "changed_at": at}
    insert_one(connection, owners, row)


def _put_arc(connection: Connection, company: str, owner: Owner, commit: Commit, *, version: int, at: datetime) -> None:
    arc = commit.arc
    if arc is None:
        return
    key = arc_key(arc.session_id)
    written = arc.model_copy(update={"version": version, "changed_at": at})
    row = _row(company, owner, written, arc_id=key, ended_at=arc.ended_at) | _vector_columns(commit.vectors.get(key))
    statement = insert_for(connection, arcs).values(row)
    new = {name: statement.excluded[name] for name in row if not arcs.c[name].primary_key and name != "created_at"}
    connection.execute(statement.on_conflict_do_update(index_elements=list(arcs.primary_key), set_=new))


def _bump(
    connection: Connection, table: Table, company: str, owner: Owner, ids: Iterable[str], *, at: datetime
) -> None:
    for part in id_chunks(ids):
        these = _owned(table, company, owner) & table.c[_IDS[table]].in_(part)
        # Turns come out of order: what was said later stays so.
        these &= table.c.last_referenced_at < at
        connection.execute(update(table).where(these).values(last_referenced_at=at))


def _supersede(
    connection: Connection, table: Table, company: str, owner: Owner, pairs: Mapping[str, str], *, at: datetime
) -> None:
    for old, new in sorted(pairs.items()):
        its = _owned(table, company, owner, state=FactState.ACTIVE.value) & (table.c[_IDS[table]] == old)
        values: Row = {"state": FactState.SUPERSEDED.value, "superseded_by": new, "changed_at": at}
        connection.execute(update(table).where(its).values(values))


def _keep_newest(connection: Connection, company: str, owner: Owner, *, at: datetime, max_rules: int) -> None:
    active = _owned(rules, company, owner, state=FactState.ACTIVE.value)
    newest = (rules.c.last_referenced_at.desc(), rules.c.created_at.desc(), rules.c.rule_id.desc())
    beyond = select(rules.c.rule_id).where(active).order_by(*newest).limit(MAX_PAGE).offset(max_rules)
    values: Row = {"state": FactState.ARCHIVED.value, "superseded_by": EVICTION, "changed_at": at}
    connection.execute(update(rules).where(active, rules.c.rule_id.in_(beyond)).values(values))


class Listed(TypedDict, total=False):
    """Which page of an owner's: of these states, the active one when left out, after this id."""

    states: Collection[FactState]
    after: str
    limit: int


class ConversationMemory(Repository):
    """The tables of owners, facts, arcs and rules.

    Every read is of one owner: nothing here finds the memory of another.
    """

    def state(self, company: str, owner: Owner) -> OwnerState:
        """Return the version of an owner's memory, and the toggle."""
        found = self._database.row(select(owners).where(_owned(owners, company, owner)))
        return OwnerState(0, recall=True) if found is None else OwnerState(found["version"], found["recall"])

    def set_recall(self, company: str, owner: Owner, *, is_on: bool) -> None:
        """Turn on or off that an owner's memory is shown before replies; what is kept stays."""
        now = self._clock()
        with self._database.write() as connection:
            _ensure(connection, company, owner, at=now)
            its = _owned(owners, company, owner)
            connection.execute(update(owners).where(its).values(recall=is_on, changed_at=now))

    def write(self, company: str, owner: Owner, commit: Commit, *, expected: int, max_rules: int) -> int:
        """Write a commit by itself, and return the version behind it. Raises StaleOwnerError."""
        with self._database.write() as connection:
            at = self._clock()
            return commit_in(connection, company, owner, commit, expected=expected, at=at, max_rules=max_rules)

    def newest(self, company: str, owner: Owner, *, limit: int) -> tuple[Fact, ...]:
        """Return the active facts that were written last, in order."""
        active = _owned(facts, company, owner, state=FactState.ACTIVE.value)
        query = select(facts).where(active).order_by(facts.c.created_at.desc(), facts.c.fact_id)
        return tuple(_entry(Fact, row) for row in self._database.rows(query.limit(limit)))[::-1]

    def searchable(self, company: str, owner: Owner) -> tuple[Searchable, ...]:
        """Return every active fact with its vector, in the order in which they were written."""
        active = _owned(facts, company, owner, state=FactState.ACTIVE.value)
        query = select(facts).where(active).order_by(facts.c.created_at, facts.c.fact_id)
        return tuple(_searchable(Fact, row) for row in self._database.rows(query))

    def facts(self, company: str, owner: Owner, **which: Unpack[Listed]) -> tuple[Fact, ...]:
        """Return a page of facts by id."""
        return self._listed(Fact, facts, company, owner, **which)

    def rules(self, company: str, owner: Owner, **which: Unpack[Listed]) -> tuple[ProfileRule, ...]:
        """Return a page of rules by id."""
        return self._listed(ProfileRule, rules, company, owner, **which)

    def arcs(
        self, company: str, owner: Owner, *, since: datetime | None = None, limit: int = MAX_PAGE
    ) -> tuple[Searchable, ...]:
        """Return the active arcs whose sessions ended since then, the newest first."""
        active = _owned(arcs, company, owner, state=FactState.ACTIVE.value)
        if since is not None:
            active &= arcs.c.ended_at >= since
        query = select(arcs).where(active).order_by(arcs.c.ended_at.desc(), arcs.c.arc_id)
        return tuple(_searchable(Arc, row) for row in self._database.rows(query.limit(min(limit, MAX_PAGE))))

    def fact(self, company: str, owner: Owner, fact_id: str) -> Fact | None:
        """Return one fact in whatever state, or None."""
        found = self._database.row(select(facts).where(_owned(facts, company, owner, fact_id=fact_id)))
        return None if found is None else _entry(Fact, found)

    def listed_arcs(self, company: str, owner: Owner, **which: Unpack[Listed]) -> tuple[Arc, ...]:
        """Return a page of arcs by their sessions, without vectors."""
        return self._listed(Arc, arcs, company, owner, **which)

    def find(self, company: str, key: str) -> tuple[tuple[Owner, Fact | ProfileRule | Arc], ...]:
        """Return what has this id, of any owner of a company, for the person who asks why.

        An arc has the id of its session, and sessions of several people may share a name.
        """
        return (
            *self._found(Fact, facts, company, key),
            *self._found(ProfileRule, rules, company, key),
            *self._found(Arc, arcs, company, key),
        )

    def arc(self, company: str, owner: Owner, session_id: str) -> Arc | None:
        """Return the active arc of a session, or None."""
        its = _owned(arcs, company, owner, arc_id=arc_key(session_id), state=FactState.ACTIVE.value)
        found = self._database.row(select(arcs).where(its))
        return None if found is None else _entry(Arc, found)

    def change_state(
        self,
        company: str,
        owner: Owner,
        ids: Collection[str],
        *,
        to: FactState,
        sources: Collection[FactState],
    ) -> int:
        """Move facts, rules and arcs between states for a person, and return how many; the version moves on."""
        with self._database.write() as connection:
            now = self._clock()
            count = change_state_in(connection, company, owner, ids, to=to, sources=sources, at=now)
            if count:
                advance(connection, company, owner, at=now)
            return count

    def unsure(self, company: str, agent_id: str, *, subject: str | None = None) -> tuple[UnsureFacts, ...]:
        """Return the pairs of active facts of which a model is not sure, those that were written last first."""
        active = equals(facts, company=company, agent_id=agent_id, state=FactState.ACTIVE.value)
        if subject is not None:
            active &= facts.c.subject == subject
        query = select(facts).where(active)
        having = [
            (row["subject"], _entry(Fact, row))
            for row in self._database.rows(query.where(holds(facts.c.body, _UNSURE)))
        ]
        others = {fact_id for _, fact in having for fact_id in fact.unsure_with}
        rows = self._database.rows_with(query, facts.c.fact_id, others)
        known = {(row["subject"], row["fact_id"]): _entry(Fact, row) for row in rows}
        found: list[UnsureFacts] = []
        for whose, fact in having:
            owner = Owner(agent_id=agent_id, subject=whose)
            for other in (known.get((whose, fact_id)) for fact_id in fact.unsure_with):
                if other is not None:
                    older, newer = sorted((fact, other), key=lambda each: (each.created_at, each.fact_id))
                    found.append(UnsureFacts(owner, older, newer))
        return tuple(sorted(found, key=lambda each: (each.newer.created_at, each.newer.fact_id), reverse=True))

    def supersede(self, company: str, owner: Owner, old_id: str, new_id: str) -> None:
        """Let one fact replace another, as a person says; the version moves on."""
        with self._database.write() as connection:
            now = self._clock()
            advance(connection, company, owner, at=now)
            _supersede(connection, facts, company, owner, {old_id: new_id}, at=now)

    def both_hold(self, company: str, owner: Owner, old_id: str, new_id: str) -> None:
        """Keep that a person says that two facts hold; the version moves on."""
        with self._database.write() as connection:
            now = self._clock()
            advance(connection, company, owner, at=now)
            its = _owned(facts, company, owner)
            rows = rows_with(connection, select(facts).where(its), facts.c.fact_id, (old_id, new_id))
            for fact in (_entry(Fact, row) for row in rows):
                left = tuple(each for each in fact.unsure_with if each not in {old_id, new_id})
                values = _body(fact.model_copy(update={"unsure_with": left}))
                if fact.fact_id == old_id and fact.is_superseded_by(new_id):
                    values |= {"state": FactState.ACTIVE.value, "superseded_by": None, "changed_at": now}
                connection.execute(update(facts).where(its, facts.c.fact_id == fact.fact_id).values(values))

    def counts(self, company: str, owner: Owner) -> LayerCounts:
        """Return how much of each layer an owner has."""
        found: dict[str, int] = {}
        for name, table in (("semantic", facts), ("episodic", arcs), ("procedural", rules)):
            query = select(table.c.state, func.count().label("how_many")).where(_owned(table, company, owner))
            for row in self._database.rows(query.group_by(table.c.state)):
                key = name if row["state"] == FactState.ACTIVE else str(row["state"])
                found[key] = found.get(key, 0) + row["how_many"]
        found["held"] = self._database.count(candidates, _owned(candidates, company, owner, state="held"))
        is_open = _owned(sessions, company, owner) & (work_items.c.key == sessions.c.session_key)
        found["open_sessions"] = self._open(sessions, is_open)
        is_waiting = _owned(turns, company, owner) & (work_items.c.key == turns.c.turn_id)
        found["waiting_turns"] = self._open(turns, is_waiting)
        return LayerCounts(**found)

    def subjects(self, company: str, agent_id: str, *, after: str = "", limit: int = MAX_PAGE) -> tuple[str, ...]:
        """Return the subjects of an agent of whom something was said, by name."""
        query = select(sessions.c.subject).distinct()
        query = query.where(equals(sessions, company=company, agent_id=agent_id), sessions.c.subject > after)
        rows = self._database.rows(query.order_by(sessions.c.subject).limit(min(limit, MAX_PAGE)))
        return tuple(row["subject"] for row in rows)

    def age(self, company: str, *, before: datetime) -> int:
        """Archive the facts that were replaced before then, and the arcs of sessions that ended before; return both.

        The latest arc of an owner stays, whatever its age: it is what the next session begins with.
        """
        values: Row = {"state": FactState.ARCHIVED.value, "changed_at": self._clock()}
        old_fact = equals(facts, company=company, state=FactState.SUPERSEDED.value) & (facts.c.changed_at < before)
        newer = arcs.alias()
        has_newer = select(newer.c.arc_id).where(
            newer.c.company == arcs.c.company,
            newer.c.agent_id == arcs.c.agent_id,
            newer.c.subject == arcs.c.subject,
            newer.c.state == FactState.ACTIVE.value,
            newer.c.ended_at > arcs.c.ended_at,
        )
        old_arc = equals(arcs, company=company, state=FactState.ACTIVE.value) & (arcs.c.ended_at < before)
        old_arc &= has_newer.exists()
        with self._database.write() as connection:
            # Those who keep an owner's memory must read it again; owners are locked before what they own.
            has_old = (arcs.c.agent_id == owners.c.agent_id) & (arcs.c.subject == owners.c.subject) & old_arc
            its = equals(owners, company=company) & select(arcs.c.arc_id).where(has_old).exists()
            connection.execute(update(owners).where(its).values(version=owners.c.version + 1))
            return sum(
                connection.execute(update(table).where(which).values(values)).rowcount
                for table, which in ((facts, old_fact), (arcs, old_arc))
            )

    def _open(self, table: Table, which: ColumnElement[bool]) -> int:
        query = select(func.count()).select_from(table).join(work_items, work_items.c.company == table.c.company)
        return int(self._database.value(query.where(which, OPEN_WORK)) or 0)

    def _found(self, model: type[_Entry], table: Table, company: str, key: str) -> tuple[tuple[Owner, _Entry], ...]:
        query = select(table).where(equals(table, company=company) & (table.c[_IDS[table]] == key))
        rows = self._database.rows(query.order_by(table.c.agent_id, table.c.subject).limit(MAX_PAGE))
        return tuple((Owner(agent_id=row["agent_id"], subject=row["subject"]), _entry(model, row)) for row in rows)

    def _listed(
        self,
        model: type[_Entry],
        table: Table,
        company: str,
        owner: Owner,
        *,
        states: Collection[FactState] = (FactState.ACTIVE,),
        after: str = "",
        limit: int = MAX_PAGE,
    ) -> tuple[_Entry, ...]:
        key = table.c[_IDS[table]]
        which = _owned(table, company, owner) & table.c.state.in_([each.value for each in states]) & (key > after)
        query = select(table).where(which).order_by(key).limit(min(limit, MAX_PAGE))
        return tuple(_entry(model, row) for row in self._database.rows(query))


def change_state_in(
    connection: Connection,
    company: str,
    owner: Owner,
    ids: Collection[str],
    *,
    to: FactState,
    sources: Collection[FactState],
    at: datetime,
) -> int:
    """Move facts, rules and arcs that are in one of these states to another, and return how many."""
    count = 0
    values: Row = {"state": to.value, "changed_at": at}
    if to is FactState.ACTIVE:
        values["superseded_by"] = None
    for table, name in _IDS.items():
        for part in id_chunks(ids):
            these = _owned(table, company, owner) & table.c[name].in_(part)
            these &= table.c.state.in_([each.value for each in sources])
            count += connection.execute(update(table).where(these).values(values)).rowcount
    return count


def written_in(connection: Connection, company: str, owner: Owner, session_id: str) -> list[str]:
    """Return the ids of what was written in a session, its arc among them."""
    found = [arc_key(session_id)]
    for table in (facts, rules):
        its = _owned(table, company, owner, session_id=session_id, state=FactState.ACTIVE.value)
        found += connection.execute(select(table.c[_IDS[table]]).where(its)).scalars()
    return found


def advance(connection: Connection, company: str, owner: Owner, *, at: datetime) -> None:
    """Move an owner's version on, whatever it is: who decides from what was before must read again."""
    _ensure(connection, company, owner, at=at)
    its = _owned(owners, company, owner)
    connection.execute(update(owners).where(its).values(version=owners.c.version + 1, changed_at=at))
