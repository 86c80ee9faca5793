"""Tables of the archive. They lie in the journal's database, so that archiving is part of the decision to delete."""

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Index, LargeBinary, String, Table, literal_column

from memcore.ledger.columns import Moment
from memcore.ledger.journal_tables import metadata

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
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment),
    Column("archived_at", Moment, nullable=False),
    # The booking that brought the memory back into the store; empty while it is out.
    Column("returned_by", String),
    Column("returned_at", Moment),
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
