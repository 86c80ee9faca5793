"""The default embedder: a table of token vectors, added up. No model runs, so a text costs microseconds."""

import math
import re
import sys
import sysconfig
import unicodedata
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load
from tokenizers import Tokenizer

from memcore.embedding.bm25 import fold, require_texts, whole
from memcore.embedding.languages import ENGLISH_STOP_WORDS
from memcore.embedding.protocol import EmbedderKind
from memcore.errors import MemoryConfigError

#: Words remembered; about 8 MB when full, and then they are forgotten together. A language's daily words fit twice.
_KEPT_WORDS = 32_768

#: Longest word remembered, in characters: longer ones are addresses and hashes, which rarely come again.
_LONGEST_WORD = 40


class WordTokens:
    """Read texts with a SentencePiece tokenizer, word by word: the tokens of the whole text at a third of the CPU.

    It holds because no token of the vocabulary reaches from one word into the next, which the tests check; a text in
    which single spaces are not all that parts its words is read whole. Safe in several threads at once. The tokenizer
    neither pads nor truncates.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[str, tuple[int, ...]] = {}

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text."""
        cut = [[text] if _is_whole(text) else text.split(" ") for text in texts]
        # One dict for the whole call: another thread may put a new one in its place meanwhile.
        known = self._known
        read = self._read(set(chain.from_iterable(cut)).difference(known))
        found = [
            list(chain.from_iterable([known[word] if word in known else read[word] for word in words])) for words in cut
        ]
        self._keep(read)
        return found

    def _read(self, words: AbstractSet[str]) -> dict[str, tuple[int, ...]]:
        if not words:
            return {}
        encodings = self._tokenizer.encode_batch_fast(list(words), add_special_tokens=False)
        return {word: tuple(encoding.ids) for word, encoding in zip(words, encodings, strict=True)}

    def _keep(self, read: dict[str, tuple[int, ...]]) -> None:
        short = {word: ids for word, ids in read.items() if len(word) <= _LONGEST_WORD}
        if len(self._known) + len(short) <= _KEPT_WORDS:
            self._known.update(short)
        else:
            self._known = short if len(short) <= _KEPT_WORDS else {}


def _is_whole(text: str) -> bool:
    # A special token may begin, the tokenizer's own sign for a space may stand there, or other than single spaces.
    return "<" in text or "▁" in text or "  " in text or text.startswith(" ") or text.endswith(" ") or not text


#: Weight of a token of punctuation, white space or ASCII signs. Not 0: a text of nothing else would have no vector.
_PUNCTUATION_WEIGHT = 0.1

#: Weight of a stop word. The table already gives stop words short vectors; 0.6 to 0.8 on top measured best, 0.3 hurt.
_STOP_WORD_WEIGHT = 0.6

#: A token's vector is divided by its length to this power. Contrastive training gives rare tokens long vectors, and one
#: name then drowns a sentence. 0.5 to 1.0 measured alike, 0 worse by 0.003 NDCG@10 fused with BM25.
_TEMPERING = 0.75

#: A token for a single byte, which spells what the table has no token for.
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")

#: Bytes below this are ASCII characters; from here on they are pieces of letters and emoji.
_FIRST_NON_ASCII_BYTE = 0x80

#: Unicode categories that say nothing about a topic: punctuation, separators, controls, and signs other than pictures.
_SILENT_CATEGORIES = frozenset(
    {"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Zs", "Zl", "Zp", "Cc", "Cf", "Sm", "Sc", "Sk"}
)

#: The mark of a word's start in SentencePiece vocabularies.
_WORD_START = "▁"


class Pooling(StrEnum):
    """Which weights the tokens of a text get; the sum is brought to unit length either way."""

    #: All the same, and the text as it was written: wordllama's own way.
    MEAN = "mean"
    #: Texts folded (NFKC, case), long vectors damped, stop words and punctuation turned down. Collections record this
    #: word: whoever changes a weight or a stop word above must change the word too, or old and new vectors mix unseen.
    TEMPERED = "tempered"


