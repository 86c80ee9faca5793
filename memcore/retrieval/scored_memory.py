"""A memory with the scores that ranked it."""

from pydantic import Field

from memcore.backends.facts import ORGANISATION
from memcore.config.fusion import FusionStrategy
from memcore.frozen import Frozen
from memcore.models import MemoryEntry
from memcore.org_models import OrgFactAuthor


class ScoredMemory(Frozen):
    """A memory on its way into a prompt; all scores are 0.0 to 1.0.

    Attributes:
        entry: the memory as the backend returned it.
        relevance_score: ``linear`` and ``weighted``: with the personal boost; ``rrf``: the similarity, or 0.0.
        recency_score: decay by age; 0.0 under ``rrf``, which knows ranks alone.
        combined_score: what the order follows.
        is_shared: whether it is shared knowledge, and not the agent's own.
        author: of a fact of the organisation, who wrote the text that stands now.
        scoring_strategy: which fusion made the scores; None when none did.
    """

    entry: MemoryEntry
    relevance_score: float = Field(ge=0.0, le=1.0)
    recency_score: float = Field(ge=0.0, le=1.0)
    combined_score: float = Field(ge=0.0, le=1.0)
    is_shared: bool = False
    author: OrgFactAuthor | None = None
    scoring_strategy: FusionStrategy | None = None

    @property
    def is_fact(self) -> bool:
        """Whether it is a fact of the organisation: what agents publish is never in its name."""
        return self.is_shared and self.entry.agent_id == ORGANISATION

    @property
    def publisher(self) -> str | None:
        """The agent that published it; None for the agent's own memories, and for what a person wrote."""
        if self.is_fact:
            return None if self.author is None else self.author.agent_id
        return self.entry.agent_id if self.is_shared else None


def best_first(memory: ScoredMemory) -> tuple[float, float, str]:
    """Return a sort key: best combined score, then newest, then by id, so that equal scores always come out alike."""
    return -memory.combined_score, -memory.entry.created_at.timestamp(), memory.entry.id
