"""A folder with an exported sentence-transformers checkpoint: which file is the model, and how it is read."""

import json
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any, Self

from memcore.embedding.onnx import DEFAULT_MAX_TOKENS
from memcore.errors import MemoryConfigError

#: Where exporters put the model, below the folder.
_MODELS = ("model.onnx", "onnx/model.onnx")

#: Where a checkpoint says how many tokens it reads, and under which key; the first that is there counts.
_LIMITS = (("sentence_bert_config.json", "max_seq_length"), ("tokenizer_config.json", "model_max_length"))

#: What a checkpoint says when it averages its tokens' vectors.
_POOLING, _MEAN = "1_Pooling/config.json", "pooling_mode_mean_tokens"

#: Longest text in tokens, whatever the checkpoint allows: the cost of one run grows with the square.
_MOST_TOKENS = 2_048

#: From here on a limit says that none was set: some tokenizers write 10 to the power of 30.
_NO_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxFolder:
    """Say what OnnxEmbedder needs to know of a folder.

    Attributes:
        model: the model file.
        tokenizer: its tokenizer.json.
        name: the folder's name and the beginning of the model file's hash, so that a retrained model has another name.
        max_tokens: what the checkpoint says, or 256.
    """

    model: Path
    tokenizer: Path
    name: str
    max_tokens: int

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Look into the folder; MemoryConfigError says what is missing there."""
        model = next((folder / each for each in _MODELS if (folder / each).is_file()), None)
        tokenizer = folder / "tokenizer.json"
        if model is None or not tokenizer.is_file():
            raise MemoryConfigError(f"memory.embedder.model: {folder} must hold model.onnx and tokenizer.json")
        if not _json(folder / _POOLING).get(_MEAN, True):
            raise MemoryConfigError(
                f"memory.embedder.model: {folder} does not average its tokens, and only such models are understood"
            )
        with model.open("rb") as file:
            mark = file_digest(file, "sha256").hexdigest()[:12]
        found = (_json(folder / name).get(key) for name, key in _LIMITS)
        limit = next((each for each in found if isinstance(each, int) and 0 < each < _NO_LIMIT), DEFAULT_MAX_TOKENS)
        return cls(
            model=model,
            tokenizer=tokenizer,
            name=f"{folder.resolve().name}-{mark}",
            max_tokens=min(limit, _MOST_TOKENS),
        )


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise MemoryConfigError(f"memory.embedder.model: {path} cannot be read") from error
    return content if isinstance(content, dict) else {}
