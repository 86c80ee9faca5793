"""Rows that hold an agent's words among those of others: dead letters, proposals, tests, publications, skills."""

import json
from base64 import b64decode
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import delete, distinct, func, select, update

from memcore import ids
from memcore.errors import MemoryConnectionError
from memcore.jobs import MaintenancePayload
from memcore.ledger.access.raised import raised
from memcore.ledger.database import Database, equals, id_chunks, record_of
from memcore.ledger.erasure.decisions import ErasureScope, ErasureTarget
from memcore.ledger.learning.patterns import PatternKind
from memcore.ledger.monitoring.memory_tests import memory_tests
from memcore.ledger.tables import (
    approvals,
    consolidation_groups,
    dead_letters,
    history,
    org_facts,
    shared_heads,
    shared_log,
    skills,
    trajectories,
    work_items,
)
from memcore.models.base import Frozen
from memcore.models.memory import MemoryEntry
from memcore.models.memory_test import MemoryTest, folded

_Object: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])

#: Parts of a payload that name whose it is, beside the payload itself.
_PARTS = ("experience", "crisis", "feedback", "trace")


def payload_without(payload: str, scope: ErasureTarget) -> str | None:
    """Return a job's payload without what is of the scope, None where nothing is left, itself where nothing was."""
    try:
        given = _Object.validate_json(payload)
    except ValidationError:
        # A message that could not be read: what it holds, nobody can tell, so it goes where the agent is named.
        return None if scope.subject is None and _is_named(scope.agent_id, payload) else payload
    if given.get("company") != scope.company:
        return None if "bytes" in given and _is_named(scope.agent_id, _message(given)) else payload
    if any(is_of(part, scope) for part in (given, *(given.get(name) for name in _PARTS))):
        return None
    for name in ("items", "uses", "queries"):
        listed = given.get(name)
        if isinstance(listed, list):
            kept = [each for each in listed if not is_of(each, scope)]
            if not kept:
                return None
            if len(kept) < len(listed):
                return json.dumps(given | {name: kept}, ensure_ascii=False)
    return payload


def _is_named(agent_id: str, text: str) -> bool:
    """Return whether an id stands in a text, as it is or as JSON in ASCII has it."""
    return agent_id in text or json.dumps(agent_id)[1:-1] in text


def _message(letter: Mapping[str, Any]) -> str:
    """Return what is kept of a message that could not be read (NewDeadLetter.unreadable)."""
    text, encoded = letter.get("text"), letter.get("base64")
    if isinstance(encoded, str):
        return b64decode(encoded).decode(errors="replace")
    return text if isinstance(text, str) else ""


def is_of(part: object, scope: ErasureTarget) -> bool:
    """Return whether a part of a payload, as JSON has it, is of the agent or the person."""
    if not isinstance(part, dict) or part.get("agent_id") != scope.agent_id:
        return False
    if scope.subject is None or part.get("subject") == scope.subject:
        return True
    request = part.get("request")
    if not isinstance(request, dict):
        return False
    attributes = request.get("attributes")
    own = attributes.get("mem0") if isinstance(attributes, dict) else None
    user_id = own.get("user_id") if isinstance(own, dict) else None
    return request.get("namespace") == scope.subject or (user_id is not None and user_id == scope.user_id)


class LetterRows:
    """Dead letters: one of the agent alone is deleted, one of several agents keeps the others' memories."""

    def __init__(self, ledger: Database) -> None:
        self._ledger = ledger

    def find(self, scope: ErasureScope) -> dict[str, str | None]:
        """Return what is left of each letter that holds something of the scope, by the job's id."""
        found: dict[str, str | None] = {}
        mine = select(dead_letters.c.job_id, dead_letters.c.payload).where(dead_letters.c.company == scope.company)
        for row in self._ledger.rows(mine):
            left = payload_without(row["payload"], scope)
            if left != row["payload"]:
                found[row["job_id"]] = left
        return found

    def erase(self, scope: ErasureScope) -> None:
        """Delete or shorten them."""
        for job_id, left in self.find(scope).items():
            its = dead_letters.c.job_id == job_id
            self._ledger.change(
                delete(dead_letters).where(its)
                if left is None
                else update(dead_letters).where(its).values(payload=left)
            )


