"""What becomes of each table's rows when an agent, or a person of its conversations, is erased.

Every table of ledger, journal and history stands here; a test fails for one that does not.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, ColumnElement, and_, false, or_, select
from sqlalchemy.sql.schema import Table

from memcore.jobs import ErasePayload
from memcore.ledger import tables as of
from memcore.ledger.access.distrusts import distrusted
from memcore.ledger.conversation import tables as talk
from memcore.ledger.monitoring.memory_tests import memory_tests
from memcore.ledger.rows import holds
from memcore.models.base import Frozen
from memcore.models.conversation import USER


class ErasureTarget(Frozen):
    """Whose memory goes: all of an agent, or what it knows of one person.

    Attributes:
        subject: the person, as conversations name it; its memories are those of the namespace of that name.
    """

    company: str
    agent_id: str
    subject: str | None = None

    @property
    def user_id(self) -> str | None:
        """The person's name as mem0's ``user_id``; None for all of an agent, and for a session's."""
        subject = self.subject
        return subject.removeprefix(USER) if subject is not None and subject.startswith(USER) else None


class ErasureScope(ErasureTarget):
    """What goes: the memory of its target, and what leads to it.

    Attributes:
        tag: the tag of copies of the agent's lessons that other agents have.
    """

    tag: str


Condition = Callable[[ErasureScope], ColumnElement[bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """A table whose rows are deleted: those that meet a condition, one for an agent and one for a person.

    Rows that other tables lead to go first; ``rank`` orders them, the lowest first.
    """

    agent: Condition
    person: Condition | None = None
    rank: int = 1


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A table whose rows code of its own finds, and who that is."""

    by: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A table whose rows stay, and why they may."""

    why: str


def _of_agent(table: Table) -> Condition:
    return lambda scope: and_(table.c.company == scope.company, table.c.agent_id == scope.agent_id)


def _of_person(table: Table) -> Condition:
    return lambda scope: and_(_of_agent(table)(scope), table.c.subject == scope.subject)


def _rows(table: Table, **given: Any) -> Erased:
    return Erased(agent=_of_agent(table), **given)


def _talk(table: Table, **given: Any) -> Erased:
    return Erased(agent=_of_agent(table), person=_of_person(table), **given)


def _work(scope: ErasureScope) -> ColumnElement[bool]:
    # The erasure's own item goes on.
    return _of_agent(of.work_items)(scope) & (of.work_items.c.kind != ErasePayload.task)


def _talk_work(scope: ErasureScope) -> ColumnElement[bool]:
    mine = of.work_items.c.company == scope.company
    turns = select(talk.turns.c.turn_id).where(_of_person(talk.turns)(scope))
    sessions = select(talk.sessions.c.session_key).where(_of_person(talk.sessions)(scope))
    return (
        mine
        & or_(of.work_items.c.key.in_(turns), of.work_items.c.key.in_(sessions))
        & (of.work_items.c.agent_id == scope.agent_id)
    )


def _asked(scope: ErasureScope) -> ColumnElement[bool]:
    items = of.work_items.c
    asked = select(items.key).where(_of_agent(of.work_items)(scope), items.kind == "question")
    return (of.answers.c.company == scope.company) & of.answers.c.question_id.in_(asked)


def _own_entries(scope: ErasureScope) -> Any:
    return select(of.bookings.c.booking_id).where(_of_agent(of.bookings)(scope))


def _named_in(body: Column[Any]) -> Condition:
    """Return the condition that a memory, as rows keep it, names the person as its namespace or as mem0's user."""

    def condition(scope: ErasureScope) -> ColumnElement[bool]:
        named = {"namespace": scope.subject, "user_id": scope.user_id}
        parts = [f"{json.dumps(key)}:{json.dumps(name)}".encode() for key, name in named.items() if name is not None]
        return or_(*(holds(body, part) for part in parts))

    return condition


def _recorded_of_person(scope: ErasureScope) -> ColumnElement[bool]:
    return of.booking_records.c.booking_id.in_(_own_entries(scope)) & _named_in(of.booking_records.c.body)(scope)


def _archived_of_person(scope: ErasureScope) -> ColumnElement[bool]:
    named = or_(of.archive.c.namespace == scope.subject, _named_in(of.archive.c.body)(scope))
    return _of_agent(of.archive)(scope) & named


def _grouped_of_person(scope: ErasureScope) -> ColumnElement[bool]:
    return _of_agent(of.consolidation_groups)(scope) & _named_in(of.consolidation_groups.c.body)(scope)


def _keyed_of_person(scope: ErasureScope) -> ColumnElement[bool]:
    return _of_agent(of.memory_keys)(scope) & (of.memory_keys.c.namespace == scope.subject)


def _recorded(scope: ErasureScope) -> ColumnElement[bool]:
    """Return the condition for the agent's entries, and for what others' entries hold of copies of its lessons."""
    records, bookings = of.booking_records.c, of.bookings.c
    others = select(bookings.booking_id).where(bookings.company == scope.company)
    # As the rows have it: JSON in ASCII.
    copies = records.booking_id.in_(others) & holds(records.body, json.dumps(scope.tag).encode())
    return or_(records.booking_id.in_(_own_entries(scope)), copies)


def _archived(scope: ErasureScope) -> ColumnElement[bool]:
    tagged = select(of.archive_tags.c.archival_id).where(of.archive_tags.c.tag == scope.tag)
    copies = (of.archive.c.company == scope.company) & of.archive.c.archival_id.in_(tagged)
    return or_(_of_agent(of.archive)(scope), copies)


def _below_archive(table: Table, which: Condition) -> Condition:
    return lambda scope: table.c.archival_id.in_(select(of.archive.c.archival_id).where(which(scope)))


def _marked(scope: ErasureScope) -> ColumnElement[bool]:
    return and_(of.reindex_marks.c.company == scope.company, of.reindex_marks.c.owner == scope.agent_id)


_COUNTS = Kept("counts, prices and ids, no text: the account of a month must add up")
_ORGANISATION = Kept(
    "the organisation's own, written in its name by a person or an agent that may; `memtend org` retracts it"
)
_TIMES = Kept("a time and counts of the whole company")

#: Of each table by name, what is done.
LEDGER: Mapping[str, Erased | Elsewhere | Kept] = {
    "agents": _rows(of.agents, rank=9),
    "runs": _rows(of.runs),
    "work_items": Erased(agent=_work, person=_talk_work, rank=8),
    "companies": Kept("the company's settings"),
    "dead_letters": Elsewhere("LetterPlace, since a letter may hold memories of several agents"),
    "attempts": Kept("ids of jobs and counts, gone when each job has ended, or with its dead letter"),
    "ticks": _TIMES,
    "measures": Kept("figures of the whole company"),
    "shared_log": Elsewhere("PublicationPlace, since searches follow the log"),
    "shared_heads": _TIMES,
    "syntheses": _rows(of.syntheses),
    "consolidation_groups": _rows(of.consolidation_groups, person=_grouped_of_person),
    # An answer names no person: all of the agent's go, and are asked for again.
    "answers": Erased(agent=_asked, person=_asked, rank=0),
    "recorded_queries": _rows(of.recorded_queries),
    # Of a person, TestRows finds them by what they name.
    "memory_tests": _rows(memory_tests),
    "core_slots": _rows(of.core_slots),
    "model_spending": _COUNTS,
    "model_calls": _COUNTS,
    "model_servers": Kept("how a server wants to be asked: names of parameters and sizes"),
    "distrusts": Kept("ids, names of sources and the reasons that people gave"),
    "distrusted": _rows(distrusted),
    "raised": Elsewhere("ProposalPlace, with the approval that has raised it"),
    "experiences": _rows(of.experiences),
    "approvals": Elsewhere("ProposalPlace, since what an agent proposed, and a memory to raise, stand in the body"),
    "org_log": _ORGANISATION,
    "org_facts": _ORGANISATION,
    "org_terms": _ORGANISATION,
    "org_outbox": _ORGANISATION,
    "audit": Kept("ids, decisions and the reasons that people gave: it proves the erasure"),
    # Of what shows a pattern, the skills' place asks before these rows go.
    "trajectories": _rows(of.trajectories, rank=2),
    "lessons": _rows(of.lessons),
    "skills": Elsewhere("SkillPlace: those that only this agent's tasks have shown"),
    "skill_counts": _COUNTS,
    "skill_applications": _rows(of.skill_applications),
    "skill_cycles": Kept("reports of counts and ids over the whole company"),
    "finetune_runs": Kept("plans and hashes of files, no text; the files are the training place's"),
    "finetune_checkpoints": Kept("a checkpoint is named in the receipt, and a person retires it"),
    "serving": Kept("names of collections"),
    "reindexes": Kept("counts and a cursor"),
    "reindex_marks": Erased(agent=_marked),
    "api_keys": Kept("hashes of secrets and ids of agents; `memtend keys revoke` ends a key"),
    "idempotency_keys": Kept("hashes, and answers of ids and counts; gone after a day"),
    "erasures": Kept("it is the receipt"),
    "signing_keys": Kept("the installation's own key, which signs receipts"),
    "webhook_endpoints": Kept("addresses of receivers and their secrets; `memtend webhooks remove` ends one"),
    "webhook_deliveries": Kept("the id of an agent, counts and reasons of ours, no text; gone 30 days after its end"),
    "conversation_owners": _talk(talk.owners),
    "conversation_facts": _talk(talk.facts),
    "conversation_arcs": _talk(talk.arcs),
    "conversation_rules": _talk(talk.rules),
    # Behind the work items, which are found by them.
    "conversation_sessions": _talk(talk.sessions, rank=9),
    "conversation_turns": _talk(talk.turns, rank=9),
    "conversation_candidates": _talk(talk.candidates),
    "crisis_log": _talk(talk.crisis_log),
    "session_feedback": _talk(talk.session_feedback),
}

#: The same of the journal.
JOURNAL: Mapping[str, Erased | Elsewhere | Kept] = {
    "bookings": _rows(of.bookings, rank=2),
    "booking_records": Erased(agent=_recorded, person=_recorded_of_person),
    "tombstones": Kept("ids and times, no text: they keep a late redelivery from bringing a memory back"),
    "memory_keys": _rows(of.memory_keys, person=_keyed_of_person),
    "holds": _rows(of.holds),
    "memory_use": _rows(of.memory_use),
    "use_batches": Kept("ids of messages"),
    "archive": Erased(agent=_archived, person=_archived_of_person, rank=2),
    "archive_terms": Erased(
        agent=_below_archive(of.archive_terms, _archived), person=_below_archive(of.archive_terms, _archived_of_person)
    ),
    "archive_tags": Erased(
        agent=_below_archive(of.archive_tags, _archived),
        person=_below_archive(of.archive_tags, _archived_of_person),
        rank=3,
    ),
}

#: mem0's table has no agent: its rows are found by the ids of memories.
HISTORY: Mapping[str, Erased | Elsewhere | Kept] = {"history": Elsewhere("HistoryPlace, by the ids of memories")}


def condition_of(decision: Erased, scope: ErasureScope) -> ColumnElement[bool]:
    """Return which rows of a table go; none where a person has no rows of their own in it."""
    if scope.subject is None:
        return decision.agent(scope)
    return false() if decision.person is None else decision.person(scope)
