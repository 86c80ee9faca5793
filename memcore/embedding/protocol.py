"""The Embedder protocol."""

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from memcore.models.base import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class EmbedderKind(StrEnum):
    """How an embedder runs (SPEC E1)."""

    STATIC = "static"
    ONNX = "onnx"
    SENTENCE_TRANSFORMERS = "sentence-transformers"
    OPENAI_COMPATIBLE = "openai-compatible"


class Embedder(Protocol):
    """Turns texts into vectors of unit length; safe to call from several threads at once.

    A text without meaning to the model gets the zero vector, whose similarity to everything is 0: it is found by
    nothing and merged with nothing, where an invented direction would be found by chance.
    """

    @property
    def name(self) -> str:
        """The model and everything else that changes its vectors: two embedders of one name agree on every text."""
        ...

    @property
    def kind(self) -> EmbedderKind:
        """How it runs."""
        ...

    @property
    def dims(self) -> int:
        """The length of every vector it makes."""
        ...

    def embed_documents(self, texts: "Sequence[str]", /) -> "NDArray[np.float32]":
        """Return one row of unit length for each text, shape (len(texts), dims), or raise MemoryEmbeddingError."""
        ...

    def embed_query(self, text: str, /) -> "NDArray[np.float32]":
        """Return the query's vector of unit length, shape (dims,), or raise MemoryEmbeddingError."""
        ...


class PromptPrefixes(Frozen):
    """The instruction prefixes that a model was trained with, ``"query: "`` and ``"passage: "`` for the e5 family."""

    query_prefix: str = ""
    document_prefix: str = ""

    def before(self, *, is_query: bool) -> str:
        """Return the prefix of a question or of a memory."""
        return self.query_prefix if is_query else self.document_prefix

    @property
    def mark(self) -> str:
        """Return what these prefixes add to an embedder's name: nothing when there are none."""
        if not self.query_prefix and not self.document_prefix:
            return ""
        return f"+q={self.query_prefix!r}+d={self.document_prefix!r}"
