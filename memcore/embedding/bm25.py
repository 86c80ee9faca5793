"""BM25 without a vocabulary: terms are hashed, documents are weighted here, and Qdrant multiplies by its own IDF."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache

import mmh3

from memcore.embedding.sparse_vector import SparseVector
from memcore.embedding.tokenizer import Tokenizer
from memcore.errors import MemoryConfigError

#: Saturation: 0 counts presence only, higher lets repetition count longer. On dialogue turns and on extracted facts
#: 0.3 to 0.9 measured alike (NDCG@10 within 0.003) as long as the length correction stays mild.
DEFAULT_K1 = 0.5

#: Share of the length correction, 0 (none) to 1 (full). Among texts of one length it changes nothing; it keeps a long
#: summary from winning by its length alone.
DEFAULT_B = 0.4

#: Terms in a document that is not corrected for its length: between a fact (10 to 20) and a summary (100 and more).
#: With 16 the correction among short texts costs 0.007 NDCG@10 on dialogue turns.
DEFAULT_AVERAGE_TERMS = 64.0

#: Hashes kept, in terms; about 4 MB when full.
_HASH_CACHE_SIZE = 32_768


class TermWeighting(StrEnum):
    """How often a term occurs, turned into its weight in a document."""

    #: BM25: the second occurrence counts less than the first, and long texts are corrected for their length.
    SATURATED = "saturated"
    #: The bare number of occurrences, as the reference has it.
    FREQUENCY = "frequency"


class Bm25Encoder:
    """Turn texts into sparse vectors for a Qdrant sparse field with the IDF modifier; safe in several threads at once.

    Nothing about the corpus is needed: BM25's document weight takes a fixed average length instead of a counted one,
    and an index is the unsigned 32-bit murmur3 hash of the term. Occurrences of two terms with one hash are added up.

    Args:
        tokenizer: how texts become terms; documents and queries must meet the same one.
        weighting: how occurrences become weights.
        k1: saturation, 0 or higher; unused by FREQUENCY, as are the next two.
        b: share of the length correction, 0 to 1.
        average_terms: the length in terms at which nothing is corrected, above 0.

    Raises MemoryConfigError when k1, b or average_terms is outside its range.
    """

    def __init__(
        self,
        *,
        tokenizer: Tokenizer | None = None,
        weighting: TermWeighting = TermWeighting.SATURATED,
        k1: float = DEFAULT_K1,
        b: float = DEFAULT_B,
        average_terms: float = DEFAULT_AVERAGE_TERMS,
    ) -> None:
        if not 0.0 <= k1 < float("inf"):
            raise MemoryConfigError(f"sparse.k1: must be 0 or higher, not {k1}")
        if not 0.0 <= b <= 1.0:
            raise MemoryConfigError(f"sparse.b: must be between 0 and 1, not {b}")
        if not 0.0 < average_terms < float("inf"):
            raise MemoryConfigError(f"sparse.average_terms: must be above 0, not {average_terms}")
        self._tokenizer = tokenizer if tokenizer is not None else Tokenizer()
        self._weighting = weighting
        self._k1 = k1
        self._b = b
        self._average_terms = average_terms
        self._index_of = lru_cache(maxsize=_HASH_CACHE_SIZE)(_murmur3)

    @property
    def weighting(self) -> TermWeighting:
        """How occurrences become weights; documents of one collection must agree on it."""
        return self._weighting

    def encode_documents(self, texts: Sequence[str]) -> list[SparseVector]:
        """Return one vector for each text, in order; empty where a text has no terms."""
        return [self.encode_document(text) for text in texts]

    def encode_document(self, text: str) -> SparseVector:
        """Return the vector of one text: the weights of its terms."""
        found = list(map(self._index_of, self._tokenizer.terms(text)))
        counts = sorted(Counter(found).items())
        indices = tuple([index for index, _ in counts])
        if self._weighting is TermWeighting.FREQUENCY:
            return SparseVector(indices=indices, values=tuple([float(count) for _, count in counts]))
        halfway = self._k1 * (1.0 - self._b + self._b * len(found) / self._average_terms)
        gain = self._k1 + 1.0
        return SparseVector(indices=indices, values=tuple([count * gain / (count + halfway) for _, count in counts]))

    def encode_query(self, text: str) -> SparseVector:
        """Return the vector of a question: weight 1 for each of its terms, however often it says them."""
        indices = tuple(sorted(set(map(self._index_of, self._tokenizer.query_terms(text)))))
        return SparseVector(indices=indices, values=(1.0,) * len(indices))


def _murmur3(term: str) -> int:
    return mmh3.hash(term, 0, signed=False)