class ProposalRows:
    """What the agent proposed to people, and memories that these were to raise: the audit keeps the decision."""

    def __init__(self, ledger: Database) -> None:
        self._ledger = ledger

    def find(self, scope: ErasureScope, memory_ids: Collection[str] = ()) -> tuple[str, ...]:
        """Return the ids of these proposals; also of those to raise one of these memories."""
        query = select(approvals.c.approval_id, approvals.c.body).where(approvals.c.company == scope.company)
        rows = self._ledger.rows(query)
        return tuple(row["approval_id"] for row in rows if _is_proposed(row["body"], scope, memory_ids))

    def erase(self, company: str, approval_ids: Iterable[str]) -> None:
        """Delete proposals, and what they have raised."""
        for part in id_chunks(approval_ids):
            for table in (raised, approvals):
                which = (table.c.company == company) & table.c.approval_id.in_(part)
                self._ledger.change(delete(table).where(which))


def _is_proposed(body: bytes, scope: ErasureScope, memory_ids: Collection[str]) -> bool:
    try:
        proposal = _Object.validate_json(body)
    except ValidationError:
        return False
    is_proposer = scope.subject is None and proposal.get("proposed_by") == scope.agent_id
    raised = proposal.get("details", {})
    return is_proposer or is_of(raised, scope) or raised.get("memory_id") in memory_ids


class TestRows:
    """Registered memory tests that ask for a person, or for what the person's memories say."""

    def __init__(self, ledger: Database) -> None:
        self._ledger = ledger

    def find(self, scope: ErasureScope, memories: Sequence[MemoryEntry]) -> list[str]:
        """Return the names of the agent's tests that name the person, or one of these memories, or found one."""
        mine = select(memory_tests).where(equals(memory_tests, company=scope.company, agent_id=scope.agent_id))
        ids_of = {each.id for each in memories}
        names = ids_of | {each.key for each in memories if each.key is not None}
        said = "\n".join(folded(each.content) for each in memories)
        return [
            row["name"]
            for row in self._ledger.rows(mine)
            if (row["person"] is not None and row["person"] == scope.user_id)
            or not ids_of.isdisjoint(row["memory_ids"] or ())
            or any(each.is_among(names, said) for each in record_of(MemoryTest, row["test"]).named)
        ]

    def erase(self, scope: ErasureScope, names: Collection[str]) -> None:
        """Delete them, and their names where the gate has noted them: they may be the words of their questions."""
        mine, named = {"company": scope.company, "agent_id": scope.agent_id}, frozenset(names)
        groups = consolidation_groups.c
        noted = select(groups.run_id, groups.group_key, groups.tests)
        noted = noted.where(equals(consolidation_groups, **mine), groups.tests.is_not(None))
        with self._ledger.write() as connection:
            for run_id, group_key, tests in connection.execute(noted).all():
                if named.isdisjoint(tests):
                    continue
                its = equals(consolidation_groups, company=scope.company, run_id=run_id, group_key=group_key)
                left = [each for each in tests if each not in named]
                connection.execute(update(consolidation_groups).where(its).values(tests=left))
                run = equals(work_items, company=scope.company, kind=MaintenancePayload.task, key=run_id)
                connection.execute(update(work_items).where(run).values(reason=None))
            for part in id_chunks(named):
                its = equals(memory_tests, **mine) & memory_tests.c.name.in_(part)
                connection.execute(delete(memory_tests).where(its))


