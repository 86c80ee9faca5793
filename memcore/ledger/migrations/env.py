"""Alembic runs this file for every command: it upgrades on the connection that memcore.ledger.migrate hands over."""

from alembic import context
from sqlalchemy import Connection

_connection: Connection = context.config.attributes["connection"]

context.configure(
    connection=_connection,
    # One database may hold all trees, each with a version of its own.
    version_table=f"alembic_version_{context.config.attributes['tree']}",
    # SQLite can roll back a CREATE TABLE; Alembic assumes that it cannot.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
