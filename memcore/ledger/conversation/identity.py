"""When two facts or rules say the same, and when they are about the same thing."""

import hashlib

from memcore.embedding.bm25 import Tokenizer
from memcore.models.conversation import ProceduralCandidate, SemanticCandidate


def normalised(text: str) -> str:
    """Return the words of a text in any script, folded, without punctuation."""
    return " ".join(Tokenizer.words(text))


def slot_of(candidate: SemanticCandidate) -> str:
    """Return the hash of category, subject and predicate: facts that share it may contradict each other."""
    return _hashed(candidate.category, candidate.subject, candidate.predicate)


def identity_of(candidate: SemanticCandidate | ProceduralCandidate) -> str:
    """Return the hash of all that a candidate says, with the person's words."""
    if isinstance(candidate, ProceduralCandidate):
        return _hashed(candidate.rule)
    return _hashed(
        candidate.category, candidate.subject, candidate.predicate, candidate.object, candidate.evidence_quote
    )


def _hashed(*parts: str) -> str:
    # A part that is punctuation alone is compared as it stands: "C" and "C++" are two things.
    words = [normalised(part) or part for part in parts]
    return hashlib.blake2b("\x1f".join(words).encode(), digest_size=16).hexdigest()
