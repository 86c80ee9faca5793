"""A memory with everything a backend keeps of it, so that writing it back gives the same memory again."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from memcore.embedding.bm25 import SparseVector
from memcore.errors import MemoryInputError
from memcore.models.attributes import AttributeFilter, AttributeMap, no_attributes
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.memory import (
    KEYED_TAG,
    MAX_TAGS,
    SUPERSEDED_TAG,
    BoundedTime,
    MemoryCategory,
    MemoryEntry,
    MemoryMetadata,
    MemoryStoreRequest,
    within_range,
)
from memcore.models.origin import OWN, Origin
from memcore.models.suspicion import watched

#: The key of a lesson's ``extra`` under which stands what was decided about it (memcore.procedural), and the field in
#: there that no lesson lacks; only workers write it.
LESSON_KEY, LESSON_FIELD = "procedure", "scope"

#: The key of a summary's ``extra`` that is true when the summary says all that its sources said: only then can these
#: be left out of the archive's index.
LOSSLESS_KEY = "lossless_summary"

#: The key of a lossy summary, dated as the oldest of what it replaced, under which stands the time of the newest.
COVERS_UNTIL_KEY = "covers_until"

#: When what a memory says holds: ``from`` and ``until``, in epoch seconds; one that is not there leaves it open.
VALIDITY_KEY = "validity"

#: The ids of the memories that a memory replaces.
SUPERSEDES_KEY = "supersedes"

#: Of a memory that was replaced: ``by`` which, and ``at`` what time that was made, in epoch seconds.
SUCCESSION_KEY = "succession"

#: When a memory was stored again last, word for word, in epoch seconds.
STATED_KEY = "stated_at"

#: The key that a caller gave a memory, and its free fields.
CALLER_KEY, ATTRIBUTES_KEY = "key", "attributes"

#: Raise it with any change of the prompt for search notes, or of what is kept of an answer: all are then made anew.
NOTES_VERSION = "notes-1"

#: The search notes of a memory: ``by`` which model and prompt, and the ``texts``.
SEARCH_NOTES_KEY = "search_notes"

#: What a memory was compared with older ones ``by``: model and prompt; and which it ``superseded`` by that.
COMPARED_KEY = "compared"

#: By which channels a memory came (memcore.models.origin); it is written once, and never changed.
ORIGIN_KEY = "origin"

#: Of a memory of a session, its place among those of the session: 0, 1 and so on, as they were stored.
SEQUENCE_KEY = "sequence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """What the memory was indexed as: a dense float32 vector and, where the backend has one, a sparse one.

    Attributes:
        space: what they mean (``BatchBackend.vector_space``); None when nobody said, as in records of older releases.
    """

    dense: NDArray[np.float32]
    sparse: SparseVector | None = None
    space: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchNotes:
    """Other words by which a memory is found too; they are indexed beside it, and shown to nobody.

    Attributes:
        by: what wrote them: model and prompt. Notes of another one are made anew.
        texts: each is embedded by itself.
    """

    by: str
    texts: tuple[str, ...]

    @staticmethod
    def by_model(model: str | None) -> str:
        """Return what notes are written by that a model of this name writes."""
        return f"{model or ''}/{NOTES_VERSION}"


#: The free fields that say something of their memory.
_REPORTED = frozenset(
    {COVERS_UNTIL_KEY, VALIDITY_KEY, SUCCESSION_KEY, STATED_KEY, CALLER_KEY, ATTRIBUTES_KEY, SEARCH_NOTES_KEY}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """What a memory was stored in, and which memories it replaced if it is a summary.

    ``depth`` is 0 for what an agent stored, 1 for a summary of those, and so on.
    """

    session_id: str | None = None
    project_id: str | None = None
    task_id: str | None = None
    summary_of: tuple[str, ...] = ()
    depth: int = 0


#: The fields of a request that its entry has, too.
_OF_REQUEST = tuple(name for name in MemoryStoreRequest.model_fields if name in MemoryEntry.model_fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """An entry, its lineage, its vectors, and whatever other keys stood in its payload.

    Attributes:
        vectors: None when they were not asked for, or for the backend to make.
        extra: payload keys that memtend does not know (stock mem0 may have written them); kept as they are.
    """

    entry: MemoryEntry
    lineage: Lineage = Lineage()
    vectors: Vectors | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        origin = Origin.read(self.extra.get(ORIGIN_KEY))
        is_new = origin is not None and origin is not self.entry.origin
        known = reported(self.entry, self.extra, session_id=self.lineage.session_id)
        if is_new:
            known["origin"] = origin
        if known:
            object.__setattr__(self, "entry", self.entry.model_copy(update=known))

    @classmethod
    def of(
        cls,
        memory_id: str,
        agent_id: str,
        request: MemoryStoreRequest,
        *,
        created_at: datetime,
        lineage: Lineage = Lineage(),  # it is frozen
        origin: Origin = OWN,
    ) -> Self:
        """Return the record of what was asked to be stored. Raises ValidationError."""
        fields = {name: getattr(request, name) for name in _OF_REQUEST}
        extra: dict[str, Any] = {ORIGIN_KEY: watched(origin, request.content).stored()}
        # As it is read: then the record needs no copy of the entry.
        fields["origin"] = Origin.read(extra[ORIGIN_KEY])
        if validity := stored_validity(request):
            extra[VALIDITY_KEY] = validity
        if request.supersedes:
            extra[SUPERSEDES_KEY] = list(request.supersedes)
        if request.attributes:
            extra[ATTRIBUTES_KEY] = dict(request.attributes)
        if request.key is not None:
            extra[CALLER_KEY] = request.key
            fields["metadata"] = keyed(request.metadata)
        entry = MemoryEntry(id=memory_id, agent_id=agent_id, created_at=created_at, **fields)
        return cls(entry=entry, lineage=lineage, extra=extra)

    @property
    def supersedes(self) -> tuple[str, ...]:
        """The ids of the memories that it replaces."""
        given = self.extra.get(SUPERSEDES_KEY)
        return tuple(each for each in given if isinstance(each, str)) if isinstance(given, list) else ()

    def stated_again(self, given: "MemoryRecord") -> "MemoryRecord | None":
        """Return a stored memory as it is once it was stored again: with that time, and the tags of both.

        None where nothing changes: a redelivery has the time of the first delivery, and an undo an older one. Lessons
        and summaries are no statements of an agent's. What was replaced before that time holds again.
        """
        entry, at = self.entry, given.entry.last_stated_at
        is_said = entry.agent_id == given.entry.agent_id and not (self.is_lesson or self.lineage.summary_of)
        if not is_said or at <= entry.last_stated_at:
            return None
        tags = tuple(dict.fromkeys((*entry.metadata.tags, *given.entry.metadata.tags)))
        extra = {**self.extra, STATED_KEY: at.timestamp()}
        if entry.superseded_at is not None and entry.superseded_at < at:
            tags = tuple(tag for tag in tags if tag != SUPERSEDED_TAG)
            extra.pop(SUCCESSION_KEY, None)
            entry = entry.model_copy(update={"superseded_by": None, "superseded_at": None})
        metadata = entry.metadata.model_copy(update={"tags": tags[:MAX_TAGS]})
        return replace(self, entry=entry.model_copy(update={"metadata": metadata}), extra=extra)

    @property
    def noted_by(self) -> str | None:
        """What wrote its search notes; None where it has none."""
        notes = self.extra.get(SEARCH_NOTES_KEY)
        return notes.get("by") if isinstance(notes, Mapping) else None

    @property
    def compared_by(self) -> str | None:
        """What has compared it with older memories; None where nothing has."""
        compared = self.extra.get(COMPARED_KEY)
        return compared.get("by") if isinstance(compared, Mapping) else None

    @property
    def found_superseded(self) -> frozenset[str]:
        """The memories that it replaces since a model compared them, not since somebody said so."""
        compared = self.extra.get(COMPARED_KEY)
        found = compared.get("superseded") if isinstance(compared, Mapping) else None
        return frozenset(each for each in found if isinstance(each, str)) if isinstance(found, list) else frozenset()

    def with_search_notes(self, notes: SearchNotes) -> "MemoryRecord":
        """Return the memory with search notes in place of those that it has, without vectors."""
        extra = {**self.extra, SEARCH_NOTES_KEY: {"by": notes.by, "texts": list(notes.texts)}}
        return replace(self, vectors=None, extra=extra)

    @property
    def is_lesson(self) -> bool:
        """Whether it carries what was decided about a lesson; a text in a lesson's form alone does not make one."""
        decided = self.extra.get(LESSON_KEY)
        return isinstance(decided, Mapping) and decided.get(LESSON_FIELD) not in (None, [])

    @property
    def is_lossless(self) -> bool:
        """Whether it is a summary that says all that the memories said which it replaced."""
        return bool(self.extra.get(LOSSLESS_KEY))

    @property
    def covers_until(self) -> datetime:
        """When the newest memory was made that it stands for; its own time unless it is a summary."""
        return self.entry.covers_until or self.entry.created_at


