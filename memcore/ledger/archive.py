"""The archive: memories that consolidation or enforcement removed, in full, searchable, restorable, expiring."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, RowMapping, Subquery, delete, func, join, or_, select, update

from memcore import ids
from memcore.embedding.bm25 import K1, Bm25Encoder
from memcore.ledger.database import Repository, Row, add_new, checked_time, equals, insert_for
from memcore.ledger.rows import RecordRow, decode, encoded
from memcore.ledger.tables import OUT, archive, archive_tags, archive_terms, booking_records, bookings, tombstones
from memcore.models.archival import ArchivalEntry, ArchivalMode
from memcore.models.memory import MAX_TAGS, MemoryQuery
from memcore.records import MemoryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """An entry of the archive: a memory, whole; a search leaves the vectors out.

    Attributes:
        mode: how the summary that replaced it was written.
        run_id: the run that removed it; None for one archived outside of runs.
        returned_at: when it came back into the store; None while it is out.
        vector_space: what its vectors mean; None when they mean what the backend was given.
    """

    archival_id: str
    mode: ArchivalMode
    archived_at: datetime
    run_id: str | None
    returned_at: datetime | None
    vector_space: str | None
    record: MemoryRecord

    @property
    def original_id(self) -> str:
        """Its id in the store."""
        return self.record.entry.id

    @property
    def entry(self) -> ArchivalEntry:
        """The entry as the reference has it."""
        entry, same = self.record.entry, ("agent_id", "content", "category", "metadata", "created_at")
        kept = {name: getattr(entry, name) for name in same}
        return ArchivalEntry(original_id=entry.id, archived_at=self.archived_at, archival_mode=self.mode, **kept)

    def record_for(self, vector_space: str | None) -> MemoryRecord:
        """Return the memory for a store: with its vectors if they mean the same there, else to be embedded anew."""
        return self.record if self.vector_space == vector_space else replace(self.record, vectors=None)


class ArchiveKey(NamedTuple):
    """Names an entry and its agent."""

    agent_id: str
    archival_id: str


#: Memories written in one round: bounds the memory that a large entry takes twice.
_MEMORIES_PER_INSERT = 100


@dataclass(frozen=True, slots=True)
class ArchiveTarget:
    """The rows of memories to archive; built before the transaction opens, because that takes a while."""

    memories: list[Row]
    terms: list[Row]
    tags: list[Row]


def rows_to_archive(
    memories: Sequence[tuple[MemoryRecord, ArchivalMode]],
    *,
    company: str,
    cause: str,
    at: datetime,
    booking_id: str | None = None,
    run_id: str | None = None,
    vector_space: str | None = None,
) -> ArchiveTarget:
    """Return the rows of memories, with ids made of what they are and ``cause``: the same cause archives them once."""
    made, terms, tags = list[Row](), list[Row](), list[Row]()
    # Built for each call: it takes a hundredth of a millisecond, and its cache helps most within one entry.
    words_of = Bm25Encoder().encode_documents([record.entry.content for record, _ in memories])
    columns_of = encoded([record for record, _ in memories])
    archival_ids = [
        ids.archival_id(company=company, agent_id=record.entry.agent_id, memory_id=record.entry.id, cause=cause)
        for record, _ in memories
    ]
    for (record, mode), archival_id, words, columns in zip(memories, archival_ids, words_of, columns_of, strict=True):
        entry = record.entry
        made.append(
            {
                "archival_id": archival_id,
                "company": company,
                "agent_id": entry.agent_id,
                "original_id": entry.id,
                "booking_id": booking_id,
                "run_id": run_id,
                "mode": mode.value,
                "category": entry.category.value,
                "namespace": label(entry.namespace),
                "created_at": entry.created_at,
                "expires_at": entry.expires_at,
                "archived_at": at,
                "vector_space": vector_space,
                **columns,
            }
        )
        owner = {"archival_id": archival_id, "company": company, "agent_id": entry.agent_id}
        terms.extend(
            {**owner, "term": term, "weight": weight} for term, weight in zip(words.indices, words.values, strict=True)
        )
        tags.extend({"archival_id": archival_id, "tag": tag} for tag in sorted(set(map(label, entry.metadata.tags))))
    return ArchiveTarget(made, terms, tags)


def write_archive_rows(connection: Connection, *targets: ArchiveTarget) -> None:
    """Write the rows; what is archived already stays as it is."""
    memories = [row for target in targets for row in target.memories]
    statement = insert_for(connection, archive).on_conflict_do_nothing()
    for start in range(0, len(memories), _MEMORIES_PER_INSERT):
        connection.execute(statement, memories[start : start + _MEMORIES_PER_INSERT])
    add_new(connection, archive_terms, [row for target in targets for row in target.terms])
    add_new(connection, archive_tags, [row for target in targets for row in target.tags])


def _archived(row: RowMapping) -> Archived:
    """Return the entry of a row, without vectors where the query did not ask for them."""
    return Archived(
        **{name: row[name] for name in ("archival_id", "archived_at", "run_id", "returned_at", "vector_space")},
        mode=ArchivalMode(row["mode"]),
        record=decode(RecordRow(*(row.get(name) for name in RecordRow._fields))),  # type: ignore[arg-type]
    )


def label(text: str) -> str:
    """Return a namespace or tag in the form in which it is filtered by: databases keep neither NUL nor half a pair."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


