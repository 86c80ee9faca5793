"""Tables of the collection that serves, and of the reindex that replaces it."""

from sqlalchemy import Column, Integer, String, Table

from memcore.ledger.columns import Moment, document
from memcore.ledger.ledger_tables import metadata

#: One row a company: a switch is one update of it.
serving = Table(
    "serving",
    metadata,
    Column("company", String, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("current", document(), nullable=False),
    Column("target", document(none_as_null=True)),
    Column("previous", document(none_as_null=True)),
    Column("phase", String),
    Column("until", Moment),
    Column("changed_at", Moment, nullable=False),
)

#: The reindex of a company, the last one when it has ended: one at a time by its key.
reindexes = Table(
    "reindexes",
    metadata,
    Column("company", String, primary_key=True),
    Column("reindex_id", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("stage", String, nullable=False),
    # The id that the copying goes on from; None at its beginning and behind its end.
    Column("cursor", String),
    Column("looked_at", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    Column("written", Integer, nullable=False),
    Column("passed_over", Integer, nullable=False),
    Column("freezes", Integer, nullable=False),
    Column("token", String),
    Column("lease_until", Moment),
    Column("rung_at", Moment, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("finished_at", Moment),
    Column("trouble", String),
)

#: Whose memories were written since they were last compared.
reindex_marks = Table(
    "reindex_marks",
    metadata,
    Column("company", String, primary_key=True),
    Column("owner", String, primary_key=True),
    # The token of the worker that compares them; None for one that nobody has begun with.
    Column("taken_by", String),
)