def stored_validity(request: MemoryStoreRequest) -> dict[str, float]:
    """Return when a memory holds as its payload has it; empty where nobody said."""
    times = {"from": request.valid_from, "until": request.valid_until}
    return {name: at.timestamp() for name, at in times.items() if at is not None}


def reported(entry: MemoryEntry, fields: Mapping[str, Any], *, session_id: str | None) -> dict[str, Any]:
    """Return what the free fields of a memory say of it: the fields of the entry that these change."""
    known: dict[str, Any] = {} if session_id is None else {"session_id": session_id}
    if _REPORTED.isdisjoint(fields) and not entry.search_notes:
        return known
    if COVERS_UNTIL_KEY in fields:
        known["covers_until"] = _covers_until(fields[COVERS_UNTIL_KEY], entry.created_at)
    if isinstance(validity := fields.get(VALIDITY_KEY), Mapping):
        known |= {"valid_from": _moment(validity.get("from")), "valid_until": _moment(validity.get("until"))}
    if isinstance(succession := fields.get(SUCCESSION_KEY), Mapping):
        by, at = succession.get("by"), _moment(succession.get("at"))
        known |= {"superseded_by": by, "superseded_at": at} if isinstance(by, str) and at is not None else {}
    if (stated_at := _moment(fields.get(STATED_KEY))) is not None:
        known["stated_at"] = stated_at
    if isinstance(key := fields.get(CALLER_KEY), str):
        known["key"] = key
    if isinstance(attributes := fields.get(ATTRIBUTES_KEY), Mapping):
        known["attributes"] = AttributeMap(attributes)
    if (notes := _search_notes(fields.get(SEARCH_NOTES_KEY))) != entry.search_notes:
        known["search_notes"] = notes
    return known


