"""What a memory is: the types of its fields, and the enums and value objects that every package shares.

Names, fields, defaults and bounds are those of the reference (memory-api-reference, Models). All that checks a value of
a memory stands here, so that one file says what a stored memory can be.
"""

import hashlib
import uuid
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    AwareDatetime,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from memcore.errors import MemoryInputError
from memcore.models.answers import MemoryScores, MemoryWhy, Shown, Standing
from memcore.models.attributes import AttributeFilter, Attributes, canonical_json, no_attributes
from memcore.models.base import UNSEEN, Frozen, NotBlankStr, is_unsaid
from memcore.models.origin import Authority, Channel, Origin, Raised, authority, channels_below, is_shown, least_shown

#: The tag of every tier 1 experience.
DETAILED_TAG = "detailed_experience"

#: The tag of every tier 2 experience.
COMPRESSED_TAG = "compressed_experience"

#: The source of a distillation, and its only tag.
DISTILLATION = "distillation"

#: The tag of memories whose content an agent cannot find out by looking at its code or environment.
NON_INFERABLE_TAG = "non-inferable"

#: The sections of a lesson's text in order: by the first it is chosen, the next three say when to do what and why, the
#: last one, which may be left out, has the steps.
LESSON_SECTIONS = ("DISCOVERY", "CONDITION", "ACTION", "RATIONALE", "EXECUTION")

#: Tag of the summaries.
CONDENSED_TAG = "condensed"

#: Tag of a summary that a model wrote.
SYNTHESIZED_TAG, ABSTRACTIVE_TAG = "llm-synthesized", "mode:abstractive"

#: Tag of a summary that was to be a model's and could not.
FALLBACK_TAG = "concat-fallback"

#: Tag that every summary carries.
CONSOLIDATED_TAG = "consolidated"

#: Tag of a memory that a newer one has replaced.
SUPERSEDED_TAG = "superseded"

#: Tag of core memories; a policy's own (memory.retrieval.self_editing.core_memory_tag) is protected beside it.
CORE_TAG = "core"

#: Most memories that one memory may replace.
MAX_SUPERSEDED = 256

#: Tag of a memory that an agent wrote by a tool of its own.
SELF_EDITED_TAG = "self_edited"

#: Tag of a memory that has a key of its caller's.
KEYED_TAG = "keyed"

#: Tags that keep a memory as it is. A summary of summaries would lose most of each (``consolidated``); distillations
#: are read whole by later steps; compressed experience is JSON, and would be torn; superseded entries are evidence;
#: core and pinned ones were chosen by someone; a keyed one is asked for by its key.
PROTECTED_FROM_CONSOLIDATION = (
    *("distillation", COMPRESSED_TAG, CONSOLIDATED_TAG, SUPERSEDED_TAG),
    *(CORE_TAG, "pinned", KEYED_TAG),
)

#: Tags of memories that a limit removes last, and pruning never.
PROTECTED_FROM_ENFORCEMENT = (CORE_TAG, "pinned")

#: Longest agent id, namespace, source or tag, in characters; they are index keys, not prose.
MAX_KEY_CHARS = 256

#: Longest memory, in UTF-8 bytes (64 KiB); a longer text is a document, not a memory.
MAX_CONTENT_BYTES = 65_536

#: Most tags on one memory.
MAX_TAGS = 64

#: Agent ids that begin so are refused: spaces that belong to no agent (shared knowledge) are kept under such ids.
RESERVED_PREFIX = "__"

#: The owner id of shared knowledge, which is kept beside the agents' memories; each entry names its publisher.
SHARED_OWNER = f"{RESERVED_PREFIX}shared__"

#: With an agent's id behind it, the owner id of the searchable copies of its archived memories.
ARCHIVE_OWNER_PREFIX = f"{RESERVED_PREFIX}archive__"

