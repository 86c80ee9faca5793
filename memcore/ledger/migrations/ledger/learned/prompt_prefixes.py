"""How an embedder is loaded, in the words of today: release 0.1.0 called its prompt prefixes ``sides``."""

import sqlalchemy as sa
from alembic import op

from memcore.ledger.database import json_document

revision = "ledger_34"
down_revision = "ledger_33"

#: The columns that say it.
_COLUMNS = ("current", "target", "previous")


def upgrade() -> None:
    """Rename the key, without which the row was refused, or the prefixes lost."""
    serving = sa.table(
        "serving", sa.column("company"), *(sa.column(name, json_document(none_as_null=True)) for name in _COLUMNS)
    )
    connection = op.get_bind()
    for row in connection.execute(sa.select(serving)).mappings().all():
        for name in _COLUMNS:
            choice = (row[name] or {}).get("choice", {})
            if "sides" in choice:
                choice["prompt_prefixes"] = choice.pop("sides")
                which = serving.c.company == row["company"]
                connection.execute(sa.update(serving).where(which).values({name: row[name]}))