def temper(table: NDArray[np.float32], tokens: Sequence[str]) -> None:
    """Multiply each row by its token's weight, in place, so that weighting costs a text nothing and memory nothing."""
    lengths = np.sqrt(np.einsum("ij,ij->i", table, table))
    weights = np.fromiter(map(_weight_of, tokens), dtype=np.float32, count=len(tokens))
    # A row of zeros stays one: its length is replaced by 1 before the power would divide by it.
    weights *= np.where(lengths > 0.0, lengths, np.float32(1.0)) ** np.float32(-_TEMPERING)
    table *= weights[:, np.newaxis]


def _weight_of(token: str) -> float:
    if (byte := _BYTE.fullmatch(token)) is not None:
        # Letters and digits have tokens of their own, so an ASCII byte is a line feed or another control character.
        return 1.0 if int(byte[1], 16) >= _FIRST_NON_ASCII_BYTE else _PUNCTUATION_WEIGHT
    if token.startswith(_WORD_START) and token.removeprefix(_WORD_START) in ENGLISH_STOP_WORDS:
        return _STOP_WORD_WEIGHT
    is_silent = _SILENT_CATEGORIES.issuperset(map(unicodedata.category, token.replace(_WORD_START, "")))
    return _PUNCTUATION_WEIGHT if is_silent else 1.0


#: The table's file, and its name in there and in the wheel's: a row for each token, weighted already in a folder's.
TABLE_FILE = "table.safetensors"
TENSOR = "embedding.weight"

#: The tokenizer's file.
TOKENIZER_FILE = "tokenizer.json"

#: A text whose tokens are those of its words, as WordTokens takes it.
_PROBE = "what did ada say about the pumps, and when did they fail?"


#: Where the wheel keeps the table, below its package folder: 32,000 tokens by 256 dimensions in float16.
_WEIGHTS = Path("weights", "l2_supercat_256.safetensors")

#: The wheel, as pip is asked for it.
WHEEL = "wordllama==0.4.0.post1"

#: The first Python for which there is no such wheel. Data files alone are read, so that one of another Python serves.
FIRST_WITHOUT = (3, 14)