#: Columns of an entry without its vectors, which only a restore needs.
_COLUMNS = [column for column in archive.c if column.name not in {"dense", "sparse_indices", "sparse_values"}]

#: Terms of a question that are looked up; more than any question has, and well below SQLite's limit of values.
_MAX_TERMS = 1_000

#: No term weighs as much as this in any text: the limit that the weight nears as the term is repeated.
_HEAVIEST = K1 + 1.0


def _best(company: str, agent_id: str, query: MemoryQuery, terms: Sequence[int]) -> Subquery:
    relevance = func.sum(archive_terms.c.weight) / (len(terms) * _HEAVIEST)
    # The owner is looked up in the terms alone. Said of the entries too, it offers PostgreSQL an index by owner for the
    # join, and as long as it has no statistics it takes that, and compares every entry with every other.
    return (
        select(archive.c.archival_id, relevance.label("relevance"))
        .join_from(archive_terms, archive, archive.c.archival_id == archive_terms.c.archival_id)
        .where(equals(archive_terms, company=company, agent_id=agent_id))
        .where(archive_terms.c.term.in_(terms), OUT, *_filters(query))
        .group_by(archive.c.archival_id)
        .having(relevance >= query.min_relevance)
        .order_by(relevance.desc(), archive.c.created_at.desc(), archive.c.archival_id)
        .limit(query.limit)
        .subquery()
    )


def _filters(query: MemoryQuery) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if query.categories is not None:
        found.append(archive.c.category.in_(sorted(query.categories)))
    if query.namespaces is not None:
        found.append(archive.c.namespace.in_(sorted(map(label, query.namespaces))))
    if query.since is not None:
        found.append(archive.c.created_at >= query.since)
    if query.until is not None:
        found.append(archive.c.created_at < query.until)
    if query.tags:
        wanted = sorted(set(map(label, query.tags)))
        has = archive_tags.c.archival_id == archive.c.archival_id
        present = select(func.count()).select_from(archive_tags).where(has, archive_tags.c.tag.in_(wanted))
        found.append(present.scalar_subquery() == len(wanted))
    return found


#: Entries that go in one transaction: short enough that no run waits for it.
_ENTRIES_PER_REMOVAL = 500


