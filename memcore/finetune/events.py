"""The names under which fine-tuning logs; ids and counts stand beside them in ``extra``, no text ever does."""

from enum import StrEnum


class FineTuneEvent(StrEnum):
    """A log event of a fine-tune run."""

    STAGE_ENTERED = "memory.fine_tune.stage_entered"
    COMPLETED = "memory.fine_tune.completed"
    FAILED = "memory.fine_tune.failed"
    CANCELLED = "memory.fine_tune.cancelled"
    #: Texts are longer than the model reads; they were cut.
    TRUNCATION_LIKELY = "memory.fine_tune.encode_truncation_likely"
    #: A question was written by rule, since the model was silent.
    QUERY_LLM_FALLBACK = "memory.fine_tune.query_llm_fallback"
    CHECKPOINT_SAVED = "memory.fine_tune.checkpoint_saved"
    #: It did not beat what is in use.
    CHECKPOINT_REJECTED = "memory.fine_tune.checkpoint_rejected"
    EVAL_COMPLETED = "memory.fine_tune.eval_completed"
    #: The health endpoint's port is taken; the stage goes on without it.
    HEALTH_BIND_FAILED = "fine_tune.health_server.bind_failed"
    #: A line looked like a marker and was none.
    MARKER_DISCARDED = "fine_tune.container.marker_discarded"
    #: A container has ended and could not be removed; the next attempt at its stage tries again.
    CONTAINER_LEFT = "fine_tune.container.left"
    #: The Docker engine did not answer; it is asked again.
    ENGINE_RETRIED = "fine_tune.docker.connect_retried"
