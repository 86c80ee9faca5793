"""A folder with a table of token vectors: what fine-tuning of kind static leaves, loaded without torch."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load
from tokenizers import Tokenizer

from memcore.embedding.word_tokens import WordTokens
from memcore.errors import MemoryConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The table's file, and its name in there: a row for each token, weighted already.
TABLE_FILE = "table.safetensors"
TENSOR = "embedding.weight"

#: The tokenizer's file.
TOKENIZER_FILE = "tokenizer.json"

#: A text whose tokens are those of its words, as WordTokens takes it.
_PROBE = "what did ada say about the pumps, and when did they fail?"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFolder:
    """Hold what StaticEmbedder needs of a folder.

    Attributes:
        table: shape (tokens, dims), float32.
        tokenizer: without padding and truncation.
        name: the folder's name and the beginning of its files' hash, so that a retrained table has another name.
    """

    table: "NDArray[np.float32]"
    tokenizer: Tokenizer
    name: str

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the folder; MemoryConfigError says what is wrong there."""
        try:
            files = [(folder / name).read_bytes() for name in (TABLE_FILE, TOKENIZER_FILE)]
        except OSError:
            raise MemoryConfigError(
                f"memory.embedder.model: {folder} must hold {TABLE_FILE} and {TOKENIZER_FILE}"
            ) from None
        try:
            table = load(files[0])[TENSOR].astype(np.float32, copy=False)
            tokenizer = Tokenizer.from_buffer(files[1])
        except (KeyError, ValueError, SafetensorError) as error:
            raise MemoryConfigError(f"memory.embedder.model: {folder} holds no table that can be read") from error
        tokenizer.no_padding()
        tokenizer.no_truncation()
        _check(table, tokenizer, folder)
        mark = sha256(b"".join(sha256(content).digest() for content in files)).hexdigest()[:12]
        return cls(table=table, tokenizer=tokenizer, name=f"{folder.resolve().name}-{mark}")


def _check(table: "NDArray[np.float32]", tokenizer: Tokenizer, folder: Path) -> None:
    if table.ndim != 2 or len(table) < tokenizer.get_vocab_size():  # noqa: PLR2004  # tokens and dimensions
        raise MemoryConfigError(
            f"memory.embedder.model: {folder} has {len(table)} vectors for {tokenizer.get_vocab_size()} tokens"
        )
    whole = tokenizer.encode(_PROBE, add_special_tokens=False).ids
    if WordTokens(tokenizer).ids([_PROBE]) != [whole]:
        raise MemoryConfigError(
            f"memory.embedder.model: {folder} has tokens that reach from one word into the next, "
            "and only tables of words and their parts are understood"
        )
