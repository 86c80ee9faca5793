"""The row that says where a company's memories are, read within somebody's transaction."""

from sqlalchemy import Connection, select

from memcore.ledger.serving import Serving
from memcore.ledger.serving_tables import serving

#: What of the row is read.
COLUMNS = [serving.c[name] for name in Serving.model_fields]


def read_serving(connection: Connection, company: str) -> Serving | None:
    """Return where the company's memories are; None when nobody has connected to them yet."""
    row = connection.execute(select(*COLUMNS).where(serving.c.company == company)).mappings().one_or_none()
    return Serving.model_validate(dict(row)) if row else None
