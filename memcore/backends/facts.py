"""What an organisation knows, beside agents' memories: shown in the store so that meaning finds it.

The truth lies in the ledger. What the store finds is a hint, by the id and version of a fact: whoever is to use it asks
whether it still stands.
"""

from collections.abc import Collection
from typing import Protocol, runtime_checkable

from memcore.backends.legs import Legs
from memcore.backends.record import MemoryRecord
from memcore.models import RESERVED_PREFIX, MemoryQuery
from memcore.org_models import OrgFact

#: Under whose name facts stand in the shared knowledge; no agent can have it.
ORGANISATION = f"{RESERVED_PREFIX}organisation__"


@runtime_checkable
class FactStore(Protocol):
    """Show facts among the shared knowledge of a company, and read those that stand."""

    @property
    def dense_weight(self) -> float:
        """The share of meaning where it is added up with words."""
        ...

    async def show(self, record: MemoryRecord) -> None:
        """Show one version of a fact; one that was shown before, or hidden since, stays as it is.

        Args:
            record: by ORGANISATION, under an id that no other version has.

        Raises MemoryInputError, MemoryConnectionError, MemoryStoreError, MemoryEmbeddingError.
        """
        ...

    async def hide(self, memory_id: str) -> None:
        """Let no search that begins afterwards find a version; one that is not shown stays hidden.

        Raises MemoryConnectionError, MemoryStoreError.
        """
        ...

    async def legs(self, query: MemoryQuery) -> Legs:
        """Return versions of facts that are near a text, and those with words of it; nothing but facts.

        They stand in ``dense`` and ``sparse``, each best first and with its cosine; the other lists are empty.

        Raises MemoryConnectionError, MemoryRetrievalError, MemoryEmbeddingError.
        """
        ...

    async def standing(self, fact_ids: Collection[str]) -> dict[str, tuple[int, OrgFact]]:
        """Return those of the facts that stand, each with its version. Raises as legs does."""
        ...

    async def policies(self, *, offset: int) -> tuple[OrgFact, ...]:
        """Return a page of the core policies that were written and stand, oldest first. Raises as legs does."""
        ...


@runtime_checkable
class HoldsFacts(Protocol):
    """A backend that may have a store of facts."""

    @property
    def facts(self) -> FactStore | None:
        """The store of facts; None before connect, and where there is no ledger."""
        ...


def facts_of(backend: object) -> FactStore | None:
    """Return a backend's store of facts, if it has one."""
    return backend.facts if isinstance(backend, HoldsFacts) else None
