"""Raw experience (tier 1): kept unchanged, read by id, never searched."""

import json
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, RowMapping, Select, and_, delete, func, or_, select, update

from memcore.clock import Clock
from memcore.errors import MemoryInputError, MemoryRetrievalError
from memcore.jobs.payloads import MAX_PAYLOAD_BYTES
from memcore.ledger.database import Database, checked_key, insert_new
from memcore.ledger.tables import RAW, experiences
from memcore.models.experience import DetailedExperience

#: Most experiences of a page: each may take as much as a job on the wire, 1 MiB.
MAX_PAGE = 32

#: The form of the body; a reader refuses a newer one rather than guess.
_VERSION = 1

#: What stands in columns of its own.
_COLUMNS = frozenset({"id", "agent_id", "created_at", "source_task_id"})


class ExperienceCounts(NamedTuple):
    """How many experiences an agent has.

    Attributes:
        total: all of them.
        raw: no model has looked at these yet.
        compressed: these became a memory; the rest was looked at and left as it is.
    """

    total: int
    raw: int
    compressed: int


class Experiences:
    """The experiences table, append-only; every method is one short transaction.

    Args:
        database: the ledger.
        clock: what time it is.
    """

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def append(self, company: str, experience: DetailedExperience) -> bool:
        """Keep the experience and return True; False when its id is there already, and stays as it was.

        Raises:
            MemoryInputError: a key is too long, a text is no valid Unicode, or the whole is larger than 1 MiB.
        """
        task_id = experience.source_task_id
        row = {
            "company": checked_key("company", company),
            "experience_id": checked_key("id", experience.id),
            "agent_id": checked_key("agent_id", experience.agent_id),
            "task_id": None if task_id is None else checked_key("source_task_id", task_id),
            "created_at": experience.created_at,
            "body": _encoded(experience),
        }
        with self._database.write() as connection:
            return bool(insert_new(connection, experiences, [row], key="experience_id"))

    def get(self, company: str, agent_id: str, experience_id: str) -> DetailedExperience | None:
        """Return the experience, or None when this agent has none with that id."""
        with self._database.read() as connection:
            query = select(experiences).where(_is(company, agent_id, experience_id))
            row = connection.execute(query).mappings().one_or_none()
        return _experience(row) if row else None

    def page(
        self, company: str, agent_id: str, *, before: DetailedExperience | None = None, limit: int = MAX_PAGE
    ) -> tuple[DetailedExperience, ...]:
        """Return an agent's experiences, newest first; ``before`` is the last one of the page before."""
        return self._read(_page(_of(company, agent_id), before, limit))

    def raw(
        self, company: str, agent_id: str, *, before: DetailedExperience | None = None, limit: int = MAX_PAGE
    ) -> tuple[DetailedExperience, ...]:
        """Return those that no model has looked at yet, newest first; ``before`` as in :meth:`page`."""
        return self._read(_page(_of(company, agent_id) & RAW, before, limit))

    def has_raw(self, company: str, agent_id: str) -> bool:
        """Return whether the agent has experiences that no model has looked at yet."""
        query = select(experiences.c.experience_id).where(_of(company, agent_id), RAW).limit(1)
        with self._database.read() as connection:
            return connection.execute(query).first() is not None

    def mark(
        self,
        company: str,
        agent_id: str,
        experience_id: str,
        *,
        compressed_as: str | None = None,
        reason: str | None = None,
    ) -> bool:
        """Save the outcome of a raw experience, once; False when it has one already.

        Args:
            company: the company.
            agent_id: whose experience.
            experience_id: which one.
            compressed_as: the memory that it became.
            reason: why it became none, without a word of it.
        """
        if (compressed_as is None) == (reason is None):
            raise MemoryInputError("compressed_as", "or a reason must be given, and not both")
        values = {"compressed_at": self._clock(), "compressed_as": compressed_as, "reason": reason}
        query = update(experiences).where(_is(company, agent_id, experience_id), RAW).values(values)
        with self._database.write() as connection:
            return connection.execute(query).rowcount > 0

    def count(self, company: str, agent_id: str) -> ExperienceCounts:
        """Return how many experiences the agent has, and how many of them still wait for a model."""
        raw = func.count().filter(RAW)
        query = select(func.count(), raw, func.count(experiences.c.compressed_as)).where(_of(company, agent_id))
        with self._database.read() as connection:
            return ExperienceCounts(*connection.execute(query).one())

    def delete_agent(self, company: str, agent_id: str) -> int:
        """Erase all experiences of an agent, for good, and return how many there were."""
        with self._database.write() as connection:
            return connection.execute(delete(experiences).where(_of(company, agent_id))).rowcount

    def _read(self, query: Select[Any]) -> tuple[DetailedExperience, ...]:
        with self._database.read() as connection:
            return tuple(_experience(row) for row in connection.execute(query).mappings())


def _of(company: str, agent_id: str) -> ColumnElement[bool]:
    return and_(experiences.c.company == company, experiences.c.agent_id == agent_id)


def _is(company: str, agent_id: str, experience_id: str) -> ColumnElement[bool]:
    return _of(company, agent_id) & (experiences.c.experience_id == experience_id)


def _page(which: ColumnElement[bool], before: DetailedExperience | None, limit: int) -> Select[Any]:
    at, key = experiences.c.created_at, experiences.c.experience_id
    query = select(experiences).where(which).order_by(at.desc(), key.desc()).limit(min(limit, MAX_PAGE))
    if before is None:
        return query
    # The first condition says nothing new, but an index can begin there.
    return query.where(at <= before.created_at, or_(at < before.created_at, key < before.id))


def _encoded(experience: DetailedExperience) -> bytes:
    body = {"version": _VERSION, **experience.model_dump(mode="json", exclude=set(_COLUMNS), exclude_defaults=True)}
    try:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise MemoryInputError("experience", "must be valid Unicode text") from None
    if len(text) > MAX_PAYLOAD_BYTES:
        raise MemoryInputError("experience", f"has {len(text)} bytes; the limit is {MAX_PAYLOAD_BYTES}")
    return text


def _experience(row: RowMapping) -> DetailedExperience:
    body: dict[str, Any] = json.loads(row["body"])
    version = body.pop("version")
    if version != _VERSION:
        raise MemoryRetrievalError(f"an experience has form {version}; this release reads form {_VERSION}")
    return DetailedExperience.model_validate(
        {
            **body,
            "id": row["experience_id"],
            "agent_id": row["agent_id"],
            "created_at": row["created_at"],
            "source_task_id": row["task_id"],
        }
    )
