"""The company's collection: fill a new one with another embedder, switch to it, go back, end, drop the old one."""

from typing import TYPE_CHECKING

from memcore.backends.factory import create_configured_embedder, embedder_choice
from memcore.errors import MemoryConfigError
from memcore.jobs import ReindexPayload
from memcore.ledger.collections import CollectionPointer, Reindex
from memcore.models.base import Frozen
from memcore.service.resources import CompanyPart

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from memcore.reindex import ReindexPlanning


class ReindexStatus(Frozen):
    """Which collection serves, is kept and is filled, and the last reindex.

    Attributes:
        pointer: None before anybody has connected to the store.
        reindex: None where there was none.
        marked: memories that were written since they were copied.
    """

    pointer: CollectionPointer | None
    reindex: Reindex | None
    marked: int


class ReindexOperations(CompanyPart):
    """Begins, ends and takes back reindexes. Every call raises MemoryConnectionError."""

    async def status(self) -> ReindexStatus:
        """Return which collection serves, is kept and is filled, and how far the last reindex is."""
        return await self._resources.run(
            lambda: ReindexStatus(
                pointer=self._ledger.collection_pointers.get(self._company),
                reindex=self._ledger.reindexes.last(self._company),
                marked=self._ledger.reindex_marks.count(self._company),
            )
        )

    async def begin(self, *, dense_weight: float | None = None, again: bool = False) -> CollectionPointer:
        """Begin to fill a new collection with the configured embedder; reads and writes continue meanwhile.

        Args:
            dense_weight: share of the vectors in the weighted fusion, 0 to 1, switched with the embedder.
            again: also with the embedder that serves, after a release that reads more words.

        Raises MemoryConfigError where no backend embeds anything, MemoryInputError while a reindex is under way.
        """
        # The encoder's module brings the store's client.
        from memcore.backends.mem0.backend import encoder_of  # noqa: PLC0415  # see above

        settings, policy = self._resources.settings, self._resources.policy
        # The first connection writes down what serves.
        await self._resources.backend()
        embedder = create_configured_embedder(settings, policy)
        if embedder is None:
            raise MemoryConfigError("reindex: no backend of this policy embeds anything")
        pointer = await self._planned(
            lambda planning: planning.begin(
                embedder,
                choice=embedder_choice(settings, policy),
                encoder=encoder_of(policy.memory),
                text_template=policy.memory.storage.text_template,
                dense_weight=dense_weight,
                again=again,
            )
        )
        await self._resources.dispatch_open(ReindexPayload)
        return pointer

    async def go_back(self) -> CollectionPointer:
        """Bring the collection that is kept up to date and let it serve again. Raises MemoryInputError."""
        pointer = await self._planned(lambda planning: planning.go_back())
        await self._resources.dispatch_open(ReindexPayload)
        return pointer

    async def cancel(self) -> CollectionPointer:
        """End a reindex before the switch; what serves goes on. Raises MemoryInputError."""
        return await self._planned(lambda planning: planning.cancel())

    async def drop_old(self) -> CollectionPointer:
        """Delete the collection that is kept for going back. Raises MemoryInputError."""
        return await self._planned(lambda planning: planning.drop_old())

    async def _planned(self, plan: "Callable[[ReindexPlanning], Awaitable[CollectionPointer]]") -> CollectionPointer:
        from memcore.reindex import ReindexPlanning, create_reindex_target  # noqa: PLC0415  # it brings the store's client

        async with create_reindex_target(self._resources.settings, self._resources.policy) as reindex_target:
            return await plan(ReindexPlanning(reindex_target, self._ledger, company=self._company))
