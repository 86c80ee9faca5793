"""What an agent went through, in two tiers: the whole trace for audits, and the lesson that agents are shown.

Names, fields and validators are those of the reference (memory-api-reference, Consolidation models); the idea is that
of GEMS, whose section 4.3 finds compressed experiences of more use in a prompt than raw traces.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from memcore.models.base import Frozen, NotBlankStr, is_unsaid
from memcore.models.memory import COMPRESSED_TAG, DETAILED_TAG, BoundedTime, MemoryMetadata, NotBlankText
from memcore.models.origin import OWN, Origin


class Reported(Frozen):
    """What jobs that report a finished task share.

    Attributes:
        origin: by which channel it came, as its door stamped it; None for an agent's in this installation.
        version: 6 with an origin, which older workers requeue; 1 without.
    """

    origin: Origin | None = Field(default=None, exclude_if=is_unsaid)
    version: Literal[1, 6] = Field(default_factory=lambda fields: 1 if fields.get("origin") is None else 6)


class DetailedExperience(Frozen):
    """Tier 1: a turn or task as it happened. Fetch it by id; it is never put into a prompt.

    Attributes:
        prompt: what the agent was asked, exactly.
        output: what it answered, exactly.
        verification_feedback: what a check said of the answer, if there was one.
        reasoning_trace: the steps between, in order.
        metadata: its tags contain "detailed_experience".
        source_task_id: the task it belongs to, if any.
        origin: by which channel it came, as its door stamped it.
    """

    id: NotBlankStr
    agent_id: NotBlankStr
    prompt: NotBlankText
    output: NotBlankText
    verification_feedback: NotBlankText | None = None
    reasoning_trace: tuple[NotBlankText, ...] = ()
    metadata: MemoryMetadata = MemoryMetadata(tags=(DETAILED_TAG,))
    created_at: BoundedTime
    source_task_id: NotBlankStr | None = None
    origin: Origin = Field(default=OWN, exclude=True)

    @model_validator(mode="after")
    def _tagged(self) -> Self:
        _require_tag(self.metadata, DETAILED_TAG)
        return self


class CompressedExperience(Frozen):
    """Tier 2: what one or more detailed experiences taught; agents find these.

    Attributes:
        strategic_decisions: what worked and what did not; at least one.
        applicable_contexts: when and where that holds.
        source_artifact_ids: the detailed experiences behind it; at least one.
        compression_ratio: its length divided by that of its sources, above 0 up to 1; small is strong.
        compressor_version: which compressor wrote it.
        metadata: its tags contain "compressed_experience".
    """

    id: NotBlankStr
    agent_id: NotBlankStr
    strategic_decisions: tuple[NotBlankStr, ...] = Field(min_length=1)
    applicable_contexts: tuple[NotBlankStr, ...] = ()
    source_artifact_ids: tuple[NotBlankStr, ...] = Field(min_length=1)
    compression_ratio: float = Field(gt=0.0, le=1.0)
    compressor_version: NotBlankStr
    metadata: MemoryMetadata = MemoryMetadata(tags=(COMPRESSED_TAG,))
    created_at: BoundedTime

    @model_validator(mode="after")
    def _tagged(self) -> Self:
        _require_tag(self.metadata, COMPRESSED_TAG)
        return self


def _require_tag(metadata: MemoryMetadata, tag: str) -> None:
    if tag not in metadata.tags:
        raise ValueError(f"metadata.tags: must contain {tag!r}")
