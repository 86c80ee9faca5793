"""A memory with everything a backend keeps of it, so that writing it back gives the same memory again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memcore.embedding.sparse_vector import SparseVector
from memcore.models import MemoryEntry

#: The key of a lesson's ``extra`` under which stands what was decided about it (memcore.procedural), and the field in
#: there that no lesson lacks; only workers write it.
LESSON_KEY, LESSON_FIELD = "procedure", "scope"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors:
    """What the memory was indexed as: a dense float32 vector and, where the backend has one, a sparse one.

    Attributes:
        space: what they mean (``BatchBackend.vector_space``); None when nobody said, as in records of older releases.
    """

    dense: NDArray[np.float32]
    sparse: SparseVector | None = None
    space: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Where a memory belongs and what it was made of.

    Attributes:
        session_id: the session it was stored in, if it was.
        project_id: the project it was stored in, if it was.
        task_id: the task it was stored in, if it was.
        summary_of: ids of the memories that this summary replaced.
        depth: 0 for what an agent stored, 1 for a summary of those, and so on.
    """

    session_id: str | None = None
    project_id: str | None = None
    task_id: str | None = None
    summary_of: tuple[str, ...] = ()
    depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """An entry, its lineage, its vectors, and whatever other keys stood in its payload.

    Attributes:
        vectors: None when they were not asked for, or for the backend to make.
        extra: payload keys that memtend does not know (stock mem0 may have written them); kept as they are.
    """

    entry: MemoryEntry
    lineage: Lineage = Lineage()
    vectors: Vectors | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def is_lesson(self) -> bool:
        """Whether it carries what was decided about a lesson; a text in a lesson's form alone does not make one."""
        decided = self.extra.get(LESSON_KEY)
        return isinstance(decided, Mapping) and decided.get(LESSON_FIELD) not in (None, [])


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a scan; ask again with ``cursor`` until it is None."""

    records: tuple[MemoryRecord, ...]
    cursor: str | None
