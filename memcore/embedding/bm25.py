"""BM25 without a vocabulary: terms are hashed, documents are weighted here, and Qdrant multiplies by its own IDF."""

import math
import re
import threading
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise, zip_longest
from string import ascii_lowercase, digits

import mmh3
import Stemmer

from memcore.embedding.exact import exact_words
from memcore.embedding.languages import (
    ENGLISH_STOP_WORDS,
    INNER_MARKS,
    LONE_LETTERS,
    Stems,
    beginnings,
    has_language,
    is_function_word,
    language_of,
    pairs,
    telling,
    without_accents,
)
from memcore.errors import MemoryInputError

#: Followed by "of" in a question, these ask for a kind of thing and name none: "what kind of music" asks about music.
QUESTION_FRAMES = frozenset({"kind", "kinds", "sort", "sorts", "type", "types"})

#: A lone letter, or a run of letters and digits with inner marks. The underscore joins the words of names: it splits.
_WORD = re.compile(f"[{LONE_LETTERS}]|[^\\W_{LONE_LETTERS}]+(?:[{INNER_MARKS}]+[^\\W_{LONE_LETTERS}]*)*")

#: The bytes of ASCII words, and spaces for all others: an expression, or a table of characters, would take longer.
_ASCII_WORDS = bytes(place if chr(place) in ascii_lowercase + digits else ord(" ") for place in range(256))

#: Version of the terms that a text has; the next one when `memtend reindex` must make sparse vectors anew. 1 had no
#: exact forms and no beginnings.
TERMS_VERSION = 2

#: Begins the term of a word in its exact form; no folded word has it.
EXACT = "="

#: Begins the term of a word's first letters.
BEGINNING = "^"

_FURTHER = (EXACT, BEGINNING)

#: What a word's beginning weighs in a question: less than the word, which some memories have in another form.
_BEGINNING_WEIGHT = 0.25

#: What the stem of a word in its language weighs beside the English stem, which two inflections of it seldom share.
_OWN_STEM_WEIGHT = 0.75

#: What the exact form of a symbol or of a word with a sign weighs in a question: "C" and "C++" are words of many texts.
_SIGN_WEIGHT = 2.0

#: What the exact form of a bare number weighs in a question: it tells 20 from -20. As much as a word costs 0.003
#: NDCG@10 on dialogue turns, where most numbers are of dates.
_NUMBER_WEIGHT = 0.25

#: Stems kept, in words; about 4 MB when full. Half the words of a text are among the commonest few hundred.
_STEM_CACHE_SIZE = 32_768

#: Questions of which is kept what they ask for: those that are being answered.
QUESTIONS_KEPT = 8


def require_texts(texts: Sequence[str]) -> None:
    """Raise MemoryInputError when one text is given where a sequence of texts belongs: it would be cut into letters."""
    if isinstance(texts, str):
        raise MemoryInputError("texts", "must be a sequence of texts, not one text")


