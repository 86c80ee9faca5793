"""The names under which the learning of lessons logs; ids and counts stand beside them in ``extra``, no text does."""

from enum import StrEnum


class ProceduralEvent(StrEnum):
    """A log event of a lesson's way from an execution to a memory."""

    PROPOSED = "procedural_memory.proposal.complete"
    #: The model did not answer, or not in a form that can be read.
    SKIPPED = "procedural_memory.proposal.skipped"
    #: The model's server refuses, and will again.
    PROPOSER_FAILED = "procedural_memory.proposer.error"
    #: The answer tried to say what a model may not; those fields were dropped.
    FIELDS_REFUSED = "procedural_memory.proposal.fields_refused"
    LOW_CONFIDENCE = "procedural_memory.proposal.low_confidence"
    LOW_QUALITY = "procedural_capture.quality_below_threshold"
    STORED = "procedural_memory.entry.stored"
    STORE_FAILED = "procedural_memory.entry.store_failed"
    #: A run has removed the memory since the execution was told; it stays removed.
    BURIED = "procedural_memory.entry.buried"
    #: What became of a task's lesson is written down.
    DRAWN = "procedural_memory.lesson.drawn"
    #: The model is away: the lesson waits.
    PUT_OFF = "procedural_memory.lesson.put_off"
    #: An agent's lessons were passed on to its like.
    PROPAGATED = "procedural_propagation.complete"
    #: One agent could not be given them; the others were.
    TARGET_FAILED = "procedural_propagation.target_failed"
    SKILL_WRITTEN = "procedural_memory.skill_md.written"
    SKILL_FAILED = "procedural_memory.skill_md.failed"
