"""Cache of vectors in memory: questions are often repeated, and a model is slow."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from memcore.embedding.protocol import EmbedderKind, require_texts
from memcore.embedding.vectors import QueryBatchEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

#: Vectors that are kept; 3 MB with 384 dimensions, 8 MB with 1,024.
DEFAULT_MAX_TEXTS = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStatistics:
    """How often the cache helped, in texts, since it was built."""

    hits: int
    misses: int
    kept: int


class CachedEmbedder:
    """Embeds each text once while it is cached; it keeps hashes, not the texts.

    The two sides are kept apart, for a model may give a question another vector than a document. A batch with the same
    text twice sends it once. The cache belongs to this one embedder. Safe in several threads: two that miss the same
    text at once both embed it.

    Args:
        inner: the embedder of texts that are not cached.
        max_texts: vectors kept; the one unused for longest goes first.
    """

    def __init__(self, inner: QueryBatchEmbedder, *, max_texts: int = DEFAULT_MAX_TEXTS) -> None:
        self._inner = inner
        self._max_texts = max_texts
        self._kept: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()
        self._lock = Lock()
        self._hits = self._misses = 0

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

    @property
    def statistics(self) -> CacheStatistics:
        """How often the cache helped."""
        with self._lock:
            return CacheStatistics(hits=self._hits, misses=self._misses, kept=len(self._kept))

    def embed_documents(self, texts: Sequence[str], /) -> "NDArray[np.float32]":
        """Return one row for each text, in an array that is the caller's own."""
        return self._embed(texts, b"d", self._inner.embed_documents)

    def embed_query(self, text: str, /) -> "NDArray[np.float32]":
        """Return the question's vector, in an array that is the caller's own."""
        vector: NDArray[np.float32] = self.embed_queries([text])[0]
        return vector

    def embed_queries(self, texts: Sequence[str], /) -> "NDArray[np.float32]":
        """Return one row for each question."""
        return self._embed(texts, b"q", self._inner.embed_queries)

    def _embed(
        self, texts: Sequence[str], side: bytes, embed: "Callable[[Sequence[str]], NDArray[np.float32]]"
    ) -> "NDArray[np.float32]":
        require_texts(texts)
        keys = [_key(side, text) for text in texts]
        found = self._found(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            rows = embed(list(missing.values()))
            # Copies: a row of a batch would keep the whole batch alive for as long as it is remembered.
            fresh = {key: rows[place].copy() for place, key in enumerate(missing)}
            self._keep(fresh)
            found.update(fresh)
        if not keys:
            return np.zeros((0, self.dims), dtype=np.float32)
        return np.stack([found[key] for key in keys])

    def _found(self, keys: list[bytes]) -> "dict[bytes, NDArray[np.float32]]":
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
            for key in found:
                self._kept.move_to_end(key)
            misses = sum(key not in found for key in keys)
            self._misses += misses
            self._hits += len(keys) - misses
        return found

    def _keep(self, fresh: "dict[bytes, NDArray[np.float32]]") -> None:
        with self._lock:
            self._kept.update(fresh)
            while len(self._kept) > self._max_texts:
                self._kept.popitem(last=False)


def _key(side: bytes, text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, salt=side).digest()