def whole(text: str) -> str:
    """Return the text with each half of a surrogate pair replaced: a tokenizer or a server would refuse the batch."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def fold(text: str) -> str:
    """Return the text in the form in which texts are compared: compatibility characters unified, case removed."""
    if text.isascii():
        return text.lower()
    # Folding case can undo the composition ("ΐ" comes apart), so it is composed again.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


class Tokenizer:
    """Split texts into words and reduce these to stems: "adopted" and "adoption" meet. Thread-safe.

    Each word has its English stem, whatever its language. Where the text is in another one, the stem there and the
    word without accents are further terms, and so is each pair of characters in a script without spaces. A word whose
    sign, number or case tells ("O+", "-20", "getUser") has its exact form as a further term. Beginnings of words are
    further terms where no language is known, of a document only if it has letters beyond ASCII. All of a process keep
    the same stems.
    """

    @staticmethod
    def words(text: str) -> list[str]:
        """Return every word, folded, in order: letters and digits of any script, unspaced scripts by character."""
        return _words(fold(text))

    @staticmethod
    def stems(words: Iterable[str]) -> list[str]:
        """Return the English stem of each word, which every word has; none is kept, however many are asked for."""
        return [str(stem) for stem in Stemmer.Stemmer("english", 0).stemWords([*words])]

    def terms(self, text: str) -> list[str]:
        """Return the terms of a document: its words without stop words, stemmed, in order, then the further ones."""
        plain, further = self.both_terms(text)
        return plain + further

    def both_terms(self, text: str) -> tuple[list[str], list[str]]:
        """Return the terms of a document's words, and the further ones."""
        folded = fold(text)
        every = _words(folded)
        language, words = language_of(every), _without_stop_words(every)
        exact = [EXACT + word for word in exact_words(text)]
        if language is None and folded.isascii():
            return list(map(_stem, words)), exact
        forms = _forms(words, language, is_known=has_language(every, language))
        further = [other for each in forms for other in each[1:]]
        return [each[0] for each in forms], [*further, *pairs(folded), *exact]

    def query_terms(self, text: str) -> list[str]:
        """Return the terms of a question: as for a document, less what says nothing of what is asked."""
        return [term for forms in self.query_forms(text) for term in forms]

    def query_forms(self, text: str) -> list[tuple[str, ...]]:
        """Return the terms of each word of a question, any of which is that word; pairs of characters are words here.

        The exact form belongs to the first of its words that say something; where none does, it is a word. Left out are
        "kind of", "type of" and "sort of", and the function words of the question's language.
        """
        return [*_query_forms(text)]

    def query_weights(self, text: str) -> dict[str, float]:
        """Return the weight of each term of a question: 1 for each of its words, however often it says them.

        The terms of a word share its weight; its exact form has as much again, one with a sign twice as much, a bare
        number and a beginning a quarter.
        """
        weights: dict[str, float] = {}
        for forms in self.query_forms(text):
            plain = bare(forms)
            for place, form in enumerate(forms):
                weight = 1.0 if len(plain) == 1 else _OWN_STEM_WEIGHT if place else 1.0 - _OWN_STEM_WEIGHT
                if form.startswith(BEGINNING):
                    weight = _BEGINNING_WEIGHT
                elif form.startswith(EXACT):
                    weight = _exact_weight(form.removeprefix(EXACT))
                weights[form] = max(weights.get(form, 0.0), weight)
        return weights


def _exact_weight(form: str) -> float:
    if form.isdigit():
        return _NUMBER_WEIGHT
    # "TV", "8th" and "getUser" are seldom another word.
    return 1.0 if form.isalnum() and len(form) > 1 else _SIGN_WEIGHT


def bare(terms: Iterable[str]) -> frozenset[str]:
    """Return the terms without exact forms and beginnings: of two texts they say how many words both have."""
    return frozenset([term for term in terms if not term.startswith(_FURTHER)])


def _without_stop_words(words: list[str]) -> list[str]:
    return [word for word in words if word not in ENGLISH_STOP_WORDS]


def _words(folded: str) -> list[str]:
    return spaced(folded).split() if folded.isascii() else _WORD.findall(folded)


def spaced(folded: str) -> str:
    """Return folded text with spaces in place of all but ASCII letters and digits."""
    return folded.encode(errors="replace").translate(_ASCII_WORDS).decode()


def _stemmer() -> Callable[[str], str]:
    # The second argument turns the stemmer's own cache off: ours is bounded better, and one is enough.
    stemmer = Stemmer.Stemmer("english", 0)
    # One stemmer works in one buffer: two threads in it at once would mix their words.
    lock = threading.Lock()

    def stem(word: str) -> str:
        with lock:
            return str(stemmer.stemWord(word))

    return stem


_stem, _stems = lru_cache(maxsize=_STEM_CACHE_SIZE)(_stemmer()), Stems()


def _forms(words: list[str], language: str | None, *, is_known: bool) -> list[tuple[str, ...]]:
    stems = list(map(_stem, words))
    others = [_stems.of(word, language) for word in words] if language else list(map(without_accents, stems))
    further = [()] * len(words) if is_known else map(_begins, words)
    return [
        (stem, *begins) if other == stem else (stem, other, *begins)
        for stem, other, begins in zip(stems, others, further, strict=True)
    ]


@lru_cache(maxsize=_STEM_CACHE_SIZE)
def _begins(word: str) -> tuple[str, ...]:
    return tuple(BEGINNING + each for each in beginnings(without_accents(word)))


