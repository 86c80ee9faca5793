"""Tables of the journal: entries with their memories in full, tombstones, holds, the archive, uses."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    literal_column,
)

from memcore.ledger.database import UtcDateTime

metadata = MetaData()

bookings = Table(
    "bookings",
    metadata,
    Column("booking_id", String, primary_key=True),
    Column("run_id", String, nullable=False),
    Column("company", String, nullable=False),
    Column("agent_id", String, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("reason", String, nullable=False),
    Column("incoming_kind", String, nullable=False),
    Column("state", String, nullable=False),
    Column("prepared_at", UtcDateTime, nullable=False),
    Column("settled_at", UtcDateTime),
    Column("expired_at", UtcDateTime),
    Column("reverses", String),
    UniqueConstraint("run_id", "seq", name="bookings_in_order"),
    Index("bookings_of_agent", "company", "agent_id"),
)

#: An entry that is decided and not yet carried out.
OPEN = bookings.c.state == literal_column("'prepared'")

#: An entry that is carried out and still holds its memories in full.
KEPT = (bookings.c.state == literal_column("'done'")) & bookings.c.expired_at.is_(None)

Index("bookings_open", bookings.c.company, bookings.c.agent_id, sqlite_where=OPEN, postgresql_where=OPEN)
Index("bookings_kept", bookings.c.settled_at, sqlite_where=KEPT, postgresql_where=KEPT)

booking_records = Table(
    "booking_records",
    metadata,
    Column("booking_id", String, ForeignKey("bookings.booking_id"), primary_key=True),
    Column("kind", String, primary_key=True),
    Column("memory_id", String, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("void", Boolean, nullable=False),
    Column("body", LargeBinary),
    Column("dense", LargeBinary),
    Column("sparse_indices", LargeBinary),
    Column("sparse_values", LargeBinary),
    Index("booking_records_of_memory", "memory_id"),
)

tombstones = Table(
    "tombstones",
    metadata,
    Column("memory_id", String, primary_key=True),
    Column("booking_id", String, nullable=False),
    Column("buried_at", UtcDateTime, nullable=False),
)

holds = Table(
    "holds",
    metadata,
    Column("company", String, primary_key=True),
    Column("agent_id", String, primary_key=True),
    Column("memory_id", String, primary_key=True),
    Column("until", UtcDateTime, nullable=False),
)

memory_use = Table(
    "memory_use",
    metadata,
    Column("company", String, primary_key=True),
    Column("agent_id", String, primary_key=True),
    Column("memory_id", String, primary_key=True),
    Column("uses", BigInteger, nullable=False),
    Column("last_used_at", UtcDateTime, nullable=False),
    Index("memory_use_of_memory", "memory_id"),
)

use_batches = Table(
    "use_batches",
    metadata,
    Column("batch_id", String, primary_key=True),
    Column("counted_at", UtcDateTime, nullable=False),
    Index("use_batches_oldest", "counted_at"),
)


archive = Table(
    "archive",
    metadata,
    Column("archival_id", String, primary_key=True),
    Column("company", String, nullable=False),
    Column("agent_id", String, nullable=False),
    Column("original_id", String, nullable=False),
    Column("booking_id", String),
    Column("run_id", String),
    Column("mode", String, nullable=False),
    Column("category", String, nullable=False),
    Column("namespace", String, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("archived_at", UtcDateTime, nullable=False),
    # The entry that brought the memory back into the store; empty while it is out.
    Column("returned_by", String),
    Column("returned_at", UtcDateTime),
    Column("vector_space", String),
    Column("body", LargeBinary, nullable=False),
    Column("dense", LargeBinary),
    Column("sparse_indices", LargeBinary),
    Column("sparse_values", LargeBinary),
    Index("archive_of_memory", "company", "agent_id", "original_id"),
    Index("archive_of_run", "run_id"),
    Index("archive_oldest", "company", "archived_at"),
)

#: An entry whose memory is not in the store.
OUT = archive.c.returned_by.is_(literal_column("NULL"))

#: An entry whose memory was brought back.
RETURNED = archive.c.returned_at.is_not(literal_column("NULL"))

#: An entry whose memory was to live until a time.
MORTAL = archive.c.expires_at.is_not(literal_column("NULL"))

Index(
    "archive_out",
    archive.c.company,
    archive.c.agent_id,
    archive.c.created_at,
    sqlite_where=OUT,
    postgresql_where=OUT,
)
Index("archive_returned", archive.c.company, archive.c.returned_at, sqlite_where=RETURNED, postgresql_where=RETURNED)
Index("archive_mortal", archive.c.company, archive.c.expires_at, sqlite_where=MORTAL, postgresql_where=MORTAL)

archive_terms = Table(
    "archive_terms",
    metadata,
    Column("archival_id", String, ForeignKey("archive.archival_id", ondelete="CASCADE"), primary_key=True),
    Column("term", BigInteger, primary_key=True, autoincrement=False),
    Column("company", String, nullable=False),
    Column("agent_id", String, nullable=False),
    Column("weight", Double, nullable=False),
    Index("archive_terms_of_agent", "company", "agent_id", "term"),
    sqlite_with_rowid=False,
)

archive_tags = Table(
    "archive_tags",
    metadata,
    Column("archival_id", String, ForeignKey("archive.archival_id", ondelete="CASCADE"), primary_key=True),
    Column("tag", String, primary_key=True),
    sqlite_with_rowid=False,
)
