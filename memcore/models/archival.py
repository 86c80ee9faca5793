"""Archived memories, and the result of a consolidation.

Names, fields and invariants are those of the reference (memory-api-reference, Consolidation models). Only what is
stored is serialised; counts that follow from it are properties, so that a dumped value can be read again.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from memcore.models.base import Frozen, NotBlankStr
from memcore.models.memory import BoundedTime, MemoryCategory, MemoryMetadata, NotBlankText


class ArchivalMode(StrEnum):
    """How a memory was preserved: rewritten by a model, or by its verbatim facts and anchors."""

    ABSTRACTIVE = "abstractive"
    EXTRACTIVE = "extractive"


class ArchivalModeAssignment(Frozen):
    """Which mode a removed memory was given."""

    original_id: NotBlankStr
    mode: ArchivalMode


class ArchivalIndexEntry(Frozen):
    """Where a removed memory lies in the archive: by this it is restored without a search."""

    original_id: NotBlankStr
    archival_id: NotBlankStr
    mode: ArchivalMode


class ArchivalEntry(Frozen):
    """A memory as the archive keeps it: its text exactly as it was, and the mode of the summary that replaced it."""

    original_id: NotBlankStr
    agent_id: NotBlankStr
    content: NotBlankText
    category: MemoryCategory
    metadata: MemoryMetadata = MemoryMetadata()
    created_at: BoundedTime
    archived_at: BoundedTime
    archival_mode: ArchivalMode

    @model_validator(mode="after")
    def _ordered_times(self) -> Self:
        if self.archived_at < self.created_at:
            raise ValueError("archived_at: lies before created_at")
        return self


class ConsolidationResult(Frozen):
    """What one consolidation removed, wrote and archived; each id stands in a field once.

    The summaries are in the order in which they were written. Only strategies that look at density assign modes.
    """

    removed_ids: tuple[NotBlankStr, ...] = ()
    summary_ids: tuple[NotBlankStr, ...] = ()
    archived_count: int = Field(default=0, ge=0)
    mode_assignments: tuple[ArchivalModeAssignment, ...] = ()
    archival_index: tuple[ArchivalIndexEntry, ...] = ()

    @property
    def consolidated_count(self) -> int:
        """Return how many memories were removed."""
        return len(self.removed_ids)

    @property
    def summary_id(self) -> str | None:
        """Return the last summary's id; None when none was written."""
        return self.summary_ids[-1] if self.summary_ids else None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        removed = set(self.removed_ids)
        _each_once("removed_ids", self.removed_ids)
        _each_once("summary_ids", self.summary_ids)
        for field, ids in (
            ("mode_assignments", [assignment.original_id for assignment in self.mode_assignments]),
            ("archival_index", [entry.original_id for entry in self.archival_index]),
        ):
            _each_once(field, ids)
            if not removed.issuperset(ids):
                raise ValueError(f"{field}: names a memory that was not removed")
        if self.archived_count > len(removed):
            raise ValueError(f"archived_count: is {self.archived_count}, but only {len(removed)} were removed")
        if len(self.archival_index) > self.archived_count:
            raise ValueError(
                f"archival_index: has {len(self.archival_index)} entries, but only {self.archived_count} were archived"
            )
        return self


def _each_once(field: str, ids: Collection[str]) -> None:
    if len(set(ids)) < len(ids):
        raise ValueError(f"{field}: names a memory twice")