#: Where the wheel keeps the tokenizer.
_TOKENIZER = Path("tokenizers", "l2_supercat_tokenizer_config.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticTable:
    """A weighted table of token vectors, shape (tokens, dims), with its tokenizer; the name changes with the vectors.

    It is float32, since adding up float16 rows takes four times the CPU and saves 16 MB. Texts are folded before they
    are read, unless it is the wheel's table as it comes.
    """

    table: NDArray[np.float32]
    tokenizer: Tokenizer
    name: str
    is_folding: bool = True

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a trained table, whose weights are in it; MemoryConfigError says what is wrong in the folder."""
        try:
            files = [(folder / name).read_bytes() for name in (TABLE_FILE, TOKENIZER_FILE)]
        except OSError:
            raise MemoryConfigError(
                f"memory.embedder.model: {folder} must hold {TABLE_FILE} and {TOKENIZER_FILE}"
            ) from None
        try:
            table, tokenizer = _parsed(*files)
        except (KeyError, ValueError, SafetensorError) as error:
            raise MemoryConfigError(f"memory.embedder.model: {folder} holds no table that can be read") from error
        _check(table, tokenizer, folder)
        mark = sha256(b"".join(sha256(content).digest() for content in files)).hexdigest()[:12]
        return cls(table=table, tokenizer=tokenizer, name=f"{folder.resolve().name}-{mark}")

    @classmethod
    def of_wheel(cls, pooling: Pooling = Pooling.TEMPERED) -> Self:
        """Read the table of the installed wheel, without importing it or opening a connection, and weigh it.

        wordllama's own loader looks beside the wrong folder, and then asks the network. MemoryConfigError when the
        wheel is missing or its files are not the expected ones.
        """
        spec = find_spec("wordllama")
        if spec is None or spec.origin is None:
            raise MemoryConfigError(
                f"embedder: 'static' reads files of the wheel wordllama: {installs(sys.version_info[:3])}"
            )
        folder = Path(spec.origin).parent
        try:
            table, tokenizer = _parsed((folder / _WEIGHTS).read_bytes(), (folder / _TOKENIZER).read_bytes())
        except (OSError, KeyError, ValueError, SafetensorError) as error:
            raise MemoryConfigError("embedder: the files in the wheel wordllama are not those expected") from error
        vocabulary = tokenizer.get_vocab()
        if len(vocabulary) != len(table):
            raise MemoryConfigError(f"embedder: wordllama has {len(table)} vectors for {len(vocabulary)} tokens")
        is_folding = pooling is Pooling.TEMPERED
        if is_folding:
            temper(table, sorted(vocabulary, key=vocabulary.__getitem__))
        return cls(
            table=table, tokenizer=tokenizer, name=f"wordllama-{table.shape[1]}-{pooling}", is_folding=is_folding
        )


@lru_cache(maxsize=1)
def wheel_table(pooling: Pooling) -> StaticTable:
    """Return the wheel's table as :meth:`StaticTable.of_wheel` reads it, the same one again for the same pooling.

    With its tokenizer it takes 54 MB, which all embedders of a process share, and all forks of one that has read it.
    """
    read = StaticTable.of_wheel(pooling)
    read.table.flags.writeable = False
    return read


def _parsed(table: bytes, tokenizer: bytes) -> tuple[NDArray[np.float32], Tokenizer]:
    parsed = Tokenizer.from_buffer(tokenizer)
    parsed.no_padding()
    parsed.no_truncation()
    return load(table)[TENSOR].astype(np.float32, copy=False), parsed


def _check(table: NDArray[np.float32], tokenizer: Tokenizer, folder: Path) -> None:
    if table.ndim != 2 or len(table) < tokenizer.get_vocab_size():  # noqa: PLR2004  # tokens and dimensions
        raise MemoryConfigError(
            f"memory.embedder.model: {folder} has {len(table)} vectors for {tokenizer.get_vocab_size()} tokens"
        )
    whole = tokenizer.encode(_PROBE, add_special_tokens=False).ids
    if WordTokens(tokenizer).ids([_PROBE]) != [whole]:
        raise MemoryConfigError(
            f"memory.embedder.model: {folder} has tokens that reach from one word into the next, "
            "and only tables of words and their parts are understood"
        )


def installs(version: tuple[int, ...]) -> str:
    """Return the command that installs the wheel for a Python of this version."""
    if version < FIRST_WITHOUT:
        return "pip install 'memtend[engine]'"
    last = f"{FIRST_WITHOUT[0]}.{FIRST_WITHOUT[1] - 1}"
    folder = sysconfig.get_path("purelib")
    return f"pip install --no-deps --only-binary=:all: --python-version {last} --target {folder} {WHEEL}"


#: Texts handed to the tokenizer at once; enough to keep its threads busy, few enough that their tokens stay small.
_BATCH_TEXTS = 256

#: Tokens whose vectors are gathered at once, 8 MB; a text is rarely longer, and a book must not take gigabytes.
_BATCH_TOKENS = 8_192


class StaticEmbedder:
    """Embed texts with a table; wordllama's has 256 dimensions, and takes 16 MB of disk and 33 MB of memory.

    The same text gets the same vector to the last bit, alone or in a batch: each text is added up by itself. A text
    without a token (the empty one) gets the zero vector.
    """

    kind = EmbedderKind.STATIC

    def __init__(self, model: StaticTable) -> None:
        self.name, self.dims = model.name, int(model.table.shape[1])
        self._table = model.table
        self._tokens = WordTokens(model.tokenizer)
        self._is_folding = model.is_folding

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        require_texts(texts)
        vectors = np.zeros((len(texts), self.dims), dtype=np.float32)
        for start in range(0, len(texts), _BATCH_TEXTS):
            prepared = [self._prepared(text) for text in texts[start : start + _BATCH_TEXTS]]
            for row, ids in enumerate(self._tokens.ids(prepared), start):
                self._pool(ids, vectors[row])
        return vectors

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        vector = np.zeros(self.dims, dtype=np.float32)
        self._pool(self._tokens.ids([self._prepared(text)])[0], vector)
        return vector

    def _prepared(self, text: str) -> str:
        kept = whole(text)
        return fold(kept) if self._is_folding else kept

    def _pool(self, ids: list[int], vector: NDArray[np.float32]) -> None:
        for start in range(0, len(ids), _BATCH_TOKENS):
            vector += np.add.reduce(self._table.take(ids[start : start + _BATCH_TOKENS], axis=0), axis=0)
        if length := math.sqrt(vector.dot(vector)):
            vector /= length