# A search asks for those of its question five times.
@lru_cache(maxsize=QUESTIONS_KEPT)
def _query_forms(text: str) -> list[tuple[str, ...]]:
    folded = fold(text)
    words = _words(folded)
    first = next(iter(words), "")
    is_frame = [word in QUESTION_FRAMES and after == "of" for word, after in pairwise([*words, ""])]
    words = [word for word, is_idle in zip(words, is_frame, strict=True) if not is_idle]
    language = language_of(words)
    is_known = language is not None or has_language(words, None)
    if language is not None:
        words = [word for word in words if not is_function_word(word, language)] or words
    words = _without_stop_words(words)
    exact, asked = defaultdict[str | None, list[str]](list), frozenset(words)
    for each in exact_words(text):
        if len(each) == 1 and fold(each) == first and language and is_function_word(first, language):
            continue  # "O que", as "A" and "I" in English: a capital letter that begins the question
        exact[next(filter(asked.__contains__, _words(fold(each))), None)].append(EXACT + each)
    forms = _forms(words, language, is_known=is_known)
    forms = [(*each, *exact[word]) for word, each in zip(words, forms, strict=True)]
    forms += [(each,) for each in exact[None]]
    return telling([*forms, *((pair,) for pair in pairs(folded))], folded)


#: Added to a word's texts: without it a word of none would be infinitely rare.
_SMOOTHING = 0.5


class Vocabulary:
    """Document frequencies: in how many of the texts each term stands."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self._tokenizer = Tokenizer()
        self._texts = 0
        self._texts_with = Counter[str]()
        self.add(texts)

    def add(self, texts: Sequence[str]) -> None:
        """Count further texts."""
        self._texts += len(texts)
        self._texts_with.update(term for terms in self.terms_of(texts) for term in terms)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was counted: every term is equally rare."""
        return self._texts == 0

    def terms_of(self, texts: Iterable[str]) -> list[frozenset[str]]:
        """Return the terms of each text, as they are counted: each word once, without further forms of it."""
        return [bare(self._tokenizer.terms(text)) for text in texts]

    def rarity(self, term: str) -> float:
        """Return the inverse document frequency (idf) of a term, above 0."""
        return math.log((self._texts + 1.0) / (min(self._texts_with[term], self._texts) + _SMOOTHING))


