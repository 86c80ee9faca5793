"""The default embedder: a table of token vectors, added up. No model runs, so a text costs microseconds."""

import json
import math
import mmap
import re
import sys
import sysconfig
import unicodedata
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, load_file
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


#: Texts handed to the tokenizer at once; enough to keep its threads busy, few enough that their tokens stay small.
_BATCH_TEXTS = 256

#: Tokens whose vectors are gathered at once, 8 MB; a text is rarely longer, and a book must not take gigabytes.
_BATCH_TOKENS = 8_192

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


def tempered(table: NDArray[Any], tokens: Sequence[str]) -> NDArray[np.float32]:
    """Return the weight of each row of a table, by which its vector is multiplied."""
    lengths = np.empty(len(table), dtype=np.float32)
    for start in range(0, len(table), _BATCH_TOKENS):
        rows = table[start : start + _BATCH_TOKENS].astype(np.float32)
        lengths[start : start + _BATCH_TOKENS] = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    weights = np.fromiter(map(_weight_of, tokens), dtype=np.float32, count=len(tokens))
    # A row of zeros stays one: its length is replaced by 1 before the power would divide by it.
    weights *= np.where(lengths > 0.0, lengths, np.float32(1.0)) ** np.float32(-_TEMPERING)
    return weights


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
    """A table of token vectors, shape (tokens, dims), with its tokenizer; the name changes with the vectors.

    The wheel's float16 rows stay in its file, which all processes map; a trained table is in memory. Texts are folded
    before they are read, unless it is the wheel's table as it comes.

    Attributes:
        weights: what each row is multiplied by; None where that is done.
    """

    rows: NDArray[Any]
    weights: NDArray[np.float32] | None
    tokenizer: Tokenizer
    name: str
    is_folding: bool = True

    @property
    def table(self) -> NDArray[np.float32]:
        """All rows as float32, weighted."""
        rows = self.rows.astype(np.float32)
        return rows if self.weights is None else rows * self.weights[:, np.newaxis]

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
            table, tokenizer = load(files[0])[TENSOR].astype(np.float32, copy=False), _tokenizer(files[1])
        except (KeyError, ValueError, SafetensorError) as error:
            raise MemoryConfigError(f"memory.embedder.model: {folder} holds no table that can be read") from error
        _check(table, tokenizer, folder)
        mark = sha256(b"".join(sha256(content).digest() for content in files)).hexdigest()[:12]
        return cls(rows=table, weights=None, tokenizer=tokenizer, name=f"{folder.resolve().name}-{mark}")

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
            rows, tokenizer = _mapped(folder / _WEIGHTS), _tokenizer((folder / _TOKENIZER).read_bytes())
        except (OSError, KeyError, ValueError, SafetensorError) as error:
            raise MemoryConfigError("embedder: the files in the wheel wordllama are not those expected") from error
        vocabulary = tokenizer.get_vocab()
        if len(vocabulary) != len(rows):
            raise MemoryConfigError(f"embedder: wordllama has {len(rows)} vectors for {len(vocabulary)} tokens")
        is_folding = pooling is Pooling.TEMPERED
        weights = np.ones(len(rows), dtype=np.float32)
        if is_folding:
            # Of a copy: what is read through the map stays in memory.
            weights = tempered(load_file(folder / _WEIGHTS)[TENSOR], sorted(vocabulary, key=vocabulary.__getitem__))
        name = f"wordllama-{rows.shape[1]}-{pooling}"
        return cls(rows=rows, weights=weights, tokenizer=tokenizer, name=name, is_folding=is_folding)


@lru_cache(maxsize=1)
def wheel_table(pooling: Pooling) -> StaticTable:
    """Return the wheel's table as :meth:`StaticTable.of_wheel` reads it, the same one again for the same pooling.

    Its tokenizer takes 16 MB, which all embedders of a process share, and all forks of one that has read it.
    """
    return StaticTable.of_wheel(pooling)


@lru_cache(maxsize=1)
def common_words() -> frozenset[str]:
    """Return the words in small letters for which the wheel's table has a token; none without the wheel.

    They are the commonest of many languages: a name stands there in its capital letter alone.
    """
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        return frozenset()
    try:
        known = json.loads((Path(spec.origin).parent / _TOKENIZER).read_bytes())["model"]["vocab"]
    except (OSError, KeyError, ValueError):
        return frozenset()
    words = (token.removeprefix(_WORD_START) for token in known if token.startswith(_WORD_START))
    return frozenset(word for word in words if word.isalpha() and word == word.lower())


def _mapped(file: Path) -> NDArray[np.float16]:
    """Map the wheel's rows; raises as a file does that is no such table."""
    with safe_open(file, framework="numpy") as checked:
        shape = checked.get_slice(TENSOR).get_shape()
    with file.open("rb") as opened:
        # Eight bytes of length, a header that says where each tensor lies behind it.
        length = int.from_bytes(opened.read(8), "little")
        found = json.loads(opened.read(length))[TENSOR]
    if found["dtype"] != "F16":
        raise ValueError(found["dtype"])
    offset = 8 + length + found["data_offsets"][0]
    return np.asarray(np.memmap(file, dtype="<f2", mode="r", offset=offset, shape=tuple(shape)))


def _tokenizer(content: bytes) -> Tokenizer:
    parsed = Tokenizer.from_buffer(content)
    parsed.no_padding()
    parsed.no_truncation()
    return parsed


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


class StaticEmbedder:
    """Embed texts with a table; wordllama's has 256 dimensions, and takes 16 MB of disk and at most 33 MB of memory.

    A row is weighted when a text first needs it, and kept: adding up float16 rows would take four times the CPU. The
    same text gets the same vector to the last bit, alone or in a batch: each text is added up by itself. A text
    without a token (the empty one) gets the zero vector.
    """

    kind = EmbedderKind.STATIC

    def __init__(self, model: StaticTable) -> None:
        self.name, self.dims = model.name, int(model.rows.shape[1])
        self._rows, self._weights = model.rows, model.weights
        self._table = model.rows if model.weights is None else _new_rows(model.rows.shape)
        self._has_row = np.full(len(model.rows), model.weights is None)
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
            vector += np.add.reduce(self._taken(np.array(ids[start : start + _BATCH_TOKENS])), axis=0)
        if length := math.sqrt(vector.dot(vector)):
            vector /= length

    def _taken(self, ids: NDArray[np.int_]) -> NDArray[np.float32]:
        """Return the rows of these tokens. Two threads may make the same row: it is the same to the last bit."""
        if self._weights is not None:
            has_row = self._has_row.take(ids)
            if not has_row.all():
                new = ids[~has_row]
                self._table[new] = self._rows[new] * self._weights[new, np.newaxis]
                # Only now: another thread takes what it finds marked.
                self._has_row[new] = True
        return self._table.take(ids, axis=0)


def _new_rows(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return room for a table that takes memory only where it is written, a page at a time.

    numpy asks the system for huge pages, so the first text would take all of it.
    """
    room = mmap.mmap(-1, math.prod(shape) * np.dtype(np.float32).itemsize, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a system that was built without them
            room.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(room, dtype=np.float32).reshape(shape)
