"""The table of word vectors as something that can be trained: the default embedder, weights and all."""

from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from memcore.embedding.pooling import Pooling, weigh
from memcore.embedding.wordllama_files import WordllamaModel
from memcore.errors import MemoryInputError
from memcore.finetune.encoder import needed
from memcore.finetune.plan import DEFAULT_STATIC

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: The plan's word for the kind.
STATIC = "static"


def load_static(base_model: str | None = None) -> Any:
    """Return a sentence-transformers model of one table, whose vectors are the default embedder's.

    Its texts must be folded as the embedder folds them (memcore.embedding.tokenizer.fold).

    Raises:
        FineTuneDependencyError: torch or sentence-transformers is missing.
        MemoryConfigError: the table's wheel is missing.
        MemoryInputError: base_model: there is no other table.
    """
    if base_model not in {None, DEFAULT_STATIC}:
        raise MemoryInputError("base_model", f"must be {DEFAULT_STATIC} for kind static")
    model = WordllamaModel.load()
    weigh(model.table, model.tokens, Pooling.TEMPERED)
    return static_of(model.table, model.tokenizer)


def static_of(table: "NDArray[np.float32]", tokenizer: Tokenizer) -> Any:
    """Return the model of a table of token vectors; FineTuneDependencyError when its library is missing."""
    library = needed("sentence_transformers")
    modules = needed("sentence_transformers.sentence_transformer.modules")
    return library.SentenceTransformer(
        modules=[modules.StaticEmbedding(tokenizer, embedding_weights=table)], device="cpu"
    )
