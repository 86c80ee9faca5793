"""Embedders of models that take several texts at once, and the cache that stands before a slow one."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from memcore.embedding.bm25 import require_texts, whole
from memcore.embedding.protocol import Embedder, EmbedderKind, PromptPrefixes
from memcore.errors import MemoryEmbeddingError


def unit_rows(rows: NDArray[np.floating], *, name: str) -> NDArray[np.float32]:
    """Bring each row to length 1 and leave a row of zeros as it is; shape (n, dims) stays.

    Raises MemoryEmbeddingError, which names the model, when a number is infinite or none.
    """
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise MemoryEmbeddingError(f"the model {name} gave a vector that is no number")
    unit: NDArray[np.float32] = (rows / np.where(lengths > 0.0, lengths, 1.0)).astype(np.float32)
    return unit


class BatchEmbedder(ABC):
    """The base of embedders whose model takes several texts in one run or request, questions too.

    ``embed_queries`` returns for each text the row that ``embed_query`` gives it, shape (len(texts), dims). It and
    ``embed_documents`` raise MemoryInputError when a single text is given.
    """

    name: str
    kind: EmbedderKind
    dims: int

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        require_texts(texts)
        return self._embed(texts, is_query=False)

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.embed_queries([text])[0]
        return vector

    def embed_queries(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        require_texts(texts)
        return self._embed(texts, is_query=True)

    @abstractmethod
    def _embed(self, texts: Sequence[str], *, is_query: bool) -> NDArray[np.float32]: ...


def questions(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return a row for each question, in one batch where the embedder takes several; shape (len(texts), dims)."""
    if isinstance(embedder, BatchEmbedder):
        return embedder.embed_queries(texts)
    return np.stack([embedder.embed_query(text) for text in texts])


class ModelEmbedder(BatchEmbedder):
    """The base of embedders that run a model themselves, or ask a server; a blank text gets the zero vector."""

    def __init__(
        self, name: str, *, prompt_prefixes: PromptPrefixes | None, batch_texts: int, dims: int | None = None
    ) -> None:
        self._prompt_prefixes = prompt_prefixes or PromptPrefixes()
        self._batch_texts = batch_texts
        self.name = f"{name}{self._prompt_prefixes.mark}"
        #: 0 until the first answer tells it.
        self.dims = dims or 0
        self.dims = self.dims or int(self._run(["dims"]).shape[1])

    def _embed(self, texts: Sequence[str], *, is_query: bool) -> NDArray[np.float32]:
        prefix = self._prompt_prefixes.before(is_query=is_query)
        vectors = np.zeros((len(texts), self.dims), dtype=np.float32)
        # A model would invent a direction for a blank text. Texts of like length stand together, for the shorter ones
        # of a batch are filled up to its longest.
        spoken = (place for place, text in enumerate(texts) if text and not text.isspace())
        places = sorted(spoken, key=lambda place: len(texts[place]))
        for start in range(0, len(places), self._batch_texts):
            batch = places[start : start + self._batch_texts]
            vectors[batch] = self._run([prefix + whole(texts[place]) for place in batch])
        return vectors

    @abstractmethod
    def _run(self, texts: list[str]) -> NDArray[np.float32]:
        """Return a row of unit length for each text, with its prefix."""


#: Vectors that are kept; 3 MB with 384 dimensions, 8 MB with 1,024.
DEFAULT_CACHED_TEXTS = 2_048


class CachedEmbedder(BatchEmbedder):
    """Embeds each text once while it is cached; it keeps hashes, not the texts.

    The two sides are kept apart, for a model may give a question another vector than a document. A batch with the same
    text twice sends it once. The cache belongs to this one embedder. Safe in several threads: two that miss the same
    text at once both embed it. Of more than ``max_texts`` vectors the one unused for longest goes first.
    """

    def __init__(self, inner: BatchEmbedder, *, max_texts: int = DEFAULT_CACHED_TEXTS) -> None:
        self.name, self.kind, self.dims = inner.name, inner.kind, inner.dims
        self._inner = inner
        self._max_texts = max_texts
        self._kept: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()
        self._lock = Lock()

    def _embed(self, texts: Sequence[str], *, is_query: bool) -> NDArray[np.float32]:
        side, embed = (b"q", self._inner.embed_queries) if is_query else (b"d", self._inner.embed_documents)
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

    def _found(self, keys: list[bytes]) -> dict[bytes, NDArray[np.float32]]:
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
            for key in found:
                self._kept.move_to_end(key)
        return found

    def _keep(self, fresh: dict[bytes, NDArray[np.float32]]) -> None:
        with self._lock:
            self._kept.update(fresh)
            while len(self._kept) > self._max_texts:
                self._kept.popitem(last=False)


def _key(side: bytes, text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, salt=side).digest()
