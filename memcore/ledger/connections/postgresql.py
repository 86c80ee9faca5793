"""PostgreSQL connections whose waits end with the deadline of a reading request; libpq itself waits for ever."""

import math
from typing import Any

from psycopg import Connection, OperationalError
from psycopg.abc import RV, PQGen
from psycopg.pq import TransactionStatus

from memcore.deadline.limits import part_limit


class LimitedConnection(Connection[Any]):
    """Ends a wait for the server with the deadline; the connection is closed then, since its answer may still come."""

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait for the server's answer. Raises OperationalError where it does not come in time."""
        try:
            return super().wait(gen, interval, part_limit() if timeout is None else timeout)
        except OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()
            raise


def connect(_dialect: object, _record: object, arguments: Any, parameters: dict[str, Any]) -> LimitedConnection:
    """Connect in place of SQLAlchemy, which hands over what its own connect would be given."""
    limit = part_limit()
    if limit is not None:
        parameters["connect_timeout"] = math.ceil(limit)
    return LimitedConnection.connect(*arguments, **parameters)
