"""A passage: a piece of text that somebody may look for, and where it comes from."""

from dataclasses import dataclass
from typing import Literal

from memcore.frozen import Frozen, NotBlankText

#: Where a passage comes from.
PassageSource = Literal["document", "memory", "task", "lesson"]


class Passage(Frozen):
    """What an embedder is to find.

    Attributes:
        text: the passage, as it is embedded.
        source: what kind of thing it is.
        questions: what is known to ask for it, such as a task's title, or what a model wrote; empty where nothing is.
    """

    text: NotBlankText
    source: PassageSource
    questions: tuple[NotBlankText, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A passage, and who pays for a question about it.

    Attributes:
        agent_id: whose memory it is; ORGANISATION (memcore.backends.facts) for a document.
    """

    agent_id: str
    passage: Passage
