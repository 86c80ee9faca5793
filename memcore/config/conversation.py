"""Policy keys of conversation memory: when sessions end, what is shown, and how long it is kept."""

from pydantic import Field

from memcore.config.urls import HttpEndpoint
from memcore.models.base import MAX_DAYS, Frozen, NotBlankStr, ReadOnlyMap, ReadOnlyMapping


class ConversationConfig(Frozen):
    """Configure what is kept of what people say, and what an agent is shown of it.

    Attributes:
        idle_minutes: minutes without a turn after which a session ends.
        max_rules: the most active rules of one person; older ones are archived, never deleted.
        facts_shown: the most facts before a reply.
        arcs_shown: the most summaries of earlier sessions before a reply.
        arc_days: days after which the summary of a session is no longer found by a question; the latest one always is.
        transcript_hours: hours for which the text of turns is kept behind the end of their session.
        archive_days: days after which facts that were replaced, and summaries of sessions, leave the memory that is
            read; they are archived, never deleted.
        crisis_days: days for which records of crises are kept.
        feedback_days: days for which feedback is kept.
        model: the model that extracts; None takes ``memory.llm.model``.
        temperature: the sampling temperature.
        max_tokens: the most tokens of an answer.
    """

    idle_minutes: int = Field(default=20, ge=1, le=1_440)
    max_rules: int = Field(default=20, ge=1, le=200)
    facts_shown: int = Field(default=5, ge=1, le=50)
    arcs_shown: int = Field(default=2, ge=0, le=10)
    arc_days: int = Field(default=30, ge=1, le=MAX_DAYS)
    transcript_hours: int = Field(default=24, ge=1, le=24 * MAX_DAYS)
    archive_days: int = Field(default=180, ge=1, le=MAX_DAYS)
    crisis_days: int = Field(default=365, ge=1, le=MAX_DAYS)
    feedback_days: int = Field(default=365, ge=1, le=MAX_DAYS)
    model: NotBlankStr | None = None
    temperature: float = Field(default=0.0, ge=0.0, le=2.0)
    max_tokens: int = Field(default=1_500, ge=1)


class RouterConfig(Frozen):
    """Say which servers of language models ``/router`` forwards to, and what it adds to their prompts.

    Attributes:
        upstreams: by a name of yours, the base address of a server with its version, such as
            ``https://api.openai.com/v1``. The first is asked where a request names none; without any, nothing is
            forwarded.
        agent: the agent of requests that name none.
        token_budget: the most tokens of what is remembered of the person.
    """

    upstreams: ReadOnlyMapping[NotBlankStr, HttpEndpoint] = ReadOnlyMap({})
    agent: NotBlankStr = "assistant"
    token_budget: int = Field(default=1_000, ge=0, le=1_000_000)
