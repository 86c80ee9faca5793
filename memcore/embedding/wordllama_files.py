"""The wordllama model, read from the files of its wheel."""

import sys
import sysconfig
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from memcore.errors import MemoryConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Where the wheel keeps the table, below its package folder: 32,000 tokens by 256 dimensions in float16.
_WEIGHTS = Path("weights", "l2_supercat_256.safetensors")

#: The wheel, as pip is asked for it.
WHEEL = "wordllama==0.4.0.post1"

#: The first Python for which there is no such wheel. Data files alone are read, so that one of another Python serves.
FIRST_WITHOUT = (3, 14)

#: The name of the table in that file.
_TENSOR = "embedding.weight"

#: Where the wheel keeps the tokenizer.
_TOKENIZER = Path("tokenizers", "l2_supercat_tokenizer_config.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class WordllamaModel:
    """Hold one vector for each token, and the tokenizer that names the tokens."""

    #: Shape (tokens, 256); float32, since adding up float16 rows takes four times the CPU and saves 16 MB.
    table: "NDArray[np.float32]"
    #: Without padding and truncation.
    tokenizer: Tokenizer
    #: The tokens in the order of their ids, "▁" standing for a word's start.
    tokens: tuple[str, ...]

    @classmethod
    def load(cls) -> Self:
        """Read the model from the installed wheel, without importing it or opening a connection.

        wordllama's own loader looks beside the wrong folder, and then asks the network. MemoryConfigError when the
        wheel is missing or its files are not the expected ones.
        """
        spec = find_spec("wordllama")
        if spec is None or spec.origin is None:
            raise MemoryConfigError(
                f"embedder: 'static' reads files of the wheel wordllama: {installs(sys.version_info[:3])}"
            )
        folder = Path(spec.origin).parent
        try:
            # The wheel's float16 file is read to its end here; nothing stays mapped.
            table = load_file(folder / _WEIGHTS)[_TENSOR].astype(np.float32)
            tokenizer = Tokenizer.from_buffer((folder / _TOKENIZER).read_bytes())
        except (OSError, KeyError, ValueError, SafetensorError) as error:
            raise MemoryConfigError("embedder: the files in the wheel wordllama are not those expected") from error
        vocabulary = tokenizer.get_vocab()
        if len(vocabulary) != len(table):
            raise MemoryConfigError(f"embedder: wordllama has {len(table)} vectors for {len(vocabulary)} tokens")
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return cls(table=table, tokenizer=tokenizer, tokens=tuple(sorted(vocabulary, key=vocabulary.__getitem__)))


def installs(version: tuple[int, ...]) -> str:
    """Return the command that installs the wheel for a Python of this version."""
    if version < FIRST_WITHOUT:
        return "pip install 'memtend[engine]'"
    last = f"{FIRST_WITHOUT[0]}.{FIRST_WITHOUT[1] - 1}"
    folder = sysconfig.get_path("purelib")
    return f"pip install --no-deps --only-binary=:all: --python-version {last} --target {folder} {WHEEL}"