#: Highest index; Qdrant stores sparse indices as unsigned 32-bit numbers.
MAX_INDEX = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector:
    """A sparse vector in Qdrant's form; an empty one is false and matches nothing.

    Raises MemoryInputError when indices and values differ in number, when the indices are not strictly ascending
    within 0 and 2**32 - 1, or when a value is not a positive finite number.
    """

    #: Strictly ascending, 0 to 2**32 - 1.
    indices: tuple[int, ...] = ()
    #: One weight for each index, above 0.
    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what Qdrant would reject, or worse, would accept and rank wrongly."""
        if len(self.indices) != len(self.values):
            raise MemoryInputError("values", f"{len(self.values)} values stand beside {len(self.indices)} indices")
        if self.indices and not (self.indices[0] >= 0 and self.indices[-1] <= MAX_INDEX):
            raise MemoryInputError("indices", f"must lie between 0 and {MAX_INDEX}")
        if list(self.indices) != sorted(set(self.indices)):
            raise MemoryInputError("indices", "must be strictly ascending")
        if self.values and not (all(map(math.isfinite, self.values)) and min(self.values) > 0.0):
            raise MemoryInputError("values", "must be positive finite numbers")

    def __len__(self) -> int:
        """Return the number of terms."""
        return len(self.indices)


def relevance_of(score: float) -> float:
    """Map a raw BM25 score, 0 or higher, to score / (1 + score): the order stays, where a clamp levels strong hits.

    Raises MemoryInputError for a negative score or one that is no number.
    """
    if not score >= 0.0:
        raise MemoryInputError("score", f"must be 0 or higher, not {score}")
    # The same fraction as score / (1 + score), in the form that stays 1.0 and not NaN when the score is infinite.
    return 1.0 - 1.0 / (1.0 + score) if score > 1.0 else score / (1.0 + score)


def score_of(relevance: float) -> float:
    """Map a relevance, 0 up to but not including 1, back to the raw score: a minimum relevance as a score threshold.

    Raises MemoryInputError outside that range: no finite score has relevance 1.
    """
    if not 0.0 <= relevance < 1.0:
        raise MemoryInputError("relevance", f"must be 0 or higher and below 1, not {relevance}")
    return relevance / (1.0 - relevance)


#: Saturation: 0 counts presence only, higher lets repetition count longer. On dialogue turns and on extracted facts
#: 0.3 to 0.9 measured alike (NDCG@10 within 0.003) as long as the length correction stays mild.
K1 = 0.5

#: Share of the length correction, 0 (none) to 1 (full). Among texts of one length it changes nothing; it keeps a long
#: summary from winning by its length alone.
_B = 0.4

#: Terms in a document that is not corrected for its length: between a fact (10 to 20) and a summary (100 and more).
#: With 16 the correction among short texts costs 0.007 NDCG@10 on dialogue turns.
_AVERAGE_TERMS = 64.0

#: Hashes kept, in terms; about 4 MB when full.
_HASH_CACHE_SIZE = 32_768

#: Labels whose terms are kept: memories of one day have few.
_LABEL_CACHE_SIZE = 2_048


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

    Documents of one collection must agree on the weighting.
    """

    def __init__(self, *, weighting: TermWeighting = TermWeighting.SATURATED) -> None:
        self.weighting = weighting
        self._tokenizer = Tokenizer()
        self._index_of = lru_cache(maxsize=_HASH_CACHE_SIZE)(_murmur3)
        self._label_terms = lru_cache(maxsize=_LABEL_CACHE_SIZE)(lambda label: tuple(self._tokenizer.terms(label)))

    def encode_documents(self, texts: Sequence[str], labels: Sequence[str] = ()) -> list[SparseVector]:
        """Return one vector for each text, in order; empty where neither a text nor its label has terms."""
        return [self.encode_document(text, label) for text, label in zip_longest(texts, labels, fillvalue="")]

    def encode_document(self, text: str, label: str = "") -> SparseVector:
        """Return the vector of one text: the weights of its terms, and of those that only its label has.

        A label is what is known beside the text: it is found by, and does not count to the text's length.
        """
        plain, further = self._tokenizer.both_terms(text)
        if label:
            said = {*plain, *further}
            further += [term for term in self._label_terms(label) if term not in said]
        counts = sorted(Counter(map(self._index_of, plain + further)).items())
        indices = tuple([index for index, _ in counts])
        if self.weighting is TermWeighting.FREQUENCY:
            return SparseVector(indices=indices, values=tuple([float(count) for _, count in counts]))
        halfway = K1 * (1.0 - _B + _B * len(plain) / _AVERAGE_TERMS)
        gain = K1 + 1.0
        return SparseVector(indices=indices, values=tuple([count * gain / (count + halfway) for _, count in counts]))

    def index_of(self, term: str) -> int:
        """Return the index that a term, as the tokenizer gives it, has in the vectors."""
        return self._index_of(term)

    def encode_query(self, text: str) -> SparseVector:
        """Return the vector of a question, of its terms' weights (``Tokenizer.query_weights``)."""
        weights: dict[int, float] = {}
        for term, weight in self._tokenizer.query_weights(text).items():
            index = self._index_of(term)
            weights[index] = max(weights.get(index, 0.0), weight)
        indices = tuple(sorted(weights))
        return SparseVector(indices=indices, values=tuple(map(weights.__getitem__, indices)))

    def encode_words(self, words: Iterable[str]) -> SparseVector:
        """Return the vector of a question for what has any of these words, folded; all weigh the same."""
        indices = tuple(sorted({*map(_murmur3, self._tokenizer.stems(words))}))
        return SparseVector(indices=indices, values=(1.0,) * len(indices))

    def words_of(self, text: str) -> tuple[int, ...]:
        """Return the indices of a question's words in order, each once: without exact forms and beginnings."""
        return tuple(sorted(set(map(self._index_of, bare(self._tokenizer.query_terms(text))))))


def _murmur3(term: str) -> int:
    return mmh3.hash(term, 0, signed=False)
