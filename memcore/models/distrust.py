"""Distrust: what is said to be no longer trusted, and everything that ever came of it."""

from datetime import datetime
from typing import Self

from pydantic import Field, model_validator

from memcore.errors import MemoryInputError
from memcore.models.base import ValidatedModel
from memcore.models.experience import DetailedExperience
from memcore.models.memory import AgentId, BoundedTime, Key, MemoryEntry, StoredKey, is_uuid
from memcore.models.origin import UNKNOWN, Channel, Origin


class DistrustRule(ValidatedModel):
    """What is not trusted: memories that meet every condition given, and whatever was made of one.

    Attributes:
        agent_id: of this agent alone; None for all. A session and a memory are an agent's.
        principal: the id of the key that wrote it, as `memtend keys list` shows it.
        channel: by which it came.
        source: what its writer called its source.
        session_id: stored in it.
        memory_id: this one memory.
        since, until: made from the first time on, and before the second.
    """

    agent_id: AgentId | None = None
    principal: Key | None = None
    channel: Channel | None = None
    source: StoredKey | None = None
    session_id: Key | None = None
    memory_id: Key | None = None
    since: BoundedTime | None = None
    until: BoundedTime | None = Field(default=None, description="Exclusive.")

    @model_validator(mode="after")
    def _says_what(self) -> Self:
        named = (self.principal, self.channel, self.source, self.session_id, self.memory_id)
        if not any(named):
            raise MemoryInputError("principal", "name a principal, channel, source, session_id or memory_id")
        if self.agent_id is None and (self.session_id or self.memory_id):
            raise MemoryInputError("agent_id", "name the agent whose session or memory it is")
        if self.memory_id is not None and not is_uuid(self.memory_id):
            raise MemoryInputError("memory_id", "must be a UUID, as a memory's id is")
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise MemoryInputError("since", "must lie before until")
        return self

    @property
    def follows_origin(self) -> bool:
        """Whether the origin alone tells what it concerns: then also of all that was made of it."""
        others = (self.source, self.session_id, self.memory_id, self.since, self.until)
        return all(each is None for each in others)

    def names(self, origin: Origin | None) -> bool:
        """Return whether its key and its channel, where it has them, are among an origin's."""
        known = UNKNOWN if origin is None else origin
        return (self.principal is None or self.principal in known.principals) and (
            self.channel is None or self.channel in known.channels
        )

    def is_of(self, agent_id: str) -> bool:
        """Return whether it concerns an agent."""
        return self.agent_id in {None, agent_id}

    def takes(self, entry: MemoryEntry) -> bool:
        """Return whether a memory is what it says, by what the memory itself tells."""
        return (
            self.is_of(entry.agent_id)
            and self.names(entry.origin)
            and self.source in {None, entry.metadata.source}
            and self.session_id in {None, entry.session_id}
            and self.memory_id in {None, entry.id}
            and self._was_then(entry.created_at)
        )

    def takes_experience(self, experience: DetailedExperience) -> bool:
        """Return whether a raw experience, which has no session, is what it says."""
        return (
            self.is_of(experience.agent_id)
            and self.names(experience.origin)
            and self.source in {None, experience.metadata.source}
            and self.session_id is None
            and self.memory_id in {None, experience.id}
            and self._was_then(experience.created_at)
        )

    @property
    def takes_tasks(self) -> bool:
        """Whether origin and time alone tell what it concerns: then also what tasks have left, whatever that names."""
        return not any((self.source, self.session_id, self.memory_id))

    def takes_task(self, agent_id: str, origin: Origin, at: datetime) -> bool:
        """Return whether it takes all that an agent's task of this origin and time has left."""
        return self.takes_tasks and self.is_of(agent_id) and self.names(origin) and self._was_then(at)

    def _was_then(self, at: datetime) -> bool:
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)
