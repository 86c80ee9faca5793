"""Embedders by name."""

from typing import TYPE_CHECKING

from memcore.errors import MemoryConfigError

if TYPE_CHECKING:
    from memcore.embedding.protocol import Embedder

#: The embedder of the embedded stack unless one is named (SPEC decision 15).
DEFAULT_EMBEDDER = "static"

#: Every name that create_embedder knows.
EMBEDDER_NAMES = (DEFAULT_EMBEDDER, "static-mean", "minilm")


def create_embedder(name: str = DEFAULT_EMBEDDER) -> "Embedder":
    """Build the embedder of this name; only now are its libraries imported and its weights read.

    Args:
        name: "static" (the default), "static-mean" for the table with wordllama's own unweighted mean, or "minilm" for
            all-MiniLM-L6-v2 with 8-bit weights (extra minilm).

    Raises MemoryConfigError when no embedder has the name, or when its files are missing.
    """
    if name not in EMBEDDER_NAMES:
        raise MemoryConfigError(f"embedder: {name!r} is unknown, choose one of {', '.join(EMBEDDER_NAMES)}")
    if name == "minilm":
        from memcore.embedding.minilm_files import MINILM_NAME, MinilmFiles  # noqa: PLC0415  # see below
        from memcore.embedding.onnx import OnnxEmbedder  # noqa: PLC0415  # see below

        files = MinilmFiles.find()
        return OnnxEmbedder(model=files.model, tokenizer=files.tokenizer, name=MINILM_NAME)
    # Whoever only reads the names must not pay for numpy and tokenizers: they come with the first embedder.
    from memcore.embedding.pooling import Pooling  # noqa: PLC0415  # see above
    from memcore.embedding.static import StaticEmbedder  # noqa: PLC0415  # see above

    return StaticEmbedder(pooling=Pooling.TEMPERED if name == DEFAULT_EMBEDDER else Pooling.MEAN)
