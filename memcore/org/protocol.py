"""What every organisation memory can do: the reference's OrgMemoryBackend."""

from typing import Protocol, runtime_checkable

from memcore.org_models import OrgFact, OrgFactAuthor, OrgFactWriteRequest, OrgMemoryQuery


@runtime_checkable
class OrgMemoryBackend(Protocol):
    """Write and find what a whole organisation knows.

    Every call but ``connect``, ``disconnect`` and ``health_check`` raises OrgMemoryConnectionError before ``connect``.
    """

    async def connect(self) -> None:
        """Make sure that it answers; a second call does nothing. Raises OrgMemoryConnectionError."""
        ...

    async def disconnect(self) -> None:
        """Take no more calls; a second call does nothing."""
        ...

    async def health_check(self) -> bool:
        """Return whether it is connected and answers; trouble is logged, never raised."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether connect has succeeded and disconnect has not been called since."""
        ...

    @property
    def backend_name(self) -> str:
        """The name that the configuration uses."""
        ...

    async def query(self, query: OrgMemoryQuery) -> tuple[OrgFact, ...]:
        """Return the facts that match, best first. Raises OrgMemoryQueryError."""
        ...

    async def write(self, request: OrgFactWriteRequest, *, author: OrgFactAuthor) -> str:
        """Write a fact and return its id. Raises OrgMemoryAccessDeniedError, OrgMemoryWriteError."""
        ...

    async def list_policies(self, *, limit: int | None = None, offset: int = 0) -> tuple[OrgFact, ...]:
        """Return core policies: those of the configuration, then those written, oldest first."""
        ...

    async def count_policies(self) -> int:
        """Return how many core policies there are."""
        ...