class Archive(Repository):
    """The tables of the archive, which lie in the journal.

    An entry is out while its memory is not in the store. One whose memory came back is neither found nor counted; it
    is kept as long as an undo may need it, so that what was brought back can go out again.
    """

    def put(self, company: str, record: MemoryRecord, *, mode: ArchivalMode, archived_at: datetime) -> str:
        """Archive a memory outside of runs and return its archival id; doing it again changes nothing."""
        checked_time("archived_at", archived_at)
        cause = archived_at.isoformat()
        archive_target = rows_to_archive([(record, mode)], company=company, cause=cause, at=archived_at)
        with self._database.write() as connection:
            write_archive_rows(connection, archive_target)
        return str(archive_target.memories[0]["archival_id"])

    def find(self, company: str, agent_id: str, entry_id: str) -> Archived | None:
        """Return an entry by its archival id or, the last one archived, by the memory's own id; None for an outsider's.

        The first eight characters of the memory's id are enough, as a prompt has them, where no other begins so. An
        entry whose memory came back is found too, after those that are out.
        """
        mine = select(archive).where(_of(company, agent_id))
        by_memory = mine.where(archive.c.original_id == entry_id)
        by_memory = by_memory.order_by(OUT.desc(), archive.c.archived_at.desc(), archive.c.archival_id).limit(1)
        with self._database.read() as connection:
            # One after the other: for both at once SQLite reads all that the agent has.
            row = connection.execute(mine.where(archive.c.archival_id == entry_id)).mappings().one_or_none()
            row = row or connection.execute(by_memory).mappings().one_or_none()
        if row is None and len(entry_id) == ids.SHORT_ID_CHARS:
            begins = archive.c.original_id.startswith(entry_id, autoescape=True)
            named = select(archive.c.original_id).where(_of(company, agent_id), begins).distinct().limit(2)
            whole = [each["original_id"] for each in self._database.rows(named)]
            return self.find(company, agent_id, whole[0]) if len(whole) == 1 and whole != [entry_id] else None
        return None if row is None else _archived(row)

    def replaced_by(
        self, company: str, agent_id: str, summary: MemoryRecord, *, going: Collection[str] = ()
    ) -> tuple[Archived, ...]:
        """Return the archived memories whose text a summary has lost, with vectors, each memory once.

        Of a summary among them, the originals behind it are returned, as long as the archive has one of these. Memories
        that are in the store are left out, unless they are about to leave it (``going``).
        """
        if not summary.lineage.summary_of:
            return ()
        order = OUT, archive.c.archived_at, archive.c.archival_id
        query = select(archive).where(_of(company, agent_id)).order_by(*order)
        rows = self._database.rows_with(query, archive.c.original_id, summary.lineage.summary_of)
        # The last archived of those that are out, if there is one.
        found = {row["original_id"]: row for row in rows if row["returned_by"] is None or row["original_id"] in going}
        behind: list[Archived] = []
        for archived in map(_archived, found.values()):
            deeper = self.replaced_by(company, agent_id, archived.record, going=going)
            behind += deeper or (() if summary.is_lossless else (archived,))
        return tuple(behind)

    def search(self, company: str, agent_id: str, query: MemoryQuery) -> tuple[Archived, ...]:
        """Return what is out and matches, without vectors: best first by words, else newest first.

        How well a text matches is the sum of the weights of the question's terms in it (memcore.embedding.bm25), as a
        share of the highest sum there can be; ``min_relevance`` is held against that share.
        """
        if len(query.tags) > MAX_TAGS:
            return ()
        order = (archive.c.created_at.desc(), archive.c.archival_id)
        if query.text is None:
            found = select(*_COLUMNS).where(_of(company, agent_id), OUT, *_filters(query))
            found = found.order_by(*order).limit(query.limit)
        elif terms := Bm25Encoder().words_of(query.text)[:_MAX_TERMS]:
            best = _best(company, agent_id, query, terms)
            found = select(*_COLUMNS).join(best, best.c.archival_id == archive.c.archival_id)
            found = found.order_by(best.c.relevance.desc(), *order)
        else:
            return ()  # the question says nothing that a text could be found by
        return tuple(map(_archived, self._database.rows(found)))

    def count(self, company: str, agent_id: str) -> int:
        """Return how many of the agent's memories are out."""
        return self._database.count(archive, _of(company, agent_id), OUT)

    def archived_by(self, run_id: str) -> int:
        """Return how many memories a run archived."""
        return self._database.count(archive, archive.c.run_id == run_id)

    def expired(self, company: str, *, returned_before: datetime, before: datetime | None = None) -> list[ArchiveKey]:
        """Return some of the entries that a company's archive need not keep; none are left when it returns none.

        Those go whose memory came back before ``returned_before``, since no undo needs them, those archived before
        ``before`` (None keeps them for ever), and those whose memory's own expiry has passed.
        """
        for condition in self._expiries(returned_before, before):
            # One condition at a time: each has an index of its own, and an OR of them might use none.
            query = select(archive.c.agent_id, archive.c.archival_id).where(archive.c.company == company, condition)
            if found := self._database.rows(query.limit(_ENTRIES_PER_REMOVAL)):
                return [ArchiveKey(row["agent_id"], row["archival_id"]) for row in found]
        return []

    def drop(
        self, company: str, entries: Sequence[ArchiveKey], *, returned_before: datetime, before: datetime | None = None
    ) -> int:
        """Delete those of the entries that need not be kept still, after their copies in the store; return how many."""
        these = archive.c.archival_id.in_([each.archival_id for each in entries]) & (archive.c.company == company)
        # Terms and tags go with their entry. What another sweep removed meanwhile is not counted twice.
        return self._database.change(delete(archive).where(these, or_(*self._expiries(returned_before, before))))

    def _expiries(self, returned_before: datetime, before: datetime | None) -> list[ColumnElement[bool]]:
        checked_time("returned_before", returned_before)
        gone = [archive.c.returned_at < returned_before, archive.c.expires_at <= self._clock()]
        if before is not None:
            checked_time("before", before)
            gone.append(archive.c.archived_at < before)
        return gone