#: The owner of the canary's memories (memcore/canary.py). The store takes it as it takes an agent's id; no API does,
#: and the ledger lists no such agent, so that maintenance, counts, prompts and exports never see it.
CANARY_OWNER = f"{RESERVED_PREFIX}canary__"

#: Whose publications a search leaves out: one agent's, those of several, or nobody's.
Excluded = str | Collection[str] | None

#: Prefix of the tag that names a copied lesson's first agent.
PROPAGATED_TAG = "propagated:"

#: Characters of the hash that replaces the end of an agent id too long for a tag.
_HASH_CHARS = 16


def propagated_tag(agent_id: str) -> str:
    """Return the tag that names the agent whose lesson it was; a very long id is cut and ends with a hash."""
    tag = f"{PROPAGATED_TAG}{agent_id}"
    if len(tag) <= MAX_KEY_CHARS:
        return tag
    digest = hashlib.sha256(agent_id.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    return f"{tag[: MAX_KEY_CHARS - _HASH_CHARS - 1]}~{digest}"


def one_line(value: str) -> str:
    """Return a name that is safe in a line of a terminal or a log; ValueError for a character that is not."""
    found = UNSEEN.search(value)
    if found:
        raise ValueError(f"must not contain the control character U+{ord(found[0]):04X}")
    return value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain the character NUL")
    return value


#: Text kept exactly as it was given, but refused when it is blank.
NotBlankText = Annotated[str, AfterValidator(_not_blank)]

#: Beside a key's type: PostgreSQL keeps no NUL in a text, and would refuse it long after it was sent.
NoNul = AfterValidator(_without_nul)

#: Beside the type of a name or id that a caller gives: it is printed, logged and compared.
OneLine = AfterValidator(one_line)

#: Tags in the order they were given, each once.
Tags = Annotated[tuple[NotBlankStr, ...], AfterValidator(lambda tags: tuple(dict.fromkeys(tags)))]

#: A key as a row or a job of memtend's own holds it; an older release took control characters.
StoredKey = Annotated[NotBlankStr, StringConstraints(max_length=MAX_KEY_CHARS), NoNul]

#: A name by which things are found, as a caller gives it: a company, a session, a task.
Key = Annotated[StoredKey, OneLine]


def not_reserved(agent_id: str) -> str:
    """Return an agent's id; ValueError for one that belongs to no agent."""
    if agent_id.startswith(RESERVED_PREFIX):
        raise ValueError(f"must not begin with {RESERVED_PREFIX!r}; such ids are reserved")
    return agent_id


def not_dots(name: str) -> str:
    """Return a name; ValueError for one that a path over HTTP cannot have: clients take such a part out of it."""
    if name in {".", ".."}:
        raise ValueError("must not be '.' or '..', which no path over HTTP can name")
    return name


#: An agent's id as a caller gives it.
AgentId = Annotated[Key, AfterValidator(not_reserved)]

#: The id of an agent that may be new, as a caller gives it; an older release took dots alone.
NewAgentId = Annotated[AgentId, AfterValidator(not_dots)]

#: The id of an agent that is known, as a caller gives it.
KnownAgentId = Annotated[StoredKey, AfterValidator(not_reserved)]


def _stored_owner(owner: str) -> str:
    return owner if owner == CANARY_OWNER else not_reserved(owner)


#: The owner of a memory on its way into the store: an agent, or the canary.
StoredOwner = Annotated[Key, AfterValidator(_stored_owner)]


def _one_line_each(tags: tuple[str, ...]) -> tuple[str, ...]:
    for tag in tags:
        one_line(tag)
    return tags


def _bounded(text: str) -> str:
    # Bytes, not characters: the broker and the store pay per byte.
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode text") from None
    if size > MAX_CONTENT_BYTES:
        raise ValueError(f"has {size} bytes; the limit is {MAX_CONTENT_BYTES}")
    return text


def _short(tags: tuple[str, ...]) -> tuple[str, ...]:
    for tag in tags:
        if len(tag) > MAX_KEY_CHARS:
            raise ValueError(f"a tag has {len(tag)} characters; the limit is {MAX_KEY_CHARS}")
    return tags


#: The text of a memory or fact, kept exactly as it was given.
Content = Annotated[NotBlankText, AfterValidator(_bounded)]

#: Labels that memories and facts are filtered by, each once.
Labels = Annotated[Tags, AfterValidator(_short), Field(max_length=MAX_TAGS)]

#: The same as a caller gives them.
NewLabels = Annotated[Labels, AfterValidator(_one_line_each)]


#: First and last time that a model takes. Python's own end with the years 1 and 9999: a thousand years of room let any
#: zone, retention or pause be added without an overflow, and four digits keep years in order as text.
EARLIEST, LATEST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def in_range(at: datetime) -> datetime:
    """Return an aware time from EARLIEST to LATEST; ValueError for any other."""
    if not EARLIEST <= at <= LATEST:
        raise ValueError(f"must lie from the year {EARLIEST.year} to the year {LATEST.year}")
    return at


def within_range(at: datetime) -> datetime:
    """Return the nearest time from EARLIEST to LATEST, for what an older release stored before there was a range."""
    return min(max(at, EARLIEST), LATEST)


#: The type of every time in a model: with a zone, and in the range.
BoundedTime = Annotated[AwareDatetime, AfterValidator(in_range)]


def zone_of(name: str) -> tzinfo:
    """Return the time zone of an IANA name, such as Europe/Berlin. Raises ValueError for one that is not known."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        # A machine without a table of zones knows none but UTC.
        raise ValueError("is no known time zone, such as Europe/Berlin; a machine without any needs tzdata") from None


def _known_zone(name: str) -> str:
    zone_of(name)
    return name


#: The name of a time zone that is known here.
TimeZone = Annotated[NotBlankStr, AfterValidator(_known_zone)]

#: How far a time of the past may lie ahead of the sender's clock: those of two machines differ.
CLOCK_SKEW = timedelta(minutes=5)


def require_past(name: str, at: datetime, now: datetime) -> None:
    """Raise ValueError, as validators do, where the time at which something happened lies ahead of the clock."""
    if at > now + CLOCK_SKEW:
        raise ValueError(f"{name}: lies more than {CLOCK_SKEW // timedelta(minutes=1)} minutes ahead of the clock")


class MemoryCategory(StrEnum):
    """What kind of memory it is."""

    WORKING = "working"
    EPISODIC = "episodic"
    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"
    SOCIAL = "social"


class MemoryLevel(StrEnum):
    """How long an agent's memories live."""

    PERSISTENT = "persistent"
    PROJECT = "project"
    SESSION = "session"
    NONE = "none"


class ConsolidationInterval(StrEnum):
    """How often an agent's maintenance is due."""

    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    NEVER = "never"


class MemoryMetadata(Frozen):
    """What is known about a memory beside its text.

    Attributes:
        source: where it comes from (a task, a conversation, "consolidation"); None when unknown.
        confidence: 0.0 to 1.0.
        tags: labels to filter by, each once.
    """

    source: NotBlankStr | None = Field(default=None, max_length=MAX_KEY_CHARS)
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)
    tags: Labels = ()


