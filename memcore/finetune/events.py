"""The names under which fine-tuning logs; ids and counts stand beside them in ``extra``, no text ever does."""

from enum import StrEnum


class CheckpointEvent(StrEnum):
    """A log event of what a person does with a checkpoint; the id, and an error's name, stand beside."""

    #: A collection is being filled with it; ``memory.reindex.switched`` tells when it serves.
    DEPLOY_BEGUN = "memory.checkpoint.deploy_begun"
    DEPLOY_FAILED = "memory.checkpoint.deploy_failed"
    #: What served before is brought up to date, to serve again.
    ROLLBACK_BEGUN = "memory.checkpoint.rollback_begun"
    ROLLBACK_FAILED = "memory.checkpoint.rollback_failed"
    DELETED = "memory.checkpoint.deleted"
    #: Nothing was deleted.
    DELETE_FAILED = "memory.checkpoint.delete_failed"
    #: Its row is gone, and some of its files are not; the next run removes them.
    FILES_LEFT = "memory.checkpoint.files_left"


class FineTuneEvent(StrEnum):
    """A log event of a fine-tune run."""

    STAGE_ENTERED = "memory.fine_tune.stage_entered"
    COMPLETED = "memory.fine_tune.completed"
    FAILED = "memory.fine_tune.failed"
    CANCELLED = "memory.fine_tune.cancelled"
    #: The broker took no message for a row; the sweep rings for it.
    BELL_UNHEARD = "memory.service.bell_unheard"
    #: Texts are longer than the model reads; they were cut.
    TRUNCATION_LIKELY = "memory.fine_tune.encode_truncation_likely"
    #: A model was asked for questions; how many passages it was to be asked about, and what became of them.
    QUERIES_WRITTEN = "memory.fine_tune.queries_written"
    #: Questions were written by rule, since the model was silent.
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
