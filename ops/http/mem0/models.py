"""The bodies of mem0's clients: fields with an effect, options that are passed over, options that are refused."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StringConstraints, field_validator, model_validator

from memcore.errors import MemoryCapabilityError, MemoryInputError
from memcore.models.conversation import MAX_SUBJECT_CHARS
from memcore.models.memory import NoNul, OneLine, StoredKey, not_dots
from ops.http.mem0.filters import ANYTHING

#: Most memories of one batch.
MAX_BATCH = 1_000

#: Most memories of a page and of a search.
MAX_PAGE_SIZE, MAX_TOP_K = 1_000, 1_000

#: Options that ask how to answer, and change nothing that is stored or found here; a client may send them.
PASSED_OVER = frozenset(
    {
        *("api_version", "async_mode", "keyword_search", "latest_only", "org_id", "output_format", "project_id"),
        *("rerank", "source", "version"),
    }
)

#: Options that would change what is stored or found, and are not supported; refused unless they are off.
_UNSUPPORTED = frozenset(
    {
        *("agent_custom_instructions", "custom_categories", "custom_instructions", "enable_graph", "excludes"),
        *("immutable", "includes", "memory_type", "prompt", "reference_date", "show_expired"),
        *("structured_data_schema", "timestamp"),
    }
)

#: The id of a user, an agent, an app or a run.
EntityId = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_SUBJECT_CHARS), NoNul, OneLine
]


class Body(BaseModel):
    """What a client sends."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _without_options(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        unknown = given.keys() - cls.model_fields.keys()
        for name in sorted(unknown & _UNSUPPORTED):
            if given[name] not in (None, False, [], {}):
                raise MemoryCapabilityError(f"{name} is not supported")
        passed_over = PASSED_OVER | _UNSUPPORTED
        return {name: value for name, value in given.items() if name in cls.model_fields or name not in passed_over}


class Identified(Body):
    """Names whose memories they are, beside the filters or in them."""

    entities: ClassVar = ("user_id", "agent_id", "app_id", "run_id")

    user_id: EntityId | None = None
    agent_id: EntityId | None = None
    app_id: EntityId | None = None
    run_id: EntityId | None = None
    filters: dict[str, Any] | None = None


class Said(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    role: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    content: str | list[Any] | dict[str, Any] | None = None
    name: Annotated[str, StringConstraints(max_length=256)] | None = None

    @property
    def text(self) -> str:
        """The texts of its parts, in lines; what is no text, as a picture, says nothing."""
        parts = self.content if isinstance(self.content, list) else [self.content]
        texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
        return "\n".join(text for text in texts if isinstance(text, str)).strip()


class AddBody(Identified):
    """Messages to keep."""

    messages: Annotated[tuple[Said, ...], Field(min_length=1, max_length=200)]
    metadata: dict[str, Any] | None = None
    infer: bool = True
    expiration_date: date | None = None

    @model_validator(mode="before")
    @classmethod
    def _in_a_list(cls, given: Any) -> Any:
        # Older clients send a text or one message.
        messages = given.get("messages") if isinstance(given, Mapping) else None
        if isinstance(messages, str):
            return {**given, "messages": [{"role": "user", "content": messages}]}
        return {**given, "messages": [messages]} if isinstance(messages, Mapping) else given

    @field_validator("user_id", "agent_id", "app_id", "run_id")
    @classmethod
    def _names_one(cls, given: str | None) -> str | None:
        # What is kept for "*" could not be found again: filters take it for anybody.
        if given == ANYTHING:
            raise ValueError("must name one; * stands for all where memories are read or deleted")
        # Clients write a name into the path by which it is deleted, slashes and all: "a/../b" would delete "b".
        for part in (given or "").split("/"):
            not_dots(part)
        return given

    @model_validator(mode="before")
    @classmethod
    def _identity_in_filters(cls, given: Any) -> Any:
        # The newest clients name whose memory it is in the filters.
        filters = given.get("filters") if isinstance(given, Mapping) else None
        if not isinstance(filters, Mapping):
            return given
        if unknown := filters.keys() - set(cls.entities):
            raise MemoryInputError(f"filters.{min(map(str, unknown))}", "must be user_id, agent_id, app_id or run_id")
        named = {name: value for name, value in given.items() if name != "filters"}
        return {**filters, **{name: value for name, value in named.items() if value is not None}}


class SearchBody(Identified):
    """What to look for."""

    query: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    top_k: Annotated[StrictInt, Field(ge=1, le=MAX_TOP_K)] = 10
    limit: Annotated[StrictInt, Field(ge=1, le=MAX_TOP_K)] | None = None
    threshold: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    fields: Sequence[str] | None = None
    categories: Sequence[str] | None = None
    metadata: dict[str, Any] | None = None


class ListBody(Identified):
    """What to list."""

    categories: Sequence[str] | None = None
    start_date: str | None = None
    end_date: str | None = None
    fields: Sequence[str] | None = None


class UpdateBody(Body):
    """What to change of a memory; what is left out stays. ``expiration_date`` is taken off with null."""

    text: str | None = None
    data: str | None = None
    memory: str | None = None
    metadata: dict[str, Any] | None = None
    expiration_date: date | None = None

    @property
    def content(self) -> str | None:
        """The new text, under whichever name."""
        return next((each for each in (self.text, self.data, self.memory) if each is not None), None)

    @model_validator(mode="after")
    def _not_empty(self) -> "UpdateBody":
        if not self.model_fields_set:
            raise ValueError("text: give a text, metadata or an expiration_date")
        return self


class BatchUpdateItem(UpdateBody):
    """A memory of a batch, and what to change of it."""

    memory_id: StoredKey


class BatchUpdateBody(Body):
    """Memories to change."""

    memories: Annotated[tuple[BatchUpdateItem, ...], Field(min_length=1, max_length=MAX_BATCH)]


class BatchDeleteItem(Body):
    """A memory of a batch."""

    memory_id: StoredKey


class BatchDeleteBody(Body):
    """Memories to delete."""

    memories: Annotated[tuple[BatchDeleteItem, ...], Field(min_length=1, max_length=MAX_BATCH)]


class FeedbackBody(Body):
    """What a person thinks of a memory; ``feedback`` null takes it back."""

    memory_id: StoredKey
    feedback: (
        Annotated[str, StringConstraints(to_upper=True, pattern="^(?i:POSITIVE|NEGATIVE|VERY_NEGATIVE)$")] | None
    ) = None
    feedback_reason: Annotated[str, StringConstraints(max_length=1_000)] | None = None
