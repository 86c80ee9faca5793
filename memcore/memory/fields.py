"""The arguments of Memory and AsyncMemory, and their checks."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeAlias, TypedDict

from memcore.client.results import JobReceipt, StoreReceipt
from memcore.errors import MemoryInputError
from memcore.models.asking import MemoryQuestion
from memcore.models.base import naming_fields
from memcore.models.memory import MemoryCategory, MemoryQuery, MemoryStoreRequest, require_text

#: Seconds that ``wait`` waits by default: a store job takes milliseconds, behind a full queue a few seconds.
WAIT_SECONDS = 30.0

#: The fields of a memory that its metadata holds; here they stand beside the others.
_METADATA_FIELDS = ("source", "confidence", "tags")

#: The fields that say where a memory was made.
_SCOPE_FIELDS = ("session_id", "project_id", "task_id")

#: What can be waited for: receipts, or the ids of jobs.
Jobs: TypeAlias = StoreReceipt | JobReceipt | str | Iterable[str]


class StoreFields(TypedDict, total=False):
    """The fields of a memory beside its text.

    Attributes:
        category: ``working``, ``episodic``, ``semantic``, ``procedural`` or ``social``; ``semantic`` when left out.
        namespace: routing key inside the agent; ``default`` when left out.
        source: where it comes from, such as a conversation.
        confidence: 0 to 1; 1 when left out.
        tags: labels to filter by.
        expires_at: when it may be removed, with a time zone; never when left out.
        valid_from, valid_until: when what it says holds; open when left out.
        supersedes: ids of memories that it replaces; they stay, rank behind it, and say so.
        session_id: the session it was made in; agents of level session need it.
        project_id: the project it was made in; agents of level project need it.
        task_id: the task it was made in; working memories end with it.
        key: your own name for it in its namespace; stored again under it, a memory is a new version.
        attributes: your own fields, any JSON of at most 8 KiB.
        channel: by which way the text came: ``person``, ``operator``, ``agent`` (when left out), ``tool``,
            ``document``, ``peer`` or ``import``; at most what your key may claim.
    """

    category: str
    namespace: str
    source: str | None
    confidence: float
    tags: Collection[str]
    expires_at: datetime | None
    valid_from: datetime | None
    valid_until: datetime | None
    supersedes: Collection[str]
    session_id: str | None
    project_id: str | None
    task_id: str | None
    key: str | None
    attributes: Mapping[str, Any]
    channel: str | None


class AskFields(TypedDict, total=False):
    """How a question is answered.

    Attributes:
        categories: any of these categories alone.
        time_zone: of the asker, such as ``Europe/Berlin``, for words such as "yesterday"; the policy's when left out.
        min_authority: least authority of a memory that the answer rests on, as in search.
        token_budget: most tokens of memories that the model reads; 1,000 when left out.
        timeout_seconds: how long the model is waited for; 20 when left out. After that the passages are the answer.
    """

    categories: Collection[str] | None
    time_zone: str | None
    min_authority: str | None
    token_budget: int
    timeout_seconds: float


class SearchFields(TypedDict, total=False):
    """The filters of a search; all of them must hold.

    Attributes:
        categories: any of these categories.
        namespaces: any of these namespaces.
        tags: all of these tags.
        since: created at this time or later.
        until: created before this time.
        as_of: only what was there at this time and held then.
        time_zone: of the asker, such as ``Europe/Berlin``, for words such as "yesterday"; the policy's when left out.
        min_relevance: least relevance score, 0 to 1.
        min_scores: least ``semantic``, ``keyword`` and ``final`` scores.
        min_evidence: evidence of the best memory, 0 to 1, from which on what stands near it is strong.
        standing: ``strong``, ``weak`` (the default: at most three weak ones where none is strong) or ``any``.
        explain: whether each memory says why it is shown, in ``why``.
        attributes: values that attributes must have, each by its path, as in ``origin.channel``.
        min_authority: least authority: ``instruct``, ``inform`` or ``reference`` (when left out); for people also
            ``quarantined``.
        limit: most memories, 1 to 1000; 10 when left out; fewer where fewer earn their place.
    """

    categories: Collection[str] | None
    namespaces: Collection[str] | None
    tags: Collection[str]
    since: datetime | None
    until: datetime | None
    as_of: datetime | None
    time_zone: str | None
    min_relevance: float
    min_scores: Mapping[str, float] | None
    min_evidence: float | None
    standing: str | None
    explain: bool
    attributes: Mapping[str, Any]
    min_authority: str | None
    limit: int


def split_fields(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields as those of a MemoryStoreRequest without its text, and those of a Scope."""
    for name in fields.keys() - StoreFields.__annotations__.keys():
        raise MemoryInputError(name, "is not a known field")
    request: dict[str, Any] = {"category": MemoryCategory.SEMANTIC}
    metadata: dict[str, Any] = {}
    scope: dict[str, Any] = {}
    for name, value in fields.items():
        place = metadata if name in _METADATA_FIELDS else scope if name in _SCOPE_FIELDS else request
        place[name] = value
    return {**request, "metadata": metadata}, scope


def with_fields(
    memories: Iterable[str | MemoryStoreRequest | Mapping[str, Any]], request: Mapping[str, Any]
) -> Iterator[MemoryStoreRequest | Mapping[str, Any]]:
    """Return the memories as a client takes them: texts with the fields, and others as they are."""
    if isinstance(memories, (str, bytes, Mapping)) or not isinstance(memories, Iterable):
        raise MemoryInputError("memories", "must be several memories; store takes a single one")
    for each in memories:
        yield {**request, "content": each} if isinstance(each, str) else each


@contextmanager
def named_as_given() -> Iterator[None]:
    """Name a wrong field as the caller wrote it."""
    try:
        yield
    except MemoryInputError as error:
        parts = [part for part in error.field.split(".") if part not in {"metadata", "scope"}]
        if parts and parts[0] == "requests":
            parts[0] = "memories"
        raise MemoryInputError(".".join(parts) or error.field, error.problem) from None


def checked_query(text: str | None, filters: Mapping[str, Any]) -> MemoryQuery:
    """Return the query that a search asks for. Raises MemoryInputError."""
    with naming_fields():
        return MemoryQuery.model_validate({**filters, "text": text})


def checked_question(question: str, fields: Mapping[str, Any]) -> MemoryQuestion:
    """Return the question that is asked. Raises MemoryInputError."""
    with naming_fields():
        return MemoryQuestion.model_validate({**fields, "question": question})


def job_ids_of(jobs: Jobs) -> tuple[str, ...]:
    """Return the ids of the jobs to wait for. Raises MemoryInputError for what is none."""
    match jobs:
        case StoreReceipt():
            return jobs.job_ids
        case JobReceipt():
            return (jobs.job_id,)
        case str():
            return (jobs,)
        case Iterable():
            return tuple(require_text(each, field=f"jobs.{place}") for place, each in enumerate(jobs))
        case _:
            raise MemoryInputError("jobs", "must be a receipt, or ids of jobs")
