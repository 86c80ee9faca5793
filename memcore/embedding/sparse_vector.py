"""A sparse vector: which terms, and how much of each."""

import math
from dataclasses import dataclass

from memcore.errors import MemoryInputError

#: Highest index; Qdrant stores sparse indices as unsigned 32-bit numbers.
MAX_INDEX = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector:
    """Hold a sparse vector in Qdrant's form; an empty one is false and matches nothing.

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
