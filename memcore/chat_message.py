"""A message of a prompt."""

from enum import StrEnum

from memcore.frozen import Frozen, NotBlankText


class MessageRole(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"


class ChatMessage(Frozen):
    """A message to put between the system prompt and the task.

    Attributes:
        role: who speaks.
        content: the text.
    """

    role: MessageRole
    content: NotBlankText
