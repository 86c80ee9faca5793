"""A sentence-transformers model in this process: for checkpoints that were not exported, and for GPUs."""

from importlib import import_module
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from memcore.embedding.batching import ModelEmbedder, unit_rows
from memcore.embedding.protocol import EmbedderKind, PromptPrefixes
from memcore.errors import MemoryConfigError, MemoryEmbeddingError

#: Texts in one run of the model.
_BATCH_TEXTS = 32


class SentenceTransformersEmbedder(ModelEmbedder):
    """Embed texts with a loaded SentenceTransformer, recorded under a name.

    One call at a time runs in the model: its tokenizer refuses a second one.
    """

    kind = EmbedderKind.SENTENCE_TRANSFORMERS

    def __init__(self, model: Any, *, name: str, prompt_prefixes: PromptPrefixes | None = None) -> None:
        self._model = model
        self._lock = Lock()
        super().__init__(name, prompt_prefixes=prompt_prefixes, batch_texts=_BATCH_TEXTS)

    @classmethod
    def load(cls, model: str, *, prompt_prefixes: PromptPrefixes | None = None) -> Self:
        """Load a model by its name or folder, on the GPU when torch sees one; code that it brings is never run.

        Raises MemoryConfigError when the extra is not installed or the model cannot be loaded.
        """
        try:
            # By name: torch comes with it, seconds and gigabytes, and an installation without the extra has neither.
            library = import_module("sentence_transformers")
        except ImportError as error:
            raise MemoryConfigError(
                "embedder: 'sentence-transformers' needs its libraries: pip install 'memtend[finetune]'"
            ) from error
        try:
            loaded = library.SentenceTransformer(model, trust_remote_code=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise MemoryConfigError(f"memory.embedder.model: {model!r} cannot be loaded") from error
        return cls(loaded, name=model, prompt_prefixes=prompt_prefixes)

    def _run(self, texts: list[str]) -> NDArray[np.float32]:
        try:
            with self._lock:
                found = self._model.encode(
                    texts, batch_size=_BATCH_TEXTS, convert_to_numpy=True, show_progress_bar=False
                )
            rows = np.asarray(found, dtype=np.float32)
        except (RuntimeError, ValueError) as error:
            # torch says everything with RuntimeError, out of GPU memory included.
            raise MemoryEmbeddingError(f"the model {self.name} failed: {type(error).__name__}") from error
        if rows.ndim != 2 or len(rows) != len(texts):  # noqa: PLR2004  # texts, dimensions
            raise MemoryEmbeddingError(f"the model {self.name} gave not one vector for each of {len(texts)} texts")
        return unit_rows(rows, name=self.name)
