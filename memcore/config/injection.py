"""How memories reach an agent's prompt."""

from enum import StrEnum


class InjectionStrategy(StrEnum):
    """Whether memories are put before the agent, fetched by it, or kept by it."""

    CONTEXT = "context"
    TOOL_BASED = "tool_based"
    SELF_EDITING = "self_editing"


class InjectionPoint(StrEnum):
    """The role of the message that carries injected memories."""

    SYSTEM = "system"
    USER = "user"
