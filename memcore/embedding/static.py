"""The default embedder: a table of token vectors, added up. No model runs, so a text costs microseconds."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memcore.embedding.pooling import Pooling, weigh
from memcore.embedding.protocol import EmbedderKind
from memcore.embedding.static_folder import StaticFolder
from memcore.embedding.tokenizer import fold
from memcore.embedding.word_tokens import WordTokens
from memcore.embedding.wordllama_files import WordllamaModel
from memcore.errors import MemoryInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Texts handed to the tokenizer at once; enough to keep its threads busy, few enough that their tokens stay small.
_BATCH_TEXTS = 256

#: Tokens whose vectors are gathered at once, 8 MB; a text is rarely longer, and a book must not take gigabytes.
_BATCH_TOKENS = 8_192


class StaticEmbedder:
    """Embed texts with wordllama's table of 256 dimensions; construction reads it (16 MB from disk, 33 MB in memory).

    The same text gets the same vector to the last bit, alone or in a batch: each text is added up by itself. A text
    without a token (the empty one) gets the zero vector.

    Args:
        pooling: how the vectors of a text's tokens are weighted; it is part of the embedder's name.
        folder: another table, taken as it is, since its weights were trained with it; texts are folded.

    Raises MemoryConfigError when the wheel wordllama or one of its files is missing.
    """

    def __init__(self, *, pooling: Pooling = Pooling.TEMPERED, folder: StaticFolder | None = None) -> None:
        if folder is None:
            model = WordllamaModel.load()
            weigh(model.table, model.tokens, pooling)
            self._table, tokenizer = model.table, model.tokenizer
            self._name = f"wordllama-{self.dims}-{pooling}"
        else:
            self._table, tokenizer, self._name = folder.table, folder.tokenizer, folder.name
        self._tokens = WordTokens(tokenizer)
        self._is_folding = folder is not None or pooling is Pooling.TEMPERED

    @property
    def name(self) -> str:
        """The table, its width and its pooling, as in "wordllama-256-tempered"; a folder's name and hash."""
        return self._name

    @property
    def kind(self) -> EmbedderKind:
        """Static."""
        return EmbedderKind.STATIC

    @property
    def dims(self) -> int:
        """Length of the vectors: 256, or that of the folder's table."""
        return int(self._table.shape[1])

    def embed_documents(self, texts: Sequence[str], /) -> "NDArray[np.float32]":
        """Return one row of unit length for each text, shape (len(texts), dims), float32.

        MemoryInputError when a single text is given where a sequence of texts belongs.
        """
        if isinstance(texts, str):
            raise MemoryInputError("texts", "must be a sequence of texts, not one text")
        vectors = np.zeros((len(texts), self.dims), dtype=np.float32)
        for start in range(0, len(texts), _BATCH_TEXTS):
            prepared = [self._prepared(text) for text in texts[start : start + _BATCH_TEXTS]]
            for row, ids in enumerate(self._tokens.ids(prepared), start):
                self._pool(ids, vectors[row])
        return vectors

    def embed_query(self, text: str, /) -> "NDArray[np.float32]":
        """Return the vector of unit length of a question, shape (dims,), float32: the same as for a document."""
        vector = np.zeros(self.dims, dtype=np.float32)
        self._pool(self._tokens.ids([self._prepared(text)])[0], vector)
        return vector

    def _prepared(self, text: str) -> str:
        # Half of a surrogate pair is no text to the tokenizer, which would refuse the whole batch for it.
        whole = text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
        return fold(whole) if self._is_folding else whole

    def _pool(self, ids: list[int], vector: "NDArray[np.float32]") -> None:
        for start in range(0, len(ids), _BATCH_TOKENS):
            vector += np.add.reduce(self._table.take(ids[start : start + _BATCH_TOKENS], axis=0), axis=0)
        if length := math.sqrt(vector.dot(vector)):
            vector /= length
