"""How much each token counts when the vectors of a text's tokens are added up."""

import re
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from memcore.embedding.stop_words import ENGLISH_STOP_WORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def weigh(table: "NDArray[np.float32]", tokens: Sequence[str], pooling: Pooling) -> None:
    """Multiply each row by its token's weight, in place, so that weighting costs a text nothing and memory nothing."""
    if pooling is Pooling.MEAN:
        return
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
