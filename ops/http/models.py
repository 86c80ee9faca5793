"""Bodies of requests and answers; the limits of fields are those of memtend's own models."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    Field,
    JsonValue,
    PlainSerializer,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from memcore.jobs import MAX_STORE_ITEMS, MAX_TURN_CHARS
from memcore.models.answers import MemoryScores, MemoryWhy, Standing
from memcore.models.asking import MemoryQuestion
from memcore.models.attributes import AttributeFilter
from memcore.models.base import Frozen
from memcore.models.execution import ChatMessage, ExecutionTrace
from memcore.models.memory import (
    MAX_CONTENT_BYTES,
    MAX_KEY_CHARS,
    MAX_SUPERSEDED,
    MAX_TAGS,
    BoundedTime,
    Content,
    MemoryCategory,
    MemoryEntry,
    MemoryQuery,
    TimeZone,
)
from memcore.models.memory_changes import MemoryVersion
from memcore.models.origin import Authority, Channel, Origin, Raised

#: A name or an id of the caller's.
Name = Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARS)]

#: The text of a memory: at most 65,536 bytes, which the document can only say as characters.
Text = Annotated[Content, Field(json_schema_extra={"minLength": 1, "maxLength": MAX_CONTENT_BYTES})]

#: Most tokens of a prepared context.
MAX_TOKENS = 1_000_000

#: Most memories that are named to be forgotten.
MAX_FORGOTTEN = 1_000

#: Longest text that is searched for, in characters.
MAX_QUERY_CHARS = 65_536


class Fields(Frozen):
    """What a memory has beside its text; what is left out is as in Memory.store.

    Attributes:
        channel: by which way the text came, at most what the key may claim: a channel above that is refused with 403.
    """

    category: MemoryCategory = MemoryCategory.SEMANTIC
    namespace: Name = "default"
    source: Name | None = None
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)
    tags: tuple[Name, ...] = Field(default=(), max_length=MAX_TAGS)
    expires_at: AwareDatetime | None = None
    valid_from: AwareDatetime | None = None
    valid_until: AwareDatetime | None = None
    supersedes: tuple[Name, ...] = Field(default=(), max_length=MAX_SUPERSEDED)
    key: Name | None = None
    attributes: dict[str, JsonValue] = Field(default_factory=dict)
    channel: Channel | None = None

    def given(self) -> dict[str, Any]:
        """Return the fields that the request gave."""
        return self.model_dump(exclude_unset=True, exclude={"content", "memories"})


class StoreBody(Fields):
    """A memory to store.

    Attributes:
        content: the text, kept exactly as given; at most 65,536 bytes.
        session_id: the session, project and task that it was made in; agents of such a level need them.
    """

    content: Text
    session_id: Name | None = None
    project_id: Name | None = None
    task_id: Name | None = None


class BatchItem(Fields):
    """One of many memories to store."""

    content: Text


class BatchBody(Frozen):
    """Memories of one agent, made in one session, project and task."""

    memories: tuple[BatchItem, ...] = Field(min_length=1, max_length=MAX_STORE_ITEMS)
    session_id: Name | None = None
    project_id: Name | None = None
    task_id: Name | None = None


class Accepted(Frozen):
    """What is on its way: ``/v1/operations/{operation_id}`` says how far."""

    operation_id: str


class Stored(Accepted):
    """Memories that are on their way, or with ``wait`` stored; they have these ids, in the order given.

    Attributes:
        unknown_supersedes: how many ids of ``supersedes`` name no memory; without ``wait`` the operation counts them.
    """

    memory_ids: tuple[str, ...]
    unknown_supersedes: int | None = None


class MemoryView(MemoryEntry):
    """A memory, with all that is known of it."""

    scores: MemoryScores | None = None
    standing: Standing | None = None
    why: MemoryWhy | None = None
    covers_until: BoundedTime | None = None
    valid_from: BoundedTime | None = None
    valid_until: BoundedTime | None = None
    superseded_by: str | None = None
    superseded_at: BoundedTime | None = None
    key: str | None = None
    attributes: Annotated[Mapping[str, Any], PlainSerializer(dict, return_type=dict[str, Any])] = Field(
        default_factory=dict
    )
    session_id: str | None = None
    origin: Origin | None = None
    authority: Authority | None = None
    raised: Raised | None = None

    @classmethod
    def of(cls, entry: MemoryEntry) -> "MemoryView":
        """Return an entry as it is shown."""
        return cls.model_construct(**vars(entry))


class SearchBody(MemoryQuery):
    """What to look for; without ``text`` the filters alone decide and the newest come first."""

    # A default that JSON can write, for the document.
    attributes: AttributeFilter = Field(default_factory=dict)


class AskBody(MemoryQuestion):
    """A question to be answered from the agent's memory."""

    def fields(self) -> dict[str, Any]:
        """Return how it is to be answered, as far as the request says."""
        return self.model_dump(exclude={"question"}, exclude_unset=True)


