"""A transformer in an ONNX file, run on one CPU thread: every exported sentence-transformers checkpoint, and MiniLM."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from memcore.embedding.protocol import EmbedderKind
from memcore.embedding.sides import Sides
from memcore.embedding.texts import require_texts, speaking, whole
from memcore.embedding.unit_rows import unit_rows
from memcore.errors import MemoryConfigError, MemoryEmbeddingError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Tokens of a text that are read unless the model says otherwise; the rest is cut off.
DEFAULT_MAX_TOKENS = 256

#: Texts in one run of the model. On one core 8 of like length cost 0.80 of single ones and 0.90 of batches of 32.
_BATCH_TEXTS = 8

#: Characters that are tokenized for each token that may be read; a token is rarely longer than 16, and a text of many
#: megabytes must not be tokenized to its end for the few tokens that count.
_CHARACTERS_PER_TOKEN = 32

#: The output that exports with a pooling layer give; all others give the vectors of the tokens first.
_POOLED = "sentence_embedding"

_PAD_TOKENS = ("[PAD]", "<pad>")


class OnnxEmbedder:
    """Embed texts with a model file and its tokenizer; the tokens' vectors are averaged and brought to unit length.

    The model runs on one thread, in the caller's: several callers run side by side. A text in a batch gets the vector
    that it gets alone up to rounding (1e-5); a blank text gets the zero vector.

    Args:
        model: the .onnx file, with the inputs input_ids and attention_mask and, if it has them, token_type_ids.
        tokenizer: the model's tokenizer.json.
        name: the model's name; prefixes and another limit than 256 tokens are added to it.
        max_tokens: tokens of a text that are read, special ones included.
        sides: the prefixes of questions and documents.

    Raises MemoryConfigError when onnxruntime is not installed or a file cannot be read as what it should be.
    """

    def __init__(
        self,
        *,
        model: Path,
        tokenizer: Path,
        name: str,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        sides: Sides | None = None,
    ) -> None:
        self._sides = sides or Sides()
        cut = "" if max_tokens == DEFAULT_MAX_TOKENS else f"-{max_tokens}"
        self._name = f"{name}{cut}{self._sides.mark}"
        self._max_characters = max_tokens * _CHARACTERS_PER_TOKEN
        self._tokenizer = _tokenizer_of(tokenizer, max_tokens)
        self._session = _session_of(model)
        self._inputs = {each.name for each in self._session.get_inputs()}
        outputs = [each.name for each in self._session.get_outputs()]
        self._output = _POOLED if _POOLED in outputs else outputs[0]
        self._dims = int(self._run(["dims"]).shape[1])

    @property
    def name(self) -> str:
        """The model, its limit where it is not 256 tokens, and its prefixes where it has some."""
        return self._name

    @property
    def kind(self) -> EmbedderKind:
        """Onnx."""
        return EmbedderKind.ONNX

    @property
    def dims(self) -> int:
        """Length of the vectors, measured on a text when the model was loaded."""
        return self._dims

    def embed_documents(self, texts: Sequence[str], /) -> "NDArray[np.float32]":
        """Return one row of unit length for each text, shape (len(texts), dims), float32.

        MemoryInputError when a single text is given, MemoryEmbeddingError when the model fails.
        """
        require_texts(texts)
        return self._embed(texts, self._sides.document_prefix)

    def embed_query(self, text: str, /) -> "NDArray[np.float32]":
        """Return the vector of unit length of a question, shape (dims,), float32, or raise MemoryEmbeddingError."""
        vector: NDArray[np.float32] = self.embed_queries([text])[0]
        return vector

    def embed_queries(self, texts: Sequence[str], /) -> "NDArray[np.float32]":
        """Return for each question the row that embed_query gives it, shape (len(texts), dims), float32."""
        require_texts(texts)
        return self._embed(texts, self._sides.query_prefix)

    def _embed(self, texts: Sequence[str], prefix: str) -> "NDArray[np.float32]":
        vectors = np.zeros((len(texts), self._dims), dtype=np.float32)
        # Texts of like length stand together, for the shorter ones of a batch are filled up to its longest.
        places = sorted(speaking(texts), key=lambda place: len(texts[place]))
        for start in range(0, len(places), _BATCH_TEXTS):
            batch = places[start : start + _BATCH_TEXTS]
            vectors[batch] = self._run([prefix + whole(texts[place][: self._max_characters]) for place in batch])
        return vectors

    def _run(self, texts: list[str]) -> "NDArray[np.float32]":
        encodings = self._tokenizer.encode_batch(texts)
        ids = np.array([each.ids for each in encodings], dtype=np.int64)
        mask = np.array([each.attention_mask for each in encodings], dtype=np.int64)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        feed = {name: value for name, value in given.items() if name in self._inputs}
        try:
            (found,) = self._session.run([self._output], feed)
        except (MemoryError, RecursionError):
            raise
        except Exception as error:  # onnxruntime's errors share no base of their own
            raise MemoryEmbeddingError(f"the model {self._name} failed: {type(error).__name__}") from error
        if found.ndim == 3:  # noqa: PLR2004  # texts, tokens, dimensions: not pooled yet
            weights = mask[:, :, np.newaxis].astype(np.float32)
            found = (found * weights).sum(axis=1)
        return unit_rows(found, name=self._name)


def _tokenizer_of(path: Path, max_tokens: int) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_buffer(path.read_bytes())
    except (OSError, ValueError) as error:
        raise MemoryConfigError(f"embedder: {path} is not a readable tokenizer.json") from error
    # The file may pad every text to one length, which would cost the model that length for each short text.
    known = tokenizer.padding or {}
    token = known.get("pad_token") or next(
        (each for each in _PAD_TOKENS if tokenizer.token_to_id(each) is not None), ""
    )
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(token) or 0, pad_token=token)
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def _session_of(path: Path) -> Any:
    try:
        import onnxruntime  # noqa: PLC0415  # 40 MB that only this embedder needs
    except ImportError as error:
        raise MemoryConfigError("embedder: needs onnxruntime: pip install 'memtend[onnx]'") from error
    options = onnxruntime.SessionOptions()
    # No pool of threads: workers are processes and callers are threads already, and a pool would not outlive a fork.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # see above
        raise MemoryConfigError(f"embedder: {path} is not a readable ONNX model") from error
