"""Tables of the journal: bookings with their memories in full, tombstones, holds, uses."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
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

from memcore.ledger.columns import Moment

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
    Column("prepared_at", Moment, nullable=False),
    Column("settled_at", Moment),
    Column("expired_at", Moment),
    Column("reverses", String),
    UniqueConstraint("run_id", "seq", name="bookings_in_order"),
    Index("bookings_of_agent", "company", "agent_id"),
)

#: A booking that is decided and not yet carried out.
OPEN = bookings.c.state == literal_column("'prepared'")

#: A booking that is carried out and still holds its memories in full.
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
    Column("buried_at", Moment, nullable=False),
)

holds = Table(
    "holds",
    metadata,
    Column("company", String, primary_key=True),
    Column("agent_id", String, primary_key=True),
    Column("memory_id", String, primary_key=True),
    Column("until", Moment, nullable=False),
)

memory_use = Table(
    "memory_use",
    metadata,
    Column("company", String, primary_key=True),
    Column("agent_id", String, primary_key=True),
    Column("memory_id", String, primary_key=True),
    Column("uses", BigInteger, nullable=False),
    Column("last_used_at", Moment, nullable=False),
    Index("memory_use_of_memory", "memory_id"),
)

use_batches = Table(
    "use_batches",
    metadata,
    Column("batch_id", String, primary_key=True),
    Column("counted_at", Moment, nullable=False),
    Index("use_batches_oldest", "counted_at"),
)
