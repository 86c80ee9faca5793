"""Memories to and from the archive's rows, inside a transaction that someone else opened."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping

from memcore import ids
from memcore.archival_models import ArchivalMode
from memcore.backends.record import MemoryRecord
from memcore.embedding.bm25 import Bm25Encoder
from memcore.ledger.archive_tables import archive, archive_tags, archive_terms
from memcore.ledger.archived import Archived
from memcore.ledger.booking import Booking
from memcore.ledger.insert import add_new, insert_for
from memcore.ledger.rows import RecordRow, decode, encode

#: Memories written in one round: bounds the memory that a large booking takes twice.
_MEMORIES_PER_INSERT = 100


@dataclass(frozen=True, slots=True)
class Shelf:
    """The rows of memories that are about to be archived; made before a transaction is opened, for it takes a while."""

    memories: Sequence[Mapping[str, Any]]
    terms: Sequence[Mapping[str, Any]]
    tags: Sequence[Mapping[str, Any]]


def shelf_of(booking: Booking, *, at: datetime) -> Shelf:
    """Return the rows of what a booking archives."""
    return shelf(
        [(record, mode) for record in booking.outgoing if (mode := booking.archived.get(record.entry.id))],
        company=booking.company,
        cause=booking.booking_id,
        at=at,
        booking_id=booking.booking_id,
        run_id=booking.run_id,
        vector_space=booking.vector_space,
    )


def shelf(
    memories: Iterable[tuple[MemoryRecord, ArchivalMode]],
    *,
    company: str,
    cause: str,
    at: datetime,
    booking_id: str | None = None,
    run_id: str | None = None,
    vector_space: str | None = None,
) -> Shelf:
    """Return the rows of memories, with ids made of what they are and ``cause``: the same cause archives them once."""
    # For each call anew: it costs a hundredth of a millisecond, and what it remembers helps most within one booking.
    encoder = Bm25Encoder()
    made, terms, tags = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    for record, mode in memories:
        entry = record.entry
        archival_id = ids.archival_id(company=company, agent_id=entry.agent_id, memory_id=entry.id, cause=cause)
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
                **encode(record)._asdict(),
            }
        )
        owner = {"archival_id": archival_id, "company": company, "agent_id": entry.agent_id}
        words = encoder.encode_document(entry.content)
        terms.extend(
            {**owner, "term": term, "weight": weight} for term, weight in zip(words.indices, words.values, strict=True)
        )
        tags.extend({"archival_id": archival_id, "tag": tag} for tag in sorted(set(map(label, entry.metadata.tags))))
    return Shelf(made, terms, tags)


def put(connection: Connection, shelf: Shelf) -> None:
    """Write the rows; what is archived already stays as it is."""
    statement = insert_for(connection, archive).on_conflict_do_nothing()
    for start in range(0, len(shelf.memories), _MEMORIES_PER_INSERT):
        connection.execute(statement, list(shelf.memories[start : start + _MEMORIES_PER_INSERT]))
    add_new(connection, archive_terms, [dict(row) for row in shelf.terms])
    add_new(connection, archive_tags, [dict(row) for row in shelf.tags])


def archived_of(row: RowMapping) -> Archived:
    """Return the entry of a row, without vectors where the query did not ask for them."""
    return Archived(
        archival_id=row["archival_id"],
        mode=ArchivalMode(row["mode"]),
        archived_at=row["archived_at"],
        run_id=row["run_id"],
        returned_at=row["returned_at"],
        vector_space=row["vector_space"],
        record=decode(RecordRow(*(row.get(name) for name in RecordRow._fields))),  # type: ignore[arg-type]
    )


def label(text: str) -> str:
    """Return a namespace or tag in the form in which it is filtered by: databases keep neither NUL nor half a pair."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
