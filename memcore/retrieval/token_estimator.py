"""How many tokens a text takes in a prompt."""

from typing import Protocol, runtime_checkable

#: Characters of a token, roughly, in English text.
_CHARS_PER_TOKEN = 4


@runtime_checkable
class TokenEstimator(Protocol):
    """Estimate tokens; hand in the tokenizer of the engine's own model for an exact budget."""

    def estimate_tokens(self, text: str) -> int:
        """Return the number of tokens, 0 or more."""
        ...


class DefaultTokenEstimator:
    """Take four characters for a token."""

    def estimate_tokens(self, text: str) -> int:
        """Return 0 for the empty text, else a quarter of its characters, 1 at least."""
        return max(1, len(text) // _CHARS_PER_TOKEN) if text else 0