class Publications:
    """The agent's lines of the log of shared knowledge."""

    def __init__(self, ledger: Database) -> None:
        self._ledger = ledger

    def find(self, scope: ErasureScope) -> frozenset[str]:
        """Return the ids under which it has published, also what it has retracted since."""
        mine = equals(shared_log, company=scope.company, agent_id=scope.agent_id)
        return frozenset(row["memory_id"] for row in self._ledger.rows(select(shared_log.c.memory_id).where(mine)))

    def of_fact(self, company: str, fact_id: str) -> frozenset[str]:
        """Return the ids under which a fact was published."""
        mine = equals(shared_log, company=company, fact_id=fact_id)
        return frozenset(row["memory_id"] for row in self._ledger.rows(select(shared_log.c.memory_id).where(mine)))

    def of_facts(self, company: str, fact_ids: Collection[str]) -> dict[str, list[str]]:
        """Return the ids under which facts were published, in order; of one that never was, none."""
        mine = equals(shared_log, company=company, kind="publish") & shared_log.c.fact_id.in_(sorted(fact_ids))
        found: dict[str, list[str]] = {}
        for row in self._ledger.rows(select(shared_log).where(mine).order_by(shared_log.c.version)):
            found.setdefault(row["fact_id"], []).append(row["memory_id"])
        return found

    def head(self, company: str) -> int | None:
        """Return the version of the last line; None where there is none."""
        found: int | None = self._ledger.value(select(shared_heads.c.head).where(shared_heads.c.company == company))
        return found

    def count(self, company: str, memory_ids: Iterable[str]) -> int:
        """Return how many lines these publications have."""
        lines = ((shared_log.c.company == company) & shared_log.c.memory_id.in_(part) for part in id_chunks(memory_ids))
        return sum(self._ledger.count(shared_log, which) for which in lines)

    def erase(self, company: str, memory_ids: Iterable[str]) -> None:
        """Delete the lines that searches have passed; a version that is gone is one that nobody published."""
        head = select(shared_heads.c.head).where(shared_heads.c.company == company).scalar_subquery()
        for part in id_chunks(memory_ids):
            which = (shared_log.c.company == company) & shared_log.c.memory_id.in_(part)
            self._ledger.change(delete(shared_log).where(which, shared_log.c.version <= head))

    def authored_facts(self, scope: ErasureScope) -> int:
        """Return how many facts of the organisation the agent wrote: those stay, and the receipt says so."""
        rows = self._ledger.rows(select(org_facts.c.author).where(org_facts.c.company == scope.company))
        return sum(row["author"].get("agent_id") == scope.agent_id for row in rows)


class DerivedSkill(Frozen):
    """A skill that only the tasks of one agent have shown."""

    skill_id: str
    approval_id: str
    body: bytes


class SkillRows:
    """The skills that are derived from the agent alone."""

    def __init__(self, ledger: Database) -> None:
        self._ledger = ledger

    def find(self, scope: ErasureScope) -> tuple[DerivedSkill, ...]:
        """Return the skills whose pattern shows in tasks of this agent and of no other."""
        only = self._only_patterns(scope)
        query = select(skills).where(skills.c.company == scope.company)
        return tuple(
            DerivedSkill(skill_id=row["skill_id"], approval_id=row["approval_id"], body=row["body"])
            for row in self._ledger.rows(query)
            if row["pattern_id"] in only
        )

    def erase(self, company: str, found: Iterable[DerivedSkill]) -> None:
        """Delete the rows of skills."""
        for part in id_chunks(each.skill_id for each in found):
            self._ledger.change(delete(skills).where(skills.c.company == company, skills.c.skill_id.in_(part)))

    def _only_patterns(self, scope: ErasureScope) -> frozenset[str]:
        found: set[str] = set()
        for kind, column in (
            (PatternKind.FAILURE, trajectories.c.error_category),
            (PatternKind.SUCCESS, trajectories.c.tools_key),
        ):
            agents = func.count(distinct(trajectories.c.agent_id)).label("agents")
            query = (
                select(column.label("key"), agents, func.max(trajectories.c.agent_id).label("agent_id"))
                .where(trajectories.c.company == scope.company, column.is_not(None))
                .group_by(column)
            )
            found |= {
                ids.pattern_id(company=scope.company, kind=str(kind), key=row["key"])
                for row in self._ledger.rows(query)
                if row["agents"] == 1 and row["agent_id"] == scope.agent_id
            }
        return frozenset(found)


class HistoryRows:
    """mem0's history, by the ids of memories."""

    def __init__(self, url: str) -> None:
        self._database = Database(url, name="history")

    def count(self, memory_ids: Iterable[str]) -> int:
        """Return how many rows these memories have."""
        parts = id_chunks(memory_ids)
        return sum(self._database.count(history, history.c.memory_id.in_(part)) for part in parts)

    def erase(self, memory_ids: Iterable[str]) -> None:
        """Delete them."""
        for part in id_chunks(memory_ids):
            self._database.change(delete(history).where(history.c.memory_id.in_(part)))

    @property
    def database(self) -> Database:
        """The database, to be rewritten."""
        return self._database

    def close(self) -> None:
        """Close the connections."""
        self._database.close()


def rewrite_file(database: Database) -> bool:
    """Write a SQLite file anew, without the bytes of deleted rows, and empty its log; False for another database.

    Raises MemoryConnectionError while others use the file: try again.
    """
    if database.dialect != "sqlite":
        return False
    with database.statement(writes=True) as connection:
        connection.exec_driver_sql("VACUUM")
        busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
    if busy:
        raise MemoryConnectionError(f"a {database.dialect} file is in use, and its log cannot be emptied yet")
    return True
