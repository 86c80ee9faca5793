"""A checkpoint as the ledger knows it: where it lies, what it was measured to be, and the gate's word on it."""

from enum import StrEnum
from typing import Any

from pydantic import Field

from memcore.clock import BoundedTime
from memcore.frozen import Frozen


class Verdict(StrEnum):
    """The word of the promotion gate."""

    #: It finds better than what it was trained from.
    PROMOTED = "promoted"
    #: It does not, and is kept for people to look at.
    REJECTED = "rejected"


class Checkpoint(Frozen):
    """A checkpoint's row.

    Attributes:
        checkpoint_id: deterministic (memcore.ids.checkpoint_id): a run has one.
        model_path: its folder.
        kind: ``transformer`` or ``static``.
        base_model: what it was trained from.
        dims: length of its vectors.
        sha256: over its files.
        size_bytes: of its files.
        doc_count: different passages that were trained on or measured by.
        report: what the evaluation found (memcore.finetune.evaluate) as JSON.
        verdict: the gate's word.
        reason: why, in one sentence.
    """

    checkpoint_id: str
    run_id: str
    model_path: str
    kind: str
    base_model: str
    dims: int = Field(ge=1)
    sha256: str
    size_bytes: int = Field(ge=0)
    doc_count: int = Field(ge=0)
    report: dict[str, Any]
    verdict: Verdict
    reason: str
    created_at: BoundedTime
