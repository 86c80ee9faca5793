"""The table of word vectors as something that can be trained: the default embedder, weights and all."""

from typing import Any

from memcore.embedding.pooling import Pooling, weigh
from memcore.embedding.wordllama_files import WordllamaModel
from memcore.finetune.encoder import needed

#: The plan's word for it.
STATIC = "static"


def load_static() -> Any:
    """Return a sentence-transformers model of one StaticEmbedding, whose vectors are the default embedder's.

    Its texts must be folded as the embedder folds them (memcore.embedding.tokenizer.fold).

    Raises:
        FineTuneDependencyError: torch or sentence-transformers is missing.
        MemoryConfigError: the table's wheel is missing.
    """
    library = needed("sentence_transformers")
    modules = needed("sentence_transformers.sentence_transformer.modules")
    model = WordllamaModel.load()
    weigh(model.table, model.tokens, Pooling.TEMPERED)
    return library.SentenceTransformer(
        modules=[modules.StaticEmbedding(model.tokenizer, embedding_weights=model.table)], device="cpu"
    )
