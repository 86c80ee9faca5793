"""What was learnt of servers of language models: how each wants to be asked for a model."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, String, Table, delete, select

from memcore.ledger.database import Repository, UtcDateTime, checked_key, equals, json_document, put
from memcore.ledger.tables import metadata

#: One row a company and model; of the server's address a hash, for the address may hold a password.
model_servers = Table(
    "model_servers",
    metadata,
    Column("company", String, primary_key=True),
    Column("model", String, primary_key=True),
    Column("server", String, nullable=False),
    Column("learnt", json_document(), nullable=False),
    Column("learnt_at", UtcDateTime, nullable=False),
)


class ModelServers(Repository):
    """The table model_servers. Every call raises MemoryConnectionError and MemoryStoreError."""

    def learnt(self, company: str, model: str, *, server: str) -> Mapping[str, Any] | None:
        """Return what was learnt of a model at this server; None where nothing was, or at another server."""
        mine = equals(model_servers, company=company, model=model, server=server)
        row = self._database.row(select(model_servers.c.learnt).where(mine))
        return None if row is None else row["learnt"]

    def keep(self, company: str, model: str, *, server: str, body: Mapping[str, Any]) -> None:
        """Keep what was learnt, in the place of what was learnt of the model before; of two at once either may win."""
        row = {
            "company": checked_key("company", company),
            "model": model,
            "server": server,
            "learnt": dict(body),
            "learnt_at": self._clock(),
        }
        with self._database.write() as connection:
            put(connection, model_servers, [row])

    def forget(self, company: str, model: str) -> None:
        """Forget what was learnt of a model."""
        with self._database.write() as connection:
            connection.execute(delete(model_servers).where(equals(model_servers, company=company, model=model)))
