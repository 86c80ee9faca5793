"""Raw experience (tier 1): kept unchanged, read by id, never searched."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, func, select

from memcore import ids
from memcore.errors import MemoryInputError
from memcore.jobs import MAX_PAYLOAD_BYTES, ChangesPayload, CompressPayload, SearchNotesPayload
from memcore.ledger.database import Records, checked_key, equals, insert_one, record_of
from memcore.ledger.rows import kept_origin, origin_of, pack, unpack
from memcore.ledger.tables import RAW, experiences
from memcore.ledger.work_items import PlainWork, WorkItem
from memcore.models.experience import DetailedExperience

#: Most experiences of a page: each may take as much as a job on the wire, 1 MiB.
MAX_PAGE = 32

#: What stands in columns of its own.
_COLUMNS = frozenset({"id", "agent_id", "created_at", "source_task_id"})


class ExperienceCounts(NamedTuple):
    """How many experiences an agent has, how many are raw, and how many became a memory; the rest was left as it is."""

    total: int
    raw: int
    compressed: int


class Experiences(Records[DetailedExperience]):
    """The experiences table, append-only."""

    _table = experiences
    _model = DetailedExperience
    _newest_by = (experiences.c.created_at, experiences.c.experience_id)
    _page_size = MAX_PAGE

    def append(self, company: str, experience: DetailedExperience) -> bool:
        """Keep the experience and return True; False when its id is there already, and stays as it was.

        Raises MemoryInputError when a key is too long, a text is no valid Unicode, or the whole is larger than 1 MiB.
        """
        task_id = experience.source_task_id
        row = {
            "company": checked_key("company", company),
            "experience_id": checked_key("id", experience.id),
            "agent_id": checked_key("agent_id", experience.agent_id),
            "task_id": None if task_id is None else checked_key("source_task_id", task_id),
            "created_at": experience.created_at,
            "origin": kept_origin(experience.origin),
            "body": _encoded(experience),
        }
        with self._database.write() as connection:
            return insert_one(connection, experiences, row)

    def get(self, company: str, agent_id: str, experience_id: str) -> DetailedExperience | None:
        """Return the experience, or None when this agent has none with that id."""
        return self._one(select(experiences).where(_is(company, agent_id, experience_id)))

    def page(
        self, company: str, agent_id: str, *, before: DetailedExperience | None = None, limit: int = MAX_PAGE
    ) -> tuple[DetailedExperience, ...]:
        """Return an agent's experiences, newest first; ``before`` is the last one of the page before."""
        return self._page(select(experiences).where(_of(company, agent_id)), before=before, limit=limit)

    def raw(
        self, company: str, agent_id: str, *, before: DetailedExperience | None = None, limit: int = MAX_PAGE
    ) -> tuple[DetailedExperience, ...]:
        """Return those that no model has looked at yet, newest first; ``before`` as in :meth:`page`."""
        return self._page(select(experiences).where(_of(company, agent_id), RAW), before=before, limit=limit)

    def has_raw(self, company: str, agent_id: str) -> bool:
        """Return whether the agent has experiences that no model has looked at yet."""
        query = select(experiences.c.experience_id).where(_of(company, agent_id), RAW).limit(1)
        return self._database.row(query) is not None

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

        It became the memory ``compressed_as``, or none for a ``reason``, without a word of it.
        """
        if (compressed_as is None) == (reason is None):
            raise MemoryInputError("compressed_as", "or a reason must be given, and not both")
        values = {"compressed_at": self._clock(), "compressed_as": compressed_as, "reason": reason}
        return self._update(_is(company, agent_id, experience_id) & RAW, values) > 0

    def count(self, company: str, agent_id: str) -> ExperienceCounts:
        """Return how many experiences the agent has, and how many of them still wait for a model."""
        table, raw = experiences.c, func.count().filter(RAW)
        counts = (func.count().label("total"), raw.label("raw"), func.count(table.compressed_as).label("compressed"))
        query = select(*counts).where(_of(company, agent_id))
        (row,) = self._database.rows(query)
        return ExperienceCounts(**row)

    def _record(self, row: Mapping[Any, Any]) -> DetailedExperience:
        own = {"id": row["experience_id"], "source_task_id": row["task_id"], "origin": origin_of(row)}
        return record_of(DetailedExperience, row, **unpack("an experience", row["body"]), **own)

    def _position(self, record: DetailedExperience) -> tuple[Any, ...]:
        return record.created_at, record.id


class Compressions(PlainWork):
    """The compression of raw experience, an item for each agent."""

    _kind = CompressPayload.task

    def request_for(self, company: str, agent_id: str) -> WorkItem | None:
        """Make the agent's compression ready, and return it to be dispatched; None while it is open."""
        key = ids.compression_id(company=company, agent_id=agent_id)
        return self.request(key, CompressPayload(company=company, agent_id=agent_id), agent_id=agent_id)


class NoteWriting(PlainWork):
    """The writing of search notes, an item for each agent."""

    _kind = SearchNotesPayload.task

    def request_for(self, company: str, agent_id: str) -> WorkItem | None:
        """Make the agent's work ready, and return it to be dispatched; None while it is open."""
        key = ids.search_notes_id(company=company, agent_id=agent_id)
        return self.request(key, SearchNotesPayload(company=company, agent_id=agent_id), agent_id=agent_id)


class ChangeFinding(PlainWork):
    """The search for memories that newer ones replaced, an item for each agent."""

    _kind = ChangesPayload.task

    def request_for(self, company: str, agent_id: str) -> WorkItem | None:
        """Make the agent's work ready, and return it to be dispatched; None while it is open."""
        key = ids.changes_id(company=company, agent_id=agent_id)
        return self.request(key, ChangesPayload(company=company, agent_id=agent_id), agent_id=agent_id)


def _of(company: str, agent_id: str) -> ColumnElement[bool]:
    return equals(experiences, company=company, agent_id=agent_id)


def _is(company: str, agent_id: str, experience_id: str) -> ColumnElement[bool]:
    return _of(company, agent_id) & (experiences.c.experience_id == experience_id)


def _encoded(experience: DetailedExperience) -> bytes:
    body = experience.model_dump(mode="json", exclude=set(_COLUMNS), exclude_defaults=True)
    packed = pack("experience", body)
    if len(packed) > MAX_PAYLOAD_BYTES:
        raise MemoryInputError("experience", f"has {len(packed)} bytes; the limit is {MAX_PAYLOAD_BYTES}")
    return packed
