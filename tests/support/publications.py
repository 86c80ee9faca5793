"""Memories that agents publish in tests, and backends that take them."""

import warnings
from collections.abc import Callable

from qdrant_client import QdrantClient
from qdrant_client.models import Filter, FilterSelector

from memcore.backends.composite import CompositeBackend
from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.embedding.bm25 import Bm25Encoder
from memcore.ledger.database import Database
from memcore.ledger.tables import shared_heads, shared_log
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from support.hashing_embedder import HashingEmbedder
from support.memories import StoppedClock

#: Whose knowledge it is.
COMPANY = "shared contract"

#: Makes another backend over the same data, as another engine would.
MakeBackend = Callable[[], Mem0Backend]

#: The backends that share knowledge.
Sharing = InMemoryBackend | CompositeBackend | Mem0Backend


def reported(content: str = "the canteen closes at two", **more: object) -> MemoryStoreRequest:
    """Return a request to publish; every field has a default."""
    return MemoryStoreRequest.model_validate({"category": MemoryCategory.SEMANTIC, "content": content, **more})


async def emptied(place: Mem0Config, clock: StoppedClock) -> MakeBackend:
    """Take everything out of a collection and its log: making new ones takes as long as many tests."""

    def make() -> Mem0Backend:
        return Mem0Backend(place, company=COMPANY, embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=clock)

    maker = make()
    await maker.connect()
    await maker.disconnect()
    key = None if place.api_key is None else place.api_key.get_secret_value()
    with warnings.catch_warnings():
        # the key travels over loopback
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        client = QdrantClient(place.url, api_key=key, check_compatibility=False, timeout=600)
    client.delete(place.collection, points_selector=FilterSelector(filter=Filter()), wait=True)
    client.close()
    database = Database(place.ledger_url or "", name="ledger")
    with database.write() as connection:
        connection.execute(shared_log.delete())
        connection.execute(shared_heads.delete())
    database.close()
    return make
