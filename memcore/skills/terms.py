"""The words by which texts of agents are held against each other: of any script, in their stems, without stop words."""

from memcore.embedding.tokenizer import Tokenizer

_TOKENIZER = Tokenizer()


def terms(*texts: str | None) -> frozenset[str]:
    """Return every term of the texts, each once."""
    return frozenset(_TOKENIZER.terms(" ".join(text for text in texts if text)))
