"""Dead letters, which a person replays or purges, and the attempts of redelivered jobs.

A store job holds the only copy of its memories. An unreadable message is kept too; it cannot be replayed.
"""

import hashlib
import json
from base64 import b64encode
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, Self

from pydantic import Field, TypeAdapter, ValidationError
from sqlalchemy import ColumnElement, delete, select

from memcore.jobs import MAX_MESSAGE_BYTES, BasePayload, Queue, declared_payloads
from memcore.ledger.database import Records, Repository, insert_for, put
from memcore.ledger.tables import attempts, dead_letters
from memcore.ledger.webhooks.outbox import announce
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime
from memcore.models.webhook import EventNotice, WebhookEventType

#: The job name of a letter whose message could not be read.
UNREADABLE = "unreadable"

#: What is kept of a message above MAX_MESSAGE_BYTES, in bytes (64 KiB): enough to see who sent it.
HEAD_BYTES = 65_536


_FIELDS: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


def kept_of(job: type[BasePayload], payload: str) -> str:
    """Return what a letter keeps of a job's payload; of texts that it must not keep, their sizes in characters."""
    if not job.unkept:
        return payload
    try:
        fields = _FIELDS.validate_json(payload)
    except ValidationError:
        return json.dumps({"bytes": len(payload.encode("utf-8", "surrogatepass"))})
    known = {name: value for name, value in fields.items() if name in job.model_fields and name not in job.unkept}
    return json.dumps(known | {f"{name}_chars": len(str(fields[name])) for name in sorted(job.unkept & fields.keys())})


class NewDeadLetter(Frozen):
    """A job to keep as a dead letter: no worker will run it again.

    Attributes:
        payload: the job's JSON, memories and all; never shown in a repr or a log.
        reason: why no worker runs it, without memory text.
    """

    job_id: str
    company: str
    job: str
    queue: str
    payload: str = Field(repr=False)
    reason: str
    attempts: int

    @classmethod
    def unreadable(cls, content: Iterable[bytes], *, company: str, queue: str, reason: str) -> Self:
        """Return the letter of a message that no worker can read.

        Its payload is JSON: the message's ``bytes`` and ``sha256``, and the message as ``text`` or ``base64``; of one
        above MAX_MESSAGE_BYTES only the first HEAD_BYTES. The same message has the same letter. Of a message that may
        hold what people said, by its queue or by a job that it names, nothing but size and hash is kept.

        ``content`` is the message in pieces, of which only what is kept is held in memory; the reason has none of it.
        """
        kept, size, digest = bytearray(), 0, hashlib.sha256()
        for piece in content:
            size += len(piece)
            digest.update(piece)
            kept += piece[: max(0, MAX_MESSAGE_BYTES - len(kept))]
        is_kept = not _may_be_said(queue, bytes(kept))
        if size > MAX_MESSAGE_BYTES:
            del kept[HEAD_BYTES:]
        written = _written(bytes(kept)) if is_kept else {}
        encoded = json.dumps({"bytes": size, "sha256": digest.hexdigest(), **written})
        # Not the job's id: a broken copy of a message must not take the place of another's letter.
        name = hashlib.sha256(f"{queue}\n{digest.hexdigest()}".encode()).hexdigest()[:32]
        return cls(
            job_id=f"{UNREADABLE}-{name}",
            company=company,
            job=UNREADABLE,
            queue=queue,
            payload=encoded,
            reason=reason,
            attempts=1,
        )


class DeadLetter(NewDeadLetter):
    """A stored dead letter, with its time."""

    died_at: BoundedTime


