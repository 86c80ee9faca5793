"""What a mem0 backend consists of while it is connected."""

from dataclasses import dataclass

from qdrant_client import QdrantClient

from memcore.backends.mem0.calls import Calls
from memcore.backends.mem0.client import open_client
from memcore.backends.mem0.facts import Facts
from memcore.backends.mem0.fence import Fence
from memcore.backends.mem0.following import Following
from memcore.backends.mem0.history import History
from memcore.backends.mem0.indexed_text import IndexedText
from memcore.backends.mem0.place import Mem0Place
from memcore.backends.mem0.search import SearchPlan
from memcore.backends.mem0.shared_knowledge import SharedKnowledge
from memcore.backends.mem0.shelf import build_shelf
from memcore.backends.mem0.shelves import Shelves
from memcore.clock import Clock
from memcore.embedding.bm25 import Bm25Encoder
from memcore.embedding.protocol import Embedder
from memcore.ledger.engine import Database
from memcore.ledger.org_log import OrgLog
from memcore.ledger.shared_log import SharedLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a backend is made of; see Mem0Backend."""

    place: Mem0Place
    company: str
    embedder: Embedder
    encoder: Bm25Encoder
    plan: SearchPlan
    text: IndexedText
    following: Following | None
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What exists between connect and disconnect; shared knowledge and facts only where there is a ledger."""

    client: QdrantClient
    calls: Calls
    history: History
    shelves: Shelves
    fence: Fence
    shared: SharedKnowledge | None
    facts: Facts | None

    async def close(self) -> None:
        """Close every connection."""
        await self.calls.read("disconnect", self._close)
        self.calls.close()

    def _close(self) -> None:
        self.client.close()
        self.history.close()
        self.shelves.close()
        if self.shared is not None:
            self.shared.close()


async def connected(parts: Parts) -> Opened:
    """Connect, and create the collection if it is not there.

    Raises MemoryConnectionError, or MemoryConfigError when the embedder of the collection that serves cannot be had.
    """
    place, company, clock, calls = parts.place, parts.company, parts.clock, Calls()
    history, client = History(place.history_url, clock=clock), open_client(place)
    configured = build_shelf(
        client,
        place.collection,
        history=history,
        embedder=parts.embedder,
        encoder=parts.encoder,
        text=parts.text,
        plan=parts.plan,
        takes_untold=True,
    )
    shelves = Shelves(
        client, history=history, company=company, configured=configured, following=parts.following, clock=clock
    )
    try:
        await calls.read("connect", shelves.connect)
    except BaseException:
        client.close()
        history.close()
        shelves.close()
        calls.close()
        raise
    fence = Fence(shelves, calls, company=company, clock=clock)
    shared, facts = None, None
    if place.ledger_url is not None:
        ledger = Database(place.ledger_url, name="ledger")
        log, org_log = SharedLog(ledger, clock=clock), OrgLog(ledger, clock=clock)
        shared = SharedKnowledge(company=company, log=log, shelves=shelves, fence=fence, calls=calls, clock=clock)
        facts = Facts(company=company, log=org_log, shared=shared, shelves=shelves, calls=calls, clock=clock)
    return Opened(client=client, calls=calls, history=history, shelves=shelves, fence=fence, shared=shared, facts=facts)
