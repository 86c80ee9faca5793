"""What every embedder does to texts before its model reads them."""

from collections.abc import Sequence

from memcore.errors import MemoryInputError


def require_texts(texts: Sequence[str]) -> None:
    """Raise MemoryInputError when one text is given where a sequence of texts belongs: it would be cut into letters."""
    if isinstance(texts, str):
        raise MemoryInputError("texts", "must be a sequence of texts, not one text")


def whole(text: str) -> str:
    """Return the text with each half of a surrogate pair replaced: a tokenizer or a server would refuse the batch."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def speaking(texts: Sequence[str]) -> list[int]:
    """Return the places of the texts that say something; a transformer would invent a direction for a blank one."""
    return [place for place, text in enumerate(texts) if text and not text.isspace()]
