"""The collection that is filled while another one serves, and what a reindex does with it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Self

from qdrant_client.models import Filter

from memcore.backends.mem0.alignment import Aligned, Alignment
from memcore.backends.mem0.calls import Calls
from memcore.backends.mem0.client import open_client
from memcore.backends.mem0.collection import ensure_collection
from memcore.backends.mem0.followed import Followed
from memcore.backends.mem0.history import History
from memcore.backends.mem0.indexed_text import IndexedText
from memcore.backends.mem0.place import Mem0Place
from memcore.backends.mem0.search import SearchPlan
from memcore.backends.mem0.shelf import Shelf, build_shelf
from memcore.backends.mem0.where import of_owners
from memcore.embedding.bm25 import Bm25Encoder, TermWeighting
from memcore.errors import MemoryConfigError
from memcore.ledger.serving import ServedCollection

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from memcore.embedding.protocol import Embedder


class Mirror:
    """Fill, count and drop collections of one store. Open it after a fork, never before.

    Args:
        place: where the store is.
        followed: how the embedder of a collection is loaded.
    """

    def __init__(self, place: Mem0Place, *, followed: Followed) -> None:
        self._place = place
        self._followed = followed
        self._client: QdrantClient = open_client(place)
        self._history = History(place.history_url)
        self._calls = Calls()
        self._loaded: tuple[ServedCollection, Embedder] | None = None

    async def count(self, collection: str) -> int:
        """Return how many points a collection has; 0 when it is not there."""
        return await self._calls.read("reindex", lambda: self._count(collection))

    async def drop(self, collection: str) -> None:
        """Delete a collection, if it is there."""
        await self._calls.write("reindex", lambda: self._client.delete_collection(collection))

    async def prepare(self, target: ServedCollection, *, is_begun: bool) -> None:
        """Create the collection that is to be filled, or make sure that it is there when its filling has begun.

        Raises MemoryConfigError when its embedder is not what it was, or when what was filled is gone.
        """
        await self._calls.write("reindex", lambda: self._prepare(target, is_begun=is_begun))

    async def page(
        self, source: ServedCollection, target: ServedCollection, start: str | None, *, alive: Callable[[], None]
    ) -> Aligned:
        """Align a page of everything, from an id on."""
        return await self._aligned(source, target, None, start, alive=alive)

    async def owners(
        self,
        source: ServedCollection,
        target: ServedCollection,
        owners: Sequence[str],
        start: str | None,
        *,
        alive: Callable[[], None],
    ) -> Aligned:
        """Align a page of what lies under these owners, from an id on."""
        return await self._aligned(source, target, of_owners(owners), start, alive=alive)

    async def close(self) -> None:
        """Close the connections."""
        await self._calls.read("disconnect", self._client.close)
        self._history.close()
        self._calls.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def _aligned(
        self,
        source: ServedCollection,
        target: ServedCollection,
        narrowed: Filter | None,
        start: str | None,
        *,
        alive: Callable[[], None],
    ) -> Aligned:
        alignment = Alignment(self._client, source.name, self._shelf(target), alive=alive)
        return await self._calls.write("reindex", partial(alignment.page, narrowed, start))

    def _prepare(self, target: ServedCollection, *, is_begun: bool) -> None:
        shelf = self._shelf(target)
        if is_begun and not self._client.collection_exists(target.name):
            # Made anew, it would lack what was copied before.
            raise MemoryConfigError(f"collection {target.name!r} is gone: `memtend reindex --cancel`, then begin again")
        ensure_collection(self._client, target.name, shelf.identity)

    def _count(self, collection: str) -> int:
        if not self._client.collection_exists(collection):
            return 0
        return self._client.count(collection, exact=True).count

    def _shelf(self, target: ServedCollection) -> Shelf:
        if self._loaded is None or self._loaded[0] != target:
            self._loaded = (target, self._followed.load(target.choice))
        shelf = build_shelf(
            self._client,
            target.name,
            history=self._history,
            embedder=self._loaded[1],
            encoder=Bm25Encoder(weighting=TermWeighting(target.term_weighting)),
            text=IndexedText(target.text_template),
            plan=SearchPlan(),
            takes_untold=False,
        )
        if shelf.identity != target.identity:
            raise MemoryConfigError(
                f"the reindex was begun with {target.identity.label}, and {target.choice.provider!r} is "
                f"{shelf.identity.label} here: `memtend reindex --cancel`, then begin again"
            )
        return shelf
