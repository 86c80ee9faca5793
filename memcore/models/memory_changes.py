"""Lists and changes of memories: filters, fields, pages, receipts and versions, which engines over HTTP see too."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict

from memcore.errors import MemoryInputError
from memcore.models.base import Frozen, naming_fields
from memcore.models.memory import BoundedTime, MemoryCategory, MemoryEntry, MemoryStoreRequest

#: As an expected version: whichever is there now.
ANY_VERSION = "*"

#: What became of a memory.
Event = Literal["ADD", "UPDATE", "DELETE"]


class ListFields(TypedDict, total=False):
    """The filters of a list; all of them must hold.

    Attributes:
        namespaces: any of these namespaces.
        categories: any of these categories.
        tags: all of these tags.
        keys: any of these keys.
        attributes: values that attributes must have, by path.
        since: created at this time or later.
        until: created before this time.
        expires_by: expires then or earlier. ``forget`` takes what has expired too; a list does not have it.
        session_id: stored in this session.
    """

    namespaces: Collection[str] | None
    categories: Collection[str] | None
    tags: Collection[str]
    keys: Collection[str] | None
    attributes: Mapping[str, Any] | None
    since: datetime | None
    until: datetime | None
    expires_by: datetime | None
    session_id: str | None


class UpdateFields(TypedDict, total=False):
    """The fields of a memory that can be changed; what is left out stays as it is."""

    content: str
    category: str
    tags: Collection[str]
    source: str | None
    confidence: float
    attributes: Mapping[str, Any]
    expires_at: datetime | None
    valid_from: datetime | None
    valid_until: datetime | None


def require_key(request: MemoryStoreRequest) -> str:
    """Return the key under which a memory must be new; MemoryInputError where it has none."""
    if request.key is None:
        raise MemoryInputError("key", "is needed for a memory that must be new under it")
    return request.key


def require_changes(fields: Mapping[str, Any], *, now: datetime | None = None) -> None:
    """Raise MemoryInputError where no memory at all could be changed so; without ``now`` any expiry is taken.

    What is wrong with a request comes before what is not there, here and over HTTP.
    """
    of_metadata = {name: fields[name] for name in ("source", "confidence", "tags") if name in fields}
    others = {name: value for name, value in fields.items() if name not in of_metadata}
    given = {"category": MemoryCategory.SEMANTIC, "content": "unchanged", **others, "metadata": of_metadata}
    with naming_fields():
        wanted = MemoryStoreRequest.model_validate(given)
    if now is not None and wanted.expires_at is not None and wanted.expires_at <= now:
        raise MemoryInputError("expires_at", "lies before now")


class MemoryPage(Frozen):
    """Some memories of an agent, oldest first; ask again with ``cursor`` for the next ones, None behind the last."""

    entries: tuple[MemoryEntry, ...]
    cursor: str | None


class ForgetReceipt(Frozen):
    """What was forgotten, and the run that undoes it; None where there was nothing to forget."""

    run_id: str | None
    forgotten: tuple[str, ...]


class MemoryVersion(Frozen):
    """One event in the life of a memory.

    Attributes:
        memory_id: the version that came, or that went.
        content: its text; None once the journal keeps it no more.
        at: when.
        run_id: the run that did it; None of an ADD.
    """

    event: Event
    memory_id: str
    content: str | None
    at: BoundedTime
    run_id: str | None = None
