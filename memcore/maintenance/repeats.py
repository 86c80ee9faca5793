"""Memories that a newer one says nearly as well, found in one walk and in time that grows with their number alone.

MinHash with banding (Broder 1997; Leskovec et al., Mining of Massive Datasets, chapter 3): of each memory's words, and
of the pairs of neighbours among them, the least of 64 hashes are taken, eight and eight to a band. Two memories that
agree in a band are taken for repetitions: nearly all pairs that share nine in ten, one in thirty that shares half.
"""

from collections.abc import AsyncIterator, Iterable
from itertools import pairwise

import mmh3
import numpy as np
from numpy.typing import NDArray

from memcore.backends.record import MemoryRecord
from memcore.embedding.tokenizer import Tokenizer

#: Bands, and hashes in each.
_BANDS, _ROWS = 8, 8

#: Fewer terms than this say too little to be compared: "thanks, bye" is no repetition of "bye".
_LEAST_TERMS = 4


class Repeats:
    """Gather the memories of one agent, oldest first, and tell which a newer one repeats.

    It holds about 200 bytes a memory: its id and eight numbers.
    """

    def __init__(self) -> None:
        # Stems and stop words are English; other texts are compared word by word, which is what is wanted here.
        self._tokenizer = Tokenizer()
        dice = np.random.Generator(np.random.PCG64(20_260_301))
        # Multiplied modulo 2**64: an odd factor is a permutation, and its high bits, which decide the least, are mixed.
        self._factors = dice.integers(0, 1 << 63, size=(_BANDS * _ROWS, 1), dtype=np.uint64) * np.uint64(2) + np.uint64(
            1
        )
        self._ids: list[str] = []
        self._bands: list[NDArray[np.uint64]] = []

    def add(self, records: Iterable[MemoryRecord]) -> None:
        """Take these into account; they are newer than all before them."""
        for record in records:
            bands = self._of(record.entry.content)
            if bands is not None:
                self._ids.append(record.entry.id)
                self._bands.append(bands)

    def found(self) -> frozenset[str]:
        """Return the ids of those that a newer one repeats."""
        if not self._bands:
            return frozenset()
        repeated = np.zeros(len(self._ids), dtype=bool)
        for band in np.stack(self._bands, axis=1):
            order = np.argsort(band, kind="stable")
            again = band[order[:-1]] == band[order[1:]]
            # Of equals the order kept is that of the walk: all but the last have a newer one after them.
            repeated[order[:-1][again]] = True
        return frozenset(memory_id for memory_id, is_repeated in zip(self._ids, repeated, strict=True) if is_repeated)

    def _of(self, text: str) -> NDArray[np.uint64] | None:
        terms = self._tokenizer.terms(text)
        if len(set(terms)) < _LEAST_TERMS:
            return None
        shingles = {*terms, *(f"{first} {second}" for first, second in pairwise(terms))}
        hashes = np.array([mmh3.hash64(shingle, signed=False)[0] for shingle in sorted(shingles)], dtype=np.uint64)
        least = (hashes * self._factors).min(axis=1)
        return np.array(
            [mmh3.hash64(row.tobytes(), signed=False)[0] for row in least.reshape(_BANDS, _ROWS)], dtype=np.uint64
        )


async def find_repeats(found: AsyncIterator[tuple[MemoryRecord, ...]]) -> frozenset[str]:
    """Walk through an agent's memories, oldest first, and return the ids of those that a newer one repeats."""
    repeats = Repeats()
    async for page in found:
        repeats.add(page)
    return repeats.found()
