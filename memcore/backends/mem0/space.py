"""Whose memories a search looks at."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from qdrant_client.models import Filter

from memcore.backends.mem0.where import of_query, of_shared, of_version, owned, published_by
from memcore.backends.owner import SHARED_OWNER, Excluded
from memcore.models import MemoryQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """One owner's memories, and what of them a query may find.

    Attributes:
        owner: the agent, or the owner of shared knowledge.
        everything: the filter of all of them. How rare a word is, is counted over these: other agents' texts neither
            change a ranking nor show through it.
        narrowed: the filter of what the query may find, without what has expired by a time; None leaves that in.
    """

    owner: str
    everything: Filter
    narrowed: Callable[[datetime | None], Filter]

    @classmethod
    def of_agent(cls, agent_id: str, query: MemoryQuery) -> Self:
        """Return the space of one agent's own memories."""
        return cls(owner=agent_id, everything=owned(agent_id), narrowed=lambda now: of_query(agent_id, query, now=now))

    @classmethod
    def of_shared(cls, query: MemoryQuery, *, version: int, exclude_agent: Excluded = None) -> Self:
        """Return the space of shared knowledge as it was at a version, without what an agent published itself."""

        def narrowed(now: datetime | None) -> Filter:
            return of_shared(query, version=version, exclude_agent=exclude_agent, now=now)

        return cls(owner=SHARED_OWNER, everything=of_version(version), narrowed=narrowed)

    @classmethod
    def of_publisher(cls, publisher: str, query: MemoryQuery, *, version: int) -> Self:
        """Return the space of what one name published of the shared knowledge, as it was at a version."""

        def narrowed(now: datetime | None) -> Filter:
            return of_shared(query, published_by(publisher), version=version, now=now)

        return cls(owner=SHARED_OWNER, everything=of_version(version), narrowed=narrowed)
