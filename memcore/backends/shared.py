"""What agents tell each other: knowledge that is published, searched by all, and retracted by who published it.

Every publication and every retraction is a version of the whole, and each search sees one version: what was published
up to it and not retracted by it. Private memories are no part of it, and no call of ``MemoryBackend`` shows any of it.
"""

from typing import Protocol, runtime_checkable

from memcore.backends.owner import Excluded
from memcore.models import MemoryEntry, MemoryQuery, MemoryStoreRequest


@runtime_checkable
class SharedKnowledgeStore(Protocol):
    """Publish, search and retract; a backend has it beside MemoryBackend.

    Ask ``supports_shared_access`` first: a backend may have the methods and nowhere to keep the log, and then each of
    them raises MemoryCapabilityError. The ``agent_id`` of an entry found is its publisher.
    """

    async def publish(self, agent_id: str, request: MemoryStoreRequest, *, once: bool = False) -> str:
        """Publish and return the id; every search that begins afterwards sees it, in any process.

        What the agent has published already, and neither retracted nor let expire, keeps its id and its first form.

        Args:
            agent_id: who publishes it.
            request: what.
            once: leave it at the first publication also after it was retracted or has expired, and return its last id.

        Raises MemoryInputError, MemoryConnectionError, MemoryStoreError, MemoryEmbeddingError. After a connection that
        failed the publication may appear later by itself; to publish it again is safe.
        """
        ...

    async def search_shared(
        self, query: MemoryQuery, *, exclude_agent: Excluded = None, version: int | None = None
    ) -> tuple[MemoryEntry, ...]:
        """Return what matches and has not expired: best first with a text, newest first without.

        Args:
            query: as for ``retrieve``.
            exclude_agent: leave out what this agent published, or any of these.
            version: as the knowledge was then; None for now.

        Raises MemoryConnectionError, MemoryRetrievalError; MemoryInputError for a version that is not there yet.
        """
        ...

    async def search_shared_sparse(
        self, query: MemoryQuery, *, exclude_agent: Excluded = None, version: int | None = None
    ) -> tuple[MemoryEntry, ...]:
        """Return the keyword hits alone, best first; without a text, or one without words, there are none."""
        ...

    async def retract(self, agent_id: str, memory_id: str) -> bool:
        """Take back what this agent published; no search that begins afterwards sees it, but those of older versions.

        False, and nothing changes, when this agent has published nothing under the id, or retracted it before.
        Raises MemoryConnectionError, MemoryStoreError; after a connection that failed it may still take effect.
        """
        ...

    async def shared_version(self) -> int:
        """Return the version that a search would see now; 0 before the first publication.

        Raises MemoryConnectionError, MemoryRetrievalError.
        """
        ...
