"""Many rows as one array for each column: PostgreSQL reads them in one statement whose text does not grow."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Column, bindparam, column, func
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.selectable import TableValuedAlias


def unnested(columns: Mapping[str, Column[Any]], rows: Sequence[Mapping[str, Any]]) -> TableValuedAlias:
    """Return the rows as a table with these columns, typed as the columns of a real table; PostgreSQL alone knows it.

    A placeholder for each value costs the driver's parser more than the server takes to write the row: 1,000 runs have
    14,000 of them.
    """
    arrays = [bindparam(None, [row[name] for row in rows], ARRAY(real.type)) for name, real in columns.items()]
    names = [column(name, real.type) for name, real in columns.items()]
    return func.unnest(*arrays).table_valued(*names).render_derived(name="given")
