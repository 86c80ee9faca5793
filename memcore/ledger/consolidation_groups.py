"""Groups of memories that runs judged: proposed to a person and what became of it, or refused by the gate."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from enum import StrEnum

from pydantic import Field
from sqlalchemy import Connection, delete, func, select, update

from memcore import ids
from memcore.ledger.database import Records, Row, equals, rows_with
from memcore.ledger.monitoring.memory_tests import memory_tests
from memcore.ledger.rows import RecordRow, decode, encode
from memcore.ledger.tables import consolidation_groups
from memcore.models.archival import ArchivalMode
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime, MemoryCategory, is_uuid
from memcore.records import MemoryRecord

#: The strategy of a pair: its memories are an older one and the newer one that may have replaced it.
CHANGES = "changes"

#: The run of a pair that a person decided about before any run did.
BY_HAND = "by-hand"


class GroupState(StrEnum):
    """What became of a group."""

    #: A person has to decide.
    PROPOSED = "proposed"
    #: A person has adopted it; a worker has still to replace the memories.
    APPROVED = "approved"
    #: The memories were replaced.
    ADOPTED = "adopted"
    #: A person decided against it.
    DISMISSED = "dismissed"
    #: The gate decided against it.
    REFUSED = "refused"
    #: An undo decided that the older memory of the pair holds again.
    UNDONE = "undone"


class ConsolidationGroup(Frozen):
    """Memories of an agent that one summary would replace, or has replaced.

    Attributes:
        place: its number in the run, from 1; given when it is kept.
        kept_id: the memory of their group that stays.
        seen: a hash of the memories as they were when the summary was written.
        mode: how the memories are archived when the summary replaces them.
        body: the summary without its vectors, see :attr:`summary`; None unless somebody may adopt it.
        probes: questions that the gate asked.
        found_before: probes that the memories answered.
        found_after: probes that the summary would answer.
        tests: names of the memory tests that the summary would break; None where it breaks none.
        reason: why an adopted group was left as it was.
    """

    company: str
    run_id: str
    agent_id: str
    place: int = 0
    category: MemoryCategory
    strategy: str
    state: GroupState
    source_ids: tuple[str, ...]
    kept_id: str | None = None
    summary_id: str | None = None
    seen: str | None = None
    mode: ArchivalMode | None = None
    body: bytes | None = Field(default=None, repr=False)
    probes: int | None = None
    found_before: int | None = None
    found_after: int | None = None
    tests: tuple[str, ...] | None = None
    decided_at: BoundedTime | None = None
    decided_by: str | None = None
    reason: str | None = None
    created_at: BoundedTime | None = None

    @property
    def group_key(self) -> str:
        """The same for the same strategy and memories, whichever run judges them."""
        return ids.group_key(strategy=self.strategy, source_ids=self.source_ids)

    @property
    def is_found(self) -> bool:
        """Whether a run decided about a pair, or the undo of one, and not a person."""
        return is_uuid(self.decided_by or "")

    @property
    def summary(self) -> MemoryRecord | None:
        """The proposed summary, without vectors."""
        return None if self.body is None else decode(RecordRow(self.body, None, None, None))


def packed_summary(summary: MemoryRecord) -> bytes:
    """Return a summary as a group keeps it. Raises MemoryInputError."""
    return encode(summary).body


_PAIR_COUNTS = {
    GroupState.PROPOSED: "unsure",
    GroupState.ADOPTED: "superseded",
    GroupState.UNDONE: "reinstated",
}


class ConsolidationGroups(Records[ConsolidationGroup]):
    """The table of groups."""

    _table = consolidation_groups
    _model = ConsolidationGroup

    def note(self, groups: Sequence[ConsolidationGroup]) -> None:
        """Keep groups of one run; one that the run has judged before keeps its place and takes the new values."""
        if not groups:
            return
        run = equals(consolidation_groups, company=groups[0].company, run_id=groups[0].run_id)
        columns, now = set(consolidation_groups.c.keys()) - {"place", "created_at"}, self._clock()
        with self._database.write() as connection:
            last: int = connection.execute(
                select(func.coalesce(func.max(consolidation_groups.c.place), 0)).where(run)
            ).scalar_one()
            own_key = consolidation_groups.c.group_key
            keys = [group.group_key for group in groups]
            known = rows_with(connection, select(own_key).where(run), own_key, keys)
            noted = {row["group_key"] for row in known}
            added: dict[str, Row] = {}
            for group in groups:
                key = group.group_key
                values: Row = {**group.model_dump(include=columns), "source_ids": list(group.source_ids)}
                values |= {name: str(values[name]) for name in ("category", "state")}
                values["mode"] = group.mode and str(group.mode)
                if key in noted:
                    connection.execute(update(consolidation_groups).where(run & (own_key == key)).values(values))
                else:
                    place = added[key]["place"] if key in added else last + len(added) + 1
                    added[key] = values | {"group_key": key, "place": place, "created_at": now}
            # All at once: a long run notes hundreds, and to build a statement costs more than to write its row.
            if added:
                connection.execute(consolidation_groups.insert(), list(added.values()))

    def of_run(self, company: str, run_id: str, *, state: GroupState | None = None) -> tuple[ConsolidationGroup, ...]:
        """Return the run's groups in their order; with a state only those."""
        which = equals(consolidation_groups, company=company, run_id=run_id)
        if state is not None:
            which &= consolidation_groups.c.state == state
        return self._all(select(consolidation_groups).where(which).order_by(consolidation_groups.c.place))

    def gate_counts(self, company: str, run_id: str) -> dict[str, int]:
        """Return the counts of what the gate judged of a run; none where it judged no group."""
        judged = [group for group in self.of_run(company, run_id) if group.probes is not None]
        if not judged:
            return {}
        for_tests = sum(bool(group.tests) for group in judged)
        return {
            "gate_refused": sum(group.state is GroupState.REFUSED for group in judged),
            "gate_probes": sum(group.probes or 0 for group in judged),
            "gate_found_before": sum(group.found_before or 0 for group in judged),
            "gate_found_after": sum(group.found_after or 0 for group in judged),
        } | ({"gate_refused_for_tests": for_tests} if for_tests else {})

    def protected_by_tests(self, company: str, run_id: str) -> tuple[str, ...]:
        """Return the names of the memory tests for which the gate refused groups of a run, in order."""
        return tuple(sorted({name for group in self.of_run(company, run_id) for name in group.tests or ()}))

    def kept_for_tests(self, company: str, agent_id: str) -> dict[str, tuple[str, ...]]:
        """Return the memories that the gate left as they are for memory tests, each with the names of these."""
        table = consolidation_groups
        mine = equals(table, company=company, agent_id=agent_id, state=GroupState.REFUSED.value)
        query = select(table.c.source_ids, table.c.tests).where(mine, table.c.tests.is_not(None))
        found: dict[str, set[str]] = {}
        for row in self._database.rows(query):
            for memory_id in row["source_ids"]:
                found.setdefault(memory_id, set()).update(row["tests"])
        return {memory_id: tuple(sorted(names)) for memory_id, names in found.items()}

    def judged(
        self, company: str, agent_id: str, group_keys: Collection[str], *, states: Iterable[GroupState]
    ) -> frozenset[str]:
        """Return those of the keys that an earlier run left in one of these states: refused, or dismissed.

        What was refused for memory tests counts as long as one of them is registered as it was.
        """
        table = consolidation_groups.c
        query = select(table.group_key, table.tests, table.created_at)
        query = query.where(equals(consolidation_groups, company=company, agent_id=agent_id))
        query = query.where(table.state.in_([each.value for each in states]))
        found = self._database.rows_with(query, table.group_key, group_keys)
        named = {name for row in found for name in row["tests"] or ()}
        since = select(memory_tests.c.name, memory_tests.c.registered_at)
        since = since.where(equals(memory_tests, company=company, agent_id=agent_id))
        tests = {
            row["name"]: row["registered_at"] for row in self._database.rows_with(since, memory_tests.c.name, named)
        }
        return frozenset(
            row["group_key"]
            for row in found
            if not row["tests"] or any(tests[name] <= row["created_at"] for name in row["tests"] if name in tests)
        )

    def decide(
        self, company: str, run_id: str, places: Collection[int], state: GroupState, *, reason: str | None = None
    ) -> None:
        """Say what became of groups that a person has adopted; the text goes unless somebody may adopt them again."""
        values: Row = {"state": state.value, "reason": reason}
        if state is not GroupState.PROPOSED:
            values["body"] = None
        which = equals(consolidation_groups, company=company, run_id=run_id, state=GroupState.APPROVED.value)
        self._update(which & consolidation_groups.c.place.in_(sorted(places)), values)

    def pairs(self, company: str, agent_id: str) -> tuple[ConsolidationGroup, ...]:
        """Return what was decided about pairs of an agent's memories, an older and a newer one, in order."""
        table = consolidation_groups
        mine = equals(table, company=company, agent_id=agent_id, strategy=CHANGES)
        return self._all(select(table).where(mine).order_by(table.c.created_at, table.c.run_id, table.c.place))

    def pair_counts(self, company: str, agent_id: str, run_id: str) -> dict[str, int]:
        """Return how many pairs a run let be superseded or hold again, and of how many it was unsure; none is 0."""
        found = Counter[str]()
        for pair in self.pairs(company, agent_id):
            if run_id == (pair.decided_by or pair.run_id) and pair.state in _PAIR_COUNTS:
                found[_PAIR_COUNTS[pair.state]] += 1
        return dict(found)

    def decide_pair(self, pair: ConsolidationGroup, state: GroupState, *, by: str) -> None:
        """Keep what a person, or an undo, decided about a pair."""
        known = [each for each in self.pairs(pair.company, pair.agent_id) if each.source_ids == pair.source_ids]
        given = {"state": state, "decided_by": by, "decided_at": self._clock()}
        self.note([(known[-1] if known else pair).model_copy(update=given)])

    def turn_pairs(self, company: str, agent_id: str, run_id: str, *, by: str) -> None:
        """Decide the opposite of what a run decided about pairs, as its undo; to do it again changes nothing."""
        table = consolidation_groups
        mine = equals(table, company=company, agent_id=agent_id, strategy=CHANGES, decided_by=run_id)
        given: Row = {"decided_by": by, "decided_at": self._clock()}
        turned = {
            GroupState.APPROVED: [GroupState.UNDONE],
            GroupState.UNDONE: [GroupState.APPROVED, GroupState.ADOPTED],
        }
        with self._database.write() as connection:
            for state, before in turned.items():
                which = mine & table.c.state.in_([each.value for each in before])
                connection.execute(update(table).where(which).values(state=state.value, **given))

    def withdraw(self, company: str, run_id: str) -> None:
        """Delete what a run proposes."""
        with self._database.write() as connection:
            withdraw_proposed(connection, company, [run_id])

    def expire(self, company: str, *, before: datetime) -> int:
        """Delete a company's groups that were judged, and decided, before a time, and return how many."""
        table = consolidation_groups.c
        is_undecided = table.decided_at.is_(None) | (table.decided_at < before)
        # That both of a pair hold, a person says once.
        is_pair = (table.strategy == CHANGES) & (table.state == GroupState.DISMISSED.value)
        return self._delete(table.company == company, table.created_at < before, is_undecided, ~is_pair)


def answer_proposed(
    connection: Connection,
    company: str,
    run_id: str,
    state: GroupState,
    *,
    by: str,
    at: datetime,
    places: Collection[int] | None,
) -> tuple[int, ...]:
    """Note what a person decided about the proposed groups of a run, or some of them, and return their places."""
    table = consolidation_groups
    which = equals(table, company=company, run_id=run_id, state=GroupState.PROPOSED.value)
    if places is not None:
        which &= table.c.place.in_(sorted(places))
    values: Row = {"state": state.value, "decided_at": at, "decided_by": by, "reason": None}
    if state is GroupState.DISMISSED:
        values["body"] = None
    query = update(table).where(which).values(values).returning(table.c.place)
    return tuple(sorted(connection.execute(query).scalars()))


def withdraw_proposed(connection: Connection, company: str, run_ids: Collection[str]) -> None:
    """Delete what runs propose: newer proposals take their place."""
    table = consolidation_groups
    which = equals(table, company=company, state=GroupState.PROPOSED.value) & table.c.run_id.in_(sorted(run_ids))
    connection.execute(delete(table).where(which))