def _search_notes(notes: object) -> tuple[str, ...]:
    texts = notes.get("texts") if isinstance(notes, Mapping) else None
    return tuple(each for each in texts if isinstance(each, str)) if isinstance(texts, list) else ()


def _covers_until(said: Any, created_at: datetime) -> datetime | None:
    # A key that somebody else wrote may be anything.
    try:
        until = datetime.fromisoformat(said)
    except (TypeError, ValueError):
        return None
    return None if until.tzinfo is None else max(within_range(until), created_at)


def keyed(metadata: MemoryMetadata) -> MemoryMetadata:
    """Return the metadata with the tag that keeps a keyed memory as it is. Raises MemoryInputError for 64 tags."""
    if KEYED_TAG in metadata.tags:
        return metadata
    if len(metadata.tags) == MAX_TAGS:
        raise MemoryInputError("metadata.tags", f"must be at most {MAX_TAGS - 1} of a memory with a key")
    return metadata.model_copy(update={"tags": (*metadata.tags, KEYED_TAG)})


def _moment(seconds: object) -> datetime | None:
    # A key that somebody else wrote may be anything.
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    try:
        return within_range(datetime.fromtimestamp(seconds, UTC))
    except (OverflowError, ValueError, OSError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedCopy:
    """A searchable copy of an archived memory that a summary replaced.

    Attributes:
        archival_id: its id in the ledger's archive, and of the copy.
        summary_id: the summary in the store by which it is found.
        record: the memory as it was, with its vectors where these fit the store.
    """

    archival_id: str
    summary_id: str
    record: MemoryRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a scan; ask again with ``cursor`` until it is None."""

    records: tuple[MemoryRecord, ...]
    cursor: str | None


#: What a memory may have been stored in: a field of its lineage, and of a filter.
Scope = Literal["session_id", "project_id", "task_id"]

#: What the values of can be listed.
Facet = Literal["session_id", "project_id", "task_id", "namespace"]


class Where(Frozen):
    """A filter over one agent's memories; every condition given must hold.

    Attributes:
        categories, namespaces, ids: any of them; None for all.
        tags: all of them present.
        created_since, created_before: the first time included, the second not.
        expires_by: has an expiry, and it is at or before this time.
        session_id, project_id, task_id: stored in this one.
        unnoted_by: has no search notes by this.
        uncompared_by: was not compared with older memories by this.
        lessons: only lessons that memtend drew (memcore.procedural), or none of them; None for all.
        outside: stored in no session, in no project or in no task, whichever is named.
        token: carries exactly this claim mark.
        keys: any of these keys of the caller's.
        supersedes: replaces any of these memories.
        attributes: all of these values, each by its path.
    """

    agent_id: NotBlankStr
    categories: frozenset[MemoryCategory] | None = None
    namespaces: frozenset[NotBlankStr] | None = None
    tags: tuple[NotBlankStr, ...] = ()
    without_tags: tuple[NotBlankStr, ...] = ()
    created_since: BoundedTime | None = None
    created_before: BoundedTime | None = None
    expires_by: BoundedTime | None = None
    ids: frozenset[NotBlankStr] | None = None
    without_ids: frozenset[NotBlankStr] = frozenset()
    session_id: NotBlankStr | None = None
    project_id: NotBlankStr | None = None
    task_id: NotBlankStr | None = None
    unnoted_by: NotBlankStr | None = None
    uncompared_by: NotBlankStr | None = None
    lessons: bool | None = None
    outside: Scope | None = None
    token: NotBlankStr | None = None
    keys: frozenset[NotBlankStr] | None = None
    supersedes: frozenset[NotBlankStr] | None = None
    attributes: AttributeFilter = Field(default_factory=no_attributes)

    @model_validator(mode="after")
    def _ordered_range(self) -> Self:
        if self.created_since and self.created_before and self.created_since >= self.created_before:
            raise ValueError("created_since must lie before created_before")
        return self
