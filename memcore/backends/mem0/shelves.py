"""The collection that serves, as the ledger's row names it: looked up again every two seconds."""

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta

from qdrant_client import QdrantClient

from memcore import errors
from memcore.backends.mem0.collection import ensure_collection
from memcore.backends.mem0.following import Following, served
from memcore.backends.mem0.history import History
from memcore.backends.mem0.indexed_text import IndexedText
from memcore.backends.mem0.shelf import Shelf, build_shelf
from memcore.clock import Clock
from memcore.embedding.bm25 import Bm25Encoder, TermWeighting
from memcore.errors import MemoryConfigError
from memcore.ledger.engine import Database
from memcore.ledger.reindex_marks import ReindexMarks
from memcore.ledger.serving import ServedCollection, Serving
from memcore.ledger.servings import Servings

#: How long a reader believes what it saw. A switch keeps writers waiting for so long, so that no reader misses a write.
READ_AGE = timedelta(seconds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen in the ledger, and when; without a row for a backend that follows none."""

    shelf: Shelf
    serving: Serving | None = None
    at: datetime


class Shelves:
    """Hand out the shelf that serves; safe in several threads.

    Args:
        client: the store.
        history: mem0's.
        company: whose row it is.
        configured: the shelf of the policy and the settings.
        following: how the row is followed; None for a backend that has one collection for good.
        clock: the time.
    """

    def __init__(
        self,
        client: QdrantClient,
        *,
        history: History,
        company: str,
        configured: Shelf,
        following: Following | None,
        clock: Clock,
    ) -> None:
        self._client = client
        self._history = history
        self._company = company
        self._configured = configured
        self._following = following
        self._clock = clock
        self._lock = threading.Lock()
        self._seen = Seen(shelf=configured, at=clock())
        self._database = None if following is None else Database(following.row.ledger_url, name="ledger")
        self._servings = None if self._database is None else Servings(self._database, clock=clock)
        self.marks = None if self._database is None else ReindexMarks(self._database)

    def connect(self) -> None:
        """Find the collection that serves, or create it; MemoryConfigError when its embedder cannot be had."""
        configured, following, servings = self._configured, self._following, self._servings
        found = None if servings is None else servings.get(self._company)
        if found is None:
            ensure_collection(self._client, configured.collection, configured.identity)
        if servings is None or following is None:
            return
        if found is None:
            first = served(
                configured.collection,
                embedder=configured.embedder,
                encoder=configured.encoder,
                text=configured.text,
                choice=following.row.choice,
            )
            found = servings.adopt(self._company, first)
        shelf = self.shelf_of(found.current)
        ensure_collection(self._client, shelf.collection, shelf.identity)
        self._seen = Seen(shelf=shelf, serving=found, at=self._clock())

    def last(self) -> Seen:
        """Return what was seen last, however old."""
        return self._seen

    def reading(self) -> Shelf:
        """Return the shelf to read from; while the ledger is away, the last one that was seen."""
        seen = self._seen
        try:
            return self.recent().shelf
        except (errors.MemoryConnectionError, errors.MemoryRetrievalError):
            return seen.shelf

    def recent(self) -> Seen:
        """Return what was seen in the last two seconds, or look: what served before may be gone by now."""
        seen = self._seen
        if seen.serving is None or timedelta() <= self._clock() - seen.at < READ_AGE:
            return seen
        return self.look()

    def look(self) -> Seen:
        """Look up now what serves. Raises MemoryConnectionError; MemoryConfigError when its embedder cannot be had."""
        if self._servings is None:
            return self._seen
        with self._lock:
            # Before the call: what it shows was true at some time after that.
            at = self._clock()
            found = self._servings.get(self._company)
            if found is None:
                return self._seen
            before = self._seen
            same = before.serving is not None and before.serving.current == found.current
            shelf = before.shelf if same else self.shelf_of(found.current)
            self._seen = Seen(shelf=shelf, serving=found, at=at)
            return self._seen

    def thaw(self, serving: Serving) -> None:
        """Let writes go on that somebody stopped and did not come back for."""
        if self._servings is not None:
            self._servings.thaw(self._company, version=serving.version)

    def shelf_of(self, wanted: ServedCollection) -> Shelf:
        """Return the shelf of a collection; MemoryConfigError when its embedder is not what it was."""
        configured, following = self._configured, self._following
        text, encoder = IndexedText(wanted.text_template), _encoder(wanted, configured.encoder)
        is_configured = wanted.identity == configured.identity
        if following is None or (
            is_configured and wanted.name == configured.collection and wanted.dense_weight is None
        ):
            return configured
        embedder = configured.embedder if is_configured else following.row.load(wanted.choice)
        shelf = build_shelf(
            self._client,
            wanted.name,
            history=self._history,
            embedder=embedder,
            encoder=encoder,
            text=text,
            plan=following.plan_of(embedder.kind, wanted.dense_weight),
            takes_untold=wanted.generation == 1,
        )
        if shelf.identity != wanted.identity:
            raise MemoryConfigError(
                f"collection {wanted.name!r} holds vectors of {wanted.identity.label}, and {wanted.choice.provider!r} "
                f"is {shelf.identity.label} here: install or configure what filled it, or run `memtend reindex`"
            )
        return shelf

    def close(self) -> None:
        """Close the connections to the ledger."""
        if self._database is not None:
            self._database.close()


def _encoder(wanted: ServedCollection, configured: Bm25Encoder) -> Bm25Encoder:
    if wanted.term_weighting == configured.weighting.value:
        return configured
    return Bm25Encoder(weighting=TermWeighting(wanted.term_weighting))