class DeadLetters(Records[DeadLetter]):
    """The dead letters table."""

    _table = dead_letters
    _model = DeadLetter

    def put(self, letter: NewDeadLetter) -> None:
        """Write the letter; it replaces an earlier letter of the same job."""
        with self._database.write() as connection:
            # A replayed job may die before its replay is settled: with the older time left in the row, settling
            # would drop the new letter.
            now = self._clock()
            put(connection, dead_letters, [{**letter.model_dump(), "died_at": now}])
            data = letter.model_dump(include={"job_id", "job", "queue", "reason", "attempts"})
            announce(connection, letter.company, EventNotice(event=WebhookEventType.JOB_DEAD, data=data), at=now)

    def get(self, job_id: str) -> DeadLetter | None:
        """Return the letter, or None."""
        return self._one(select(dead_letters).where(dead_letters.c.job_id == job_id))

    def list(self, company: str, *, limit: int = 50) -> tuple[DeadLetter, ...]:
        """Return a company's letters, newest first."""
        newest = dead_letters.c.died_at.desc()
        return self._all(select(dead_letters).where(dead_letters.c.company == company).order_by(newest).limit(limit))

    def ids(self, company: str) -> "tuple[str, ...]":
        """Return the ids of a company's letters, oldest first: payloads of all of them need not fit into memory."""
        query = select(dead_letters.c.job_id).where(dead_letters.c.company == company).order_by(dead_letters.c.died_at)
        return tuple(row["job_id"] for row in self._database.rows(query))

    def count(self, company: str, *, job: str | None = None) -> int:
        """Return how many letters a company has, of one job or of all."""
        which = [] if job is None else [dead_letters.c.job == job]
        return self._database.count(dead_letters, dead_letters.c.company == company, *which)

    def counts(self, *, job: str | None = None) -> dict[str, int]:
        """Return how many letters each company has that has some, of one job or of all."""
        return self._counts(*([] if job is None else [dead_letters.c.job == job]))

    def older(self, company: str, *, before: datetime) -> int:
        """Return how many of a company's letters died before a time."""
        return self._database.count(dead_letters, _older(company, before))

    def remove(self, letter: DeadLetter) -> bool:
        """Delete exactly this letter, after its job was sent again; a newer letter of the job stays."""
        same = (dead_letters.c.job_id == letter.job_id) & (dead_letters.c.died_at == letter.died_at)
        return self._delete(same) > 0

    def purge(self, company: str, job_ids: Collection[str]) -> int:
        """Drop these letters of a company for good and return how many there were."""
        return self._dropped((dead_letters.c.company == company) & dead_letters.c.job_id.in_(job_ids))

    def purge_older(self, company: str, *, before: datetime) -> int:
        """Drop a company's letters that died before a time, for good, and return how many there were."""
        return self._dropped(_older(company, before))

    def _dropped(self, which: ColumnElement[bool]) -> int:
        ids = select(dead_letters.c.job_id).where(which)
        with self._database.write() as connection:
            connection.execute(delete(attempts).where(attempts.c.job_id.in_(ids)))
            return connection.execute(delete(dead_letters).where(which)).rowcount


def _may_be_said(queue: str, kept: bytes) -> bool:
    # The name of a job is ASCII in whatever is left of a message, but for Base64 around all of it.
    said = (payload.task.encode() for payload in declared_payloads() if payload.unkept)
    return queue == Queue.EXTRACT or any(name in kept for name in said)


def _written(kept: bytes) -> dict[str, str]:
    try:
        text = kept.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(kept).decode()}
    # Escapes may make six bytes of one; Base64 never makes more than four of three.
    return {"text": text} if len(json.dumps(text)) <= len(kept) * 4 // 3 else {"base64": b64encode(kept).decode()}


def _older(company: str, before: datetime) -> ColumnElement[bool]:
    return (dead_letters.c.company == company) & (dead_letters.c.died_at < before)


class Attempts(Repository):
    """The attempts table."""

    def count(self, job_id: str) -> int:
        """Return how often the job was started since its first redelivery; 0 when it is not counted."""
        query = select(attempts.c.starts).where(attempts.c.job_id == job_id)
        return self._database.value(query) or 0

    def begin(self, job_id: str) -> int:
        """Count one more start, before the job runs, and return how many there are now."""
        now = self._clock()
        with self._database.write() as connection:
            fresh = insert_for(connection, attempts).values(job_id=job_id, starts=1, started_at=now)
            more = {"starts": attempts.c.starts + 1, "started_at": now}
            again = fresh.on_conflict_do_update(index_elements=["job_id"], set_=more)
            starts: int = connection.execute(again.returning(attempts.c.starts)).scalar_one()
        return starts

    def end(self, job_id: str) -> None:
        """Delete the job's count: its worker survived and reported the outcome, or a person sends it again."""
        self._database.change(delete(attempts).where(attempts.c.job_id == job_id))