def _one_line_labels(metadata: MemoryMetadata) -> MemoryMetadata:
    for field, names in (("source", (metadata.source or "",)), ("tags", metadata.tags)):
        try:
            _one_line_each(names)
        except ValueError as error:
            raise ValueError(f"{field} {error}") from None
    return metadata


#: What is known about a memory, as a caller gives it.
NewMetadata = Annotated[MemoryMetadata, AfterValidator(_one_line_labels)]


class MemoryStoreRequest(Frozen):
    """A memory to store: the fields of an entry that its writer gives; the client gives it its id and its time.

    Attributes:
        namespace: routing key inside an agent.
        content: the text, kept exactly as given; the character NUL is refused.
        expires_at: when retention may remove it whatever its age; None for never.
        valid_from: from when on it holds; None for the time it was made.
        valid_until: from when on it holds no more, which is after ``valid_from``; it stays, and says so.
        supersedes: ids of memories of the same agent that it replaces, at most 256. They stay, rank behind it, and say
            so; one that is not stored is left out.
        key: the caller's own name for it, one in its namespace: stored again under its key, a memory is a new version,
            and the version before is journaled. A keyed memory is never merged with others.
        attributes: the caller's own fields, any JSON of at most 8 KiB, integers of at most 64 bits; searches filter by
            them.
        channel: by which way the text came, at most what the writer may claim; None for an agent's own words.
    """

    category: MemoryCategory
    namespace: Key = "default"
    content: Annotated[Content, NoNul]
    metadata: NewMetadata = MemoryMetadata()
    expires_at: BoundedTime | None = None
    valid_from: BoundedTime | None = Field(default=None, exclude_if=is_unsaid)
    valid_until: BoundedTime | None = Field(default=None, exclude_if=is_unsaid)
    supersedes: tuple[NotBlankStr, ...] = Field(default=(), max_length=MAX_SUPERSEDED, exclude_if=is_unsaid)
    key: Key | None = Field(default=None, exclude_if=is_unsaid)
    attributes: Attributes = Field(default_factory=no_attributes, exclude_if=is_unsaid)
    channel: Channel | None = Field(default=None, exclude_if=is_unsaid)

    @field_validator("supersedes")
    @classmethod
    def _memory_ids(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for memory_id in given:
            if not is_uuid(memory_id):
                raise ValueError("must be ids of memories, as store and search give them")
        return tuple(dict.fromkeys(given))

    @property
    def holding(self) -> tuple[str, ...]:
        """What it replaces, when it holds, its key and attributes, as a part of its id; empty where none is given."""
        times = (f"{name} {at.timestamp()!r}" for name in ("valid_from", "valid_until") if (at := getattr(self, name)))
        own = () if self.key is None else (f"key {self.key}",)
        free = (f"attributes {canonical_json(self.attributes)}",) if self.attributes else ()
        return (*sorted(self.supersedes), *times, *own, *free)

    @model_validator(mode="after")
    def _ordered_validity(self) -> Self:
        if self.valid_from is not None and self.valid_until is not None and self.valid_until <= self.valid_from:
            raise ValueError("valid_until: must lie after valid_from")
        return self


def day_of(at: datetime) -> str:
    """Return a time's day in UTC, as ``2026-05-01``."""
    return at.astimezone(UTC).date().isoformat()


class MemoryEntry(Frozen):
    """A memory as a backend returns it; it has a relevance score, 0.0 to 1.0, when it answers a text query.

    Attributes:
        relevance_score: how far it answers the question; it compares between questions, and follows the order.
        scores: what its place rests on. Left out when the entry is serialised, as ``covers_until`` is.
        standing: how surely it answers the question; None without one. Left out too.
        why: what its standing rests on, where the query asks for it. Left out too.
        covers_until: of a summary, which is dated as the oldest of what it replaced, the time of the newest. Told by
            the backend, and left out when the entry is serialised: older releases refuse a field that they do not know.
        valid_from, valid_until: when what it says holds; None where nobody said. Left out too, as what follows.
        superseded_by, superseded_at: the memory that replaced it, and when that was made.
        stated_at: when it was stored last, word for word, where that was not only once.
        key, attributes: what its caller gave.
        session_id: the session that it was stored in.
        origin: by which channels it came; None for one that an older release stored.
        authority: how far it may be trusted, by the policy; None where nobody has looked.
        raised: by which approval it has more authority than its origin gives it; None for nearly all.
        search_notes: other words by which it is found too; they are no part of what it says.
    """

    id: NotBlankStr
    agent_id: NotBlankStr
    namespace: NotBlankStr = "default"
    category: MemoryCategory
    content: NotBlankText
    metadata: MemoryMetadata = MemoryMetadata()
    created_at: BoundedTime
    updated_at: BoundedTime | None = None
    expires_at: BoundedTime | None = None
    relevance_score: float | None = Field(default=None, ge=0.0, le=1.0)
    scores: MemoryScores | None = Field(default=None, exclude=True)
    standing: Standing | None = Field(default=None, exclude=True)
    why: MemoryWhy | None = Field(default=None, exclude=True)
    covers_until: BoundedTime | None = Field(default=None, exclude=True)
    valid_from: BoundedTime | None = Field(default=None, exclude=True)
    valid_until: BoundedTime | None = Field(default=None, exclude=True)
    superseded_by: str | None = Field(default=None, exclude=True)
    superseded_at: BoundedTime | None = Field(default=None, exclude=True)
    stated_at: BoundedTime | None = Field(default=None, exclude=True)
    key: str | None = Field(default=None, exclude=True)
    attributes: Mapping[str, Any] = Field(default_factory=no_attributes, exclude=True)
    session_id: str | None = Field(default=None, exclude=True)
    origin: Origin | None = Field(default=None, exclude=True)
    authority: Authority | None = Field(default=None, exclude=True)
    raised: Raised | None = Field(default=None, exclude=True)
    search_notes: tuple[str, ...] = Field(default=(), exclude=True, repr=False)

    def with_authority(self, policy: Mapping[Channel, Authority]) -> "MemoryEntry":
        """Return the entry with the authority that a policy gives its channels, or an approval gave it."""
        return self.model_copy(update={"authority": authority(self.origin, policy, self.raised)})

    def is_shown(self, policy: Mapping[Channel, Authority]) -> bool:
        """Return whether this reader is shown it, where it is named: what is in quarantine to people alone."""
        return is_shown(self.origin, policy, self.raised)

    def known_at(self, at: datetime | None) -> "MemoryEntry":
        """Return the entry as it was at a time: not yet replaced or stated again. As it is for None."""
        if at is None:
            return self
        later: dict[str, None] = {}
        if self.superseded_at is not None and self.superseded_at > at:
            later |= {"superseded_by": None, "superseded_at": None}
        if self.stated_at is not None and self.stated_at > at:
            later["stated_at"] = None
        return self.model_copy(update=later) if later else self

    @property
    def last_stated_at(self) -> datetime:
        """When it was said last: of two that contradict one another, the later holds."""
        return self.created_at if self.stated_at is None else max(self.created_at, self.stated_at)

    def holds_at(self, at: datetime) -> bool:
        """Return whether it was there at a time, held, and nothing had replaced it."""
        return (
            self.created_at <= at
            and (self.valid_from is None or self.valid_from <= at)
            and (self.valid_until is None or at < self.valid_until)
            and (self.superseded_at is None or at < self.superseded_at)
        )

    @property
    def days(self) -> str:
        """Its day in UTC, as ``2026-05-01``.

        Of a summary, and of what was stated again, it is the range, as ``2026-05-01 to 2026-06-03``.
        """
        first = day_of(self.created_at)
        last = day_of(max(self.covers_until or self.created_at, self.last_stated_at))
        return first if first == last else f"{first} to {last}"

    @model_validator(mode="after")
    def _ordered_times(self) -> Self:
        for name in ("updated_at", "expires_at", "covers_until"):
            at = getattr(self, name)
            if at is not None and at < self.created_at:
                raise ValueError(f"{name}: lies before created_at")
        return self


class MemoryQuery(Frozen):
    """What to look for; without ``text`` the filters alone decide and the newest come first.

    Attributes:
        tags: all of them must be present.
        min_relevance: the least relevance score of a memory that is returned.
        min_scores: the least scores of a memory that is returned; one that is not known counts as 0.0.
        min_evidence: the evidence of the best memory, 0.0 to 1.0, from which on what stands near it is strong. None
            leaves it to the policy (``memory.retrieval.min_evidence``).
        standing: which memories are shown: ``strong``, ``weak`` (at most three where none is strong) or ``any``. None
            leaves it to the policy (``memory.retrieval.standing``).
        explain: whether each memory says why it is shown (``why``).
        since: inclusive.
        until: exclusive; must lie after since.
        as_of: only what was there at this time, held then, and was not superseded or expired. What has left the store
            since is not found.
        time_zone: the asker's, such as ``Europe/Berlin``: in it "yesterday" and "in May" begin and end. None leaves it
            to the policy (``memory.retrieval.time_zone``).
        attributes: values that attributes must have, each by its path, as in ``origin.channel``; in a list, one of it.
        min_authority: the least authority of a memory that is returned; ``reference`` where nothing is said, so that
            what is in quarantine is returned to a person alone who asks for it.
        hidden_channels: what came through any of these is left out, too, unless it is raised to ``min_authority``.
        limit: the most that is returned, 1 to 1000; fewer are where fewer earn their place.
    """

    text: NotBlankStr | None = None
    namespaces: frozenset[NotBlankStr] | None = None
    categories: frozenset[MemoryCategory] | None = None
    tags: Tags = ()
    min_relevance: float = Field(default=0.0, ge=0.0, le=1.0)
    min_scores: MemoryScores | None = None
    min_evidence: float | None = Field(default=None, ge=0.0, le=1.0)
    standing: Shown | None = None
    explain: bool = False
    limit: int = Field(default=10, ge=1, le=1000, strict=True)
    since: BoundedTime | None = None
    until: BoundedTime | None = None
    as_of: BoundedTime | None = None
    time_zone: TimeZone | None = None
    attributes: AttributeFilter = Field(default_factory=no_attributes)
    min_authority: Authority | None = None
    hidden_channels: frozenset[Channel] = frozenset()

    def under(self, policy: Mapping[Channel, Authority]) -> "MemoryQuery":
        """Return the query with the channels hidden whose authority is too small by a policy."""
        least = least_shown(self.min_authority or Authority.REFERENCE)
        hidden = self.hidden_channels | channels_below(least, policy)
        return self.model_copy(update={"hidden_channels": hidden, "min_authority": least}) if hidden else self

    @model_validator(mode="after")
    def _ordered_range(self) -> Self:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise ValueError("since: must lie before until")
        return self


#: What is wrong with half a character, which JSON may carry and no database takes; as pydantic says it.
NOT_UNICODE = "must be valid Unicode text"


def require_text(given: object, *, field: str) -> str:
    """Return a caller's text; MemoryInputError when it is of another type, or has half a character in it."""
    if not isinstance(given, str):
        raise MemoryInputError(field, f"must be text, and is of type {type(given).__name__}")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise MemoryInputError(field, NOT_UNICODE) from None
    return given


def require_prompt(text: object, token_budget: object) -> None:
    """Raise MemoryInputError unless a prompt can be about this text, and have so many tokens."""
    require_text(text, field="text")
    if not isinstance(token_budget, int) or token_budget < 0:
        raise MemoryInputError("token_budget", "must be a whole number, 0 or more")


def require_agent_id(agent_id: str) -> str:
    """Return the agent id; MemoryInputError when it is no text, blank, padded, too long or reserved, or has a NUL."""
    return _required_agent_id(require_text(agent_id, field="agent_id"))


# Every filter asks, and the agents of a process are few; a refusal is not kept.
@lru_cache(maxsize=10_000)
def _required_agent_id(agent_id: str) -> str:
    if not agent_id or agent_id != agent_id.strip():
        raise MemoryInputError("agent_id", "must not be blank or begin or end with white space")
    if len(agent_id) > MAX_KEY_CHARS:
        raise MemoryInputError("agent_id", f"has {len(agent_id)} characters; the limit is {MAX_KEY_CHARS}")
    try:
        return not_reserved(_without_nul(agent_id))
    except ValueError as error:
        raise MemoryInputError("agent_id", str(error)) from None


def require_owner_id(owner: str) -> str:
    """Return the id of an owner of stored memories: an agent's, or the canary's; raises as require_agent_id."""
    return owner if owner == CANARY_OWNER else require_agent_id(owner)


def require_new_agent_id(agent_id: str) -> str:
    """Return the id of an agent that writes, or raise MemoryInputError; one that stands may bear control characters."""
    try:
        return one_line(require_agent_id(agent_id))
    except ValueError as error:
        raise MemoryInputError("agent_id", str(error)) from None


def require_path_name(name: str, *, field: str = "agent_id") -> str:
    """Return a name that a path over HTTP can have, or raise MemoryInputError."""
    try:
        return not_dots(name)
    except ValueError as error:
        raise MemoryInputError(field, str(error)) from None


def excluded_agents(excluded: Excluded) -> frozenset[str]:
    """Return whose publications a search leaves out; raises what require_agent_id raises."""
    named = (excluded,) if isinstance(excluded, str) else excluded or ()
    return frozenset(require_agent_id(agent_id) for agent_id in named)


def named_ids(given: object) -> list[str]:
    """Return the ids of memories that a caller names, one or several, or raise MemoryInputError."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Iterable) or isinstance(given, bytes):
        raise MemoryInputError("memory_ids", f"must be ids of memories, and is of type {type(given).__name__}")
    return [require_text(each, field=f"memory_ids.{place}") for place, each in enumerate(given)]


def is_uuid(text: object) -> bool:
    """Return whether a value is a UUID in its usual form, as memcore.ids makes them: no memory has another id."""
    if not isinstance(text, str):
        return False
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def memory_ids(ids: Iterable[str]) -> list[str]:
    """Return those that a memory can have, each once, in order; no memory has any of the others."""
    return [memory_id for memory_id in dict.fromkeys(ids) if is_uuid(memory_id)]


def require_memory_id(memory_id: str) -> str:
    """Return the id of a memory to be written, or raise MemoryInputError when it is no UUID."""
    if not is_uuid(memory_id):
        raise MemoryInputError("id", "must be a UUID in lower case with hyphens, as memcore.ids makes them")
    return memory_id


def require_ids(entry: MemoryEntry) -> str:
    """Return the id of a memory to be written, or raise MemoryInputError when it or its agent's cannot be one."""
    require_owner_id(entry.agent_id)
    return require_memory_id(entry.id)


# Working memories end with their task whatever the level, so they need no other id.


def missing_id(
    level: MemoryLevel, *, category: MemoryCategory, session_id: str | None, project_id: str | None
) -> str | None:
    """Return the name of the id without which the memory would never end, or None when nothing is missing."""
    if category is MemoryCategory.WORKING:
        return None
    if level is MemoryLevel.SESSION and session_id is None:
        return "session_id"
    if level is MemoryLevel.PROJECT and project_id is None:
        return "project_id"
    return None


def refusal(field: str) -> str:
    """Return why a memory without this id is refused, and what to do."""
    scope = field.removesuffix("_id")
    return (
        f"is missing, and memories of an agent of level {scope} end with their {scope}; "
        f"send Scope({field}=...), or give the agent another level with `memtend agents set --level`"
    )


def experience_refusal(level: MemoryLevel) -> str | None:
    """Return why an agent of this level has its experience refused, and what to do; None when it is kept.

    What is learned from an experience is there to outlive its session and its project.
    """
    if level in {MemoryLevel.SESSION, MemoryLevel.PROJECT}:
        return (
            f"agent_id: is of level {level}, and experience outlives its {level}; "
            "give the agent the level persistent with `memtend agents set --level`"
        )
    return None