class Found(Frozen):
    """Memories that match, best first."""

    memories: tuple[MemoryView, ...]


class Page(Found):
    """Memories, oldest first; ask again with ``cursor`` for the next ones, null behind the last."""

    cursor: str | None


class UpdateBody(Frozen):
    """The fields of a memory that change; what is left out stays."""

    content: Text = ""
    category: MemoryCategory = MemoryCategory.SEMANTIC
    tags: tuple[Name, ...] = Field(default=(), max_length=MAX_TAGS)
    source: Name | None = None
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)
    attributes: dict[str, JsonValue] = Field(default_factory=dict)
    expires_at: AwareDatetime | None = None
    valid_from: AwareDatetime | None = None
    valid_until: AwareDatetime | None = None


class ForgetBody(Frozen):
    """Which memories to forget: by their ids, by filters that must all hold, or all of the agent.

    Attributes:
        everything: true for all; then neither ids nor filters.
        expected: the version of a single memory that is to be forgotten.
    """

    memory_ids: tuple[Name, ...] | None = Field(default=None, max_length=MAX_FORGOTTEN)
    everything: Literal[True] | None = None
    expected: Name | None = None
    namespaces: tuple[Name, ...] | None = None
    categories: tuple[MemoryCategory, ...] | None = None
    tags: tuple[Name, ...] | None = None
    keys: tuple[Name, ...] | None = None
    attributes: dict[str, StrictBool | StrictInt | StrictFloat | StrictStr] | None = None
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    expires_by: AwareDatetime | None = None
    session_id: Name | None = None


class Versions(Frozen):
    """What became of a memory, oldest first."""

    versions: tuple[MemoryVersion, ...]


class ContextBody(Frozen):
    """What a prompt is to be prepared for.

    Attributes:
        text: what the coming turn is about.
        token_budget: most tokens of policies and memories.
        require_all: whether the answer is 503 where a part of the installation does not answer.
        time_zone: the asker's, as in a search.
        min_authority: the least authority of what is shown, as in a search.
    """

    text: str = Field(min_length=1, max_length=MAX_QUERY_CHARS)
    token_budget: StrictInt = Field(ge=0, le=MAX_TOKENS)
    categories: tuple[MemoryCategory, ...] | None = None
    require_all: bool = False
    time_zone: TimeZone | None = None
    min_authority: Authority | None = None


class Prepared(Frozen):
    """Messages to put between the system prompt and the turn.

    Attributes:
        degraded: the parts that did not answer, so that memories may be missing; the last message says it too.
    """

    messages: tuple[ChatMessage, ...]
    degraded: tuple[str, ...] = ()


class SessionBody(Frozen):
    """A session of a conversation; the memory is the user's, or the session's where no user is named."""

    session_id: Name
    user_id: Name | None = None
    at: AwareDatetime | None = None


class TurnBody(SessionBody):
    """A turn of a conversation.

    Attributes:
        turn: the turn's own name; sent again under it, it is kept once.
    """

    user_text: str = Field(min_length=1, max_length=MAX_TURN_CHARS)
    assistant_text: str = Field(default="", max_length=MAX_TURN_CHARS)
    turn: Name | None = None


class TurnAccepted(Accepted):
    """A turn that is on its way."""

    turn_id: str


class LoadBody(Frozen):
    """A turn that is to be answered."""

    text: str = Field(min_length=1, max_length=MAX_TURN_CHARS)
    user_id: Name | None = None
    session_id: Name | None = None
    token_budget: StrictInt = Field(default=1_000, ge=0, le=MAX_TOKENS)
    is_first_turn: bool | None = None
    min_authority: Authority | None = None


class Loaded(Prepared):
    """What is remembered of a person, as messages; ``reasons`` says why there is less than there might be."""

    reasons: tuple[str, ...] = ()


class RecallBody(Frozen):
    """Whether what is remembered of a person is shown."""

    is_on: bool
    user_id: Name | None = None
    session_id: Name | None = None


class TraceBody(Frozen):
    """How a task went."""

    trace: ExecutionTrace
    session_id: Name | None = None
    project_id: Name | None = None


class TraceAccepted(Accepted):
    """A trace that is on its way; its memory, experience and trajectory will have its id."""

    trace_id: str


class Health(Frozen):
    """The process answers."""

    status: str = "ok"


class Ready(Frozen):
    """Which parts of the installation answer; ``waiting`` names workers of this machine's stack that take no jobs."""

    is_ready: bool
    ledger: bool
    broker: bool
    store: bool
    waiting: tuple[str, ...] = ()


class Namespaces(Frozen):
    """The namespaces of an agent."""

    namespaces: tuple[str, ...]


def utc_or(at: datetime | None, now: datetime) -> datetime:
    """Return a time that a request gave, or else when it came."""
    return now if at is None else at
