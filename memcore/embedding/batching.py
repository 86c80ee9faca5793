"""Micro-batches: texts of concurrent callers are embedded in one request instead of many."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from threading import Event, Lock
from typing import TYPE_CHECKING

from memcore.embedding.protocol import EmbedderKind, require_texts
from memcore.embedding.vectors import QueryBatchEmbedder
from memcore.errors import MemoryEmbeddingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Texts that are sent without waiting for more.
DEFAULT_MAX_TEXTS = 32

#: How long the first caller waits for others; little beside a request to a server, which takes 10 ms and more.
DEFAULT_WAIT = timedelta(milliseconds=2)


class MicroBatchedEmbedder:
    """Joins the texts of concurrent callers; it has no thread of its own, so it outlives a fork.

    The first caller opens a batch, waits until it is full or the time is up, and embeds it for all. When the batch is
    refused, each caller embeds its own texts alone, so a bad text fails for the one who sent it. When the embedder
    cannot be reached, all fail at once instead of asking it again one by one.

    Args:
        inner: the embedder that gets the batches.
        max_texts: texts that are enough; a caller who brings as many goes by itself.
        wait: how long the first caller waits for others.
    """

    def __init__(
        self, inner: QueryBatchEmbedder, *, max_texts: int = DEFAULT_MAX_TEXTS, wait: timedelta = DEFAULT_WAIT
    ) -> None:
        self._inner = inner
        self._documents = _Side(inner.embed_documents, max_texts=max_texts, wait=wait)
        self._queries = _Side(inner.embed_queries, max_texts=max_texts, wait=wait)

    @property
    def name(self) -> str:
        """The inner embedder's."""
        return self._inner.name

    @property
    def kind(self) -> EmbedderKind:
        """The inner embedder's."""
        return self._inner.kind

    @property
    def dims(self) -> int:
        """The inner embedder's."""
        return self._inner.dims

    def embed_documents(self, texts: Sequence[str], /) -> "NDArray[np.float32]":
        """Return one row for each text; raises what the inner embedder raises for these texts."""
        return self._documents.embed(texts)

    def embed_query(self, text: str, /) -> "NDArray[np.float32]":
        """Return the question's vector; raises what the inner embedder raises for it."""
        vector: NDArray[np.float32] = self._queries.embed([text])[0]
        return vector

    def embed_queries(self, texts: Sequence[str], /) -> "NDArray[np.float32]":
        """Return one row for each question."""
        return self._queries.embed(texts)


class _Batch:
    """Texts that are embedded together, and what became of them."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.is_full = Event()
        self.is_done = Event()
        self.rows: NDArray[np.float32] | None = None
        self.unreachable: MemoryEmbeddingError | None = None


class _Side:
    def __init__(
        self, embed: "Callable[[Sequence[str]], NDArray[np.float32]]", *, max_texts: int, wait: timedelta
    ) -> None:
        self._embed = embed
        self._max_texts = max_texts
        self._wait = wait.total_seconds()
        self._lock = Lock()
        self._open: _Batch | None = None

    def embed(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        require_texts(texts)
        if not texts or len(texts) >= self._max_texts:
            return self._embed(texts)
        batch, start, is_first = self._join(texts)
        if is_first:
            self._run_batch(batch)
        else:
            batch.is_done.wait()
        if batch.unreachable is not None:
            raise MemoryEmbeddingError(str(batch.unreachable)) from batch.unreachable
        if batch.rows is None:
            return self._embed(texts)
        return batch.rows[start : start + len(texts)].copy()

    def _join(self, texts: Sequence[str]) -> tuple[_Batch, int, bool]:
        with self._lock:
            is_first = self._open is None
            batch = self._open or _Batch()
            start = len(batch.texts)
            batch.texts += texts
            # A full batch takes nobody in any more: the next caller opens another while this one is embedded.
            is_full = len(batch.texts) >= self._max_texts
            self._open = None if is_full else batch
        if is_full:
            batch.is_full.set()
        return batch, start, is_first

    def _run_batch(self, batch: _Batch) -> None:
        try:
            batch.is_full.wait(self._wait)
            with self._lock:
                if self._open is batch:
                    self._open = None
            batch.rows = self._embed(batch.texts)
        except MemoryEmbeddingError as error:
            batch.unreachable = error
        except Exception:  # noqa: BLE001  # each caller meets it again alone, or does not
            return
        finally:
            # Also when this thread is being ended: the others must not wait for it.
            with self._lock:
                if self._open is batch:
                    self._open = None
            batch.is_done.set()
