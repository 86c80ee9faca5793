"""Requests that a caller may send again under a key of its own: done once, and answered alike each time."""

from datetime import datetime, timedelta

from pydantic import Field
from sqlalchemy import ColumnElement, select, update

from memcore.errors import MemoryInputError
from memcore.ledger.database import Records, changed, checked_key, insert_one
from memcore.ledger.tables import idempotency_keys
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime

#: How long a request is known by its key.
KEPT_FOR = timedelta(hours=24)


class IdempotentRequest(Frozen):
    """A request that is known by its key.

    Attributes:
        request_hash: of the method, the path and the body.
        response: what was answered; None while nobody knows. Doing the request again must then change nothing.
        created_at: when it came first: the time to give what it makes, however often it is done.
    """

    request_hash: str
    response: bytes | None = Field(default=None, repr=False)
    created_at: BoundedTime


class Idempotency(Records[IdempotentRequest]):
    """The table of requests with an Idempotency-Key; the same key of two callers names two requests."""

    _table = idempotency_keys
    _model = IdempotentRequest

    def claim(self, company: str, key_id: str, idempotency_key: str, *, request_hash: str) -> IdempotentRequest:
        """Save a request before it is done, and return it, or what is known of the one that came first.

        Raises MemoryInputError when the key is blank or too long, or another request came under it.
        """
        name = checked_key("idempotency_key", idempotency_key)
        row = {
            "company": checked_key("company", company),
            "key_id": key_id,
            "idempotency_key": name,
            "request_hash": request_hash,
            "created_at": self._clock(),
        }
        with self._database.write() as connection:
            if insert_one(connection, idempotency_keys, row):
                return IdempotentRequest(request_hash=request_hash, created_at=row["created_at"])
        found = self._one(select(idempotency_keys).where(_is(company, key_id, name)))
        if found is None:
            # Expired in this moment: nothing is known of it any more.
            return self.claim(company, key_id, idempotency_key, request_hash=request_hash)
        if found.request_hash != request_hash:
            raise MemoryInputError("idempotency_key", "came before with another request; choose a new key")
        return found

    def record(self, company: str, key_id: str, idempotency_key: str, response: bytes) -> bytes:
        """Save what is answered, and return it; where another attempt has answered, return what that one said."""
        mine = _is(company, key_id, checked_key("idempotency_key", idempotency_key))
        unanswered = update(idempotency_keys).where(mine, idempotency_keys.c.response.is_(None))
        with self._database.write() as connection:
            if changed(connection, IdempotentRequest, unanswered.values(response=response)) is not None:
                return response
        found = self._one(select(idempotency_keys).where(mine))
        return response if found is None or found.response is None else found.response

    def expire(self, company: str, *, before: datetime) -> int:
        """Delete the requests that came before then, and return how many."""
        return self._delete(idempotency_keys.c.company == company, idempotency_keys.c.created_at < before)


def _is(company: str, key_id: str, idempotency_key: str) -> ColumnElement[bool]:
    table = idempotency_keys.c
    return (table.company == company) & (table.key_id == key_id) & (table.idempotency_key == idempotency_key)
