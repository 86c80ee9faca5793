"""Embeddings of a server that speaks OpenAI's API: OpenAI, Ollama, vLLM, LM Studio, text-embeddings-inference."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from memcore.embedding.json_post import JsonPost
from memcore.embedding.protocol import EmbedderKind
from memcore.embedding.sides import Sides
from memcore.embedding.texts import require_texts, speaking, whole
from memcore.embedding.unit_rows import unit_rows
from memcore.errors import MemoryConfigError, MemoryEmbeddingError, MemoryInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Texts in one request; servers allow from 32 (text-embeddings-inference) to 2,048 (OpenAI).
DEFAULT_MAX_INPUTS = 32

#: Characters of one text. No model on offer reads more than 32,000 tokens, about this much, and a request has a size.
DEFAULT_MAX_CHARACTERS = 131_072


class OpenAiCompatibleEmbedder:
    """Embed texts with a model that a server runs; a blank text is not sent and gets the zero vector.

    Args:
        server: how the server is reached.
        model: the model's name there; it is the embedder's name, for one model has one set of vectors wherever it runs.
        dims: length of the vectors; left out, it is measured by one request when this is built.
        max_inputs: texts in one request.
        max_characters: longest text that is sent.
        sides: the prefixes of questions and documents.

    Raises what JsonPost.post raises when it has to measure.
    """

    def __init__(
        self,
        server: JsonPost,
        *,
        model: str,
        dims: int | None = None,
        max_inputs: int = DEFAULT_MAX_INPUTS,
        max_characters: int = DEFAULT_MAX_CHARACTERS,
        sides: Sides | None = None,
    ) -> None:
        self._server = server
        self._model = model
        self._max_inputs = max_inputs
        self._max_characters = max_characters
        self._sides = sides or Sides()
        self._dims = dims or self._answer(["dims"]).shape[1]

    @property
    def name(self) -> str:
        """The model's name, and its prefixes where it has some."""
        return f"{self._model}{self._sides.mark}"

    @property
    def kind(self) -> EmbedderKind:
        """Openai-compatible."""
        return EmbedderKind.OPENAI_COMPATIBLE

    @property
    def dims(self) -> int:
        """Length of the vectors."""
        return self._dims

    def embed_documents(self, texts: Sequence[str], /) -> "NDArray[np.float32]":
        """Return one row of unit length for each text, shape (len(texts), dims), float32.

        Raises:
            MemoryInputError: a text is too long or refused by the server; MemoryEmbeddingError: no usable answer.
        """
        require_texts(texts)
        return self._embed(texts, self._sides.document_prefix)

    def embed_query(self, text: str, /) -> "NDArray[np.float32]":
        """Return the vector of unit length of a question, shape (dims,), float32; raises as embed_documents does."""
        vector: NDArray[np.float32] = self.embed_queries([text])[0]
        return vector

    def embed_queries(self, texts: Sequence[str], /) -> "NDArray[np.float32]":
        """Return for each question the row that embed_query gives it, shape (len(texts), dims), float32."""
        require_texts(texts)
        return self._embed(texts, self._sides.query_prefix)

    def _embed(self, texts: Sequence[str], prefix: str) -> "NDArray[np.float32]":
        for place, text in enumerate(texts):
            if len(text) > self._max_characters:
                raise MemoryInputError(
                    f"texts[{place}]", f"has {len(text)} characters; the embedder takes {self._max_characters}"
                )
        vectors = np.zeros((len(texts), self._dims), dtype=np.float32)
        places = speaking(texts)
        for start in range(0, len(places), self._max_inputs):
            batch = places[start : start + self._max_inputs]
            rows = self._answer([prefix + whole(texts[place]) for place in batch])
            if rows.shape[1] != self._dims:
                raise MemoryConfigError(
                    f"memory.embedder.dims: {self._dims} expected, and {self._model} makes {rows.shape[1]}: "
                    "correct the number, or the model's name"
                )
            vectors[batch] = rows
        return vectors

    def _answer(self, texts: list[str]) -> "NDArray[np.float32]":
        answer = self._server.post("/embeddings", {"model": self._model, "input": texts, "encoding_format": "float"})
        try:
            rows = _rows(answer, expected=len(texts))
        except (KeyError, TypeError, ValueError) as error:
            raise MemoryEmbeddingError(
                f"the embedding server at {self._server.shown_url} gives no usable vectors for {len(texts)} texts"
            ) from error
        return unit_rows(rows, name=self._model)


def _rows(answer: Any, *, expected: int) -> "NDArray[np.float32]":
    given = answer["data"]
    # Servers may answer out of order; each vector says which text it belongs to.
    by_place = {each["index"]: each["embedding"] for each in given}
    if len(given) != expected or sorted(by_place) != list(range(expected)):
        raise ValueError("not one vector for each text")
    rows = np.asarray([by_place[place] for place in range(expected)], dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] == 0:  # noqa: PLR2004  # texts, dimensions
        raise ValueError("not a list of numbers for each text")
    return rows