def _of(company: str, agent_id: str) -> ColumnElement[bool]:
    return equals(archive, company=company, agent_id=agent_id)


#: Reasons for which a memory was to be deleted. What a summary that left for one of them replaced goes after it.
_DELETING = ("expired", "retention", "ended", "deleted")


def follow_moves(connection: Connection, journal_entry: RowMapping, *, at: datetime) -> None:
    """Update the archive after a settled entry: drop memories that stayed, mark those that came back or went again.

    The entry's void records have just been marked in this transaction.
    """
    booking_id, reverses = journal_entry["booking_id"], journal_entry["reverses"]
    removed = booking_records.c.kind == "removed"
    stayed = _archived_entries(journal_entry, removed & booking_records.c.void)
    connection.execute(delete(archive).where(stayed, archive.c.booking_id == booking_id))
    came = _archived_entries(journal_entry, ~removed & booking_records.c.void.is_(False))
    connection.execute(update(archive).where(came, OUT).values(returned_by=booking_id, returned_at=at))
    if reverses is not None:
        went = _archived_entries(journal_entry, removed & booking_records.c.void.is_(False))
        again = update(archive).where(went, archive.c.returned_by == reverses)
        connection.execute(again.values(returned_by=None, returned_at=None))


def drop_replaced(connection: Connection, entry_ids: Collection[str]) -> None:
    """Delete the archived originals of summaries that these entries deleted for good.

    A retention rule, an expiry, an end or a person deleted the summary: the texts behind it, at any depth, were to go
    no later. A summary that came back since has no tombstone of the entry any more.

    The journal expires the entries, at most a few hundred, in this transaction: no undo brings one back.
    """
    removed, made = booking_records.alias(), booking_records.alias()
    is_gone = (tombstones.c.memory_id == removed.c.memory_id) & (tombstones.c.booking_id == removed.c.booking_id)
    is_made = (made.c.memory_id == removed.c.memory_id) & (made.c.kind == "created")
    rows = join(removed, tombstones, is_gone).join(made, is_made)
    merges = (
        select(made.c.booking_id)
        .join_from(rows, bookings, bookings.c.booking_id == removed.c.booking_id)
        .where(bookings.c.booking_id.in_(entry_ids), bookings.c.reason.in_(_DELETING), removed.c.kind == "removed")
        .cte(recursive=True)
    )
    deeper = select(made.c.booking_id).join_from(rows, merges, merges.c.booking_id == removed.c.booking_id)
    merges = merges.union(deeper.where(removed.c.kind == "removed"))
    every = select(merges.c.booking_id)
    # By run first: entries have an index by that.
    runs = select(bookings.c.run_id).where(bookings.c.booking_id.in_(every))
    connection.execute(delete(archive).where(OUT, archive.c.run_id.in_(runs), archive.c.booking_id.in_(every)))


def _archived_entries(journal_entry: RowMapping, which: ColumnElement[bool]) -> ColumnElement[bool]:
    ids = select(booking_records.c.memory_id).where(booking_records.c.booking_id == journal_entry["booking_id"], which)
    return _of(journal_entry["company"], journal_entry["agent_id"]) & archive.c.original_id.in_(ids)
