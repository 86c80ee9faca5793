"""Policy keys of fine-tuning: the checkpoint that replaces the model, and where stages run."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from memcore.models.base import DataPath, Frozen, NotBlankStr

#: Longest time of a stage, in seconds (11 hours): its job is given up after twelve.
LONGEST_STAGE_SECONDS = 39_600.0


class EmbeddingFineTuneConfig(Frozen):
    """Name a checkpoint that replaces the model.

    Attributes:
        enabled: whether the checkpoint replaces the model; needs checkpoint_path and base_model.
        checkpoint_path: the model that the embedder loads, or asks its provider for; its dims are measured. A change
            needs ``memtend reindex``.
        base_model: the model from which the checkpoint was trained; required when enabled is true, and used for nothing
            else.
        training_data_dir: no effect; the documents on which the checkpoint was trained.
    """

    enabled: bool = False
    checkpoint_path: DataPath | None = None
    base_model: DataPath | None = None
    training_data_dir: DataPath | None = None

    @model_validator(mode="after")
    def _complete_when_enabled(self) -> Self:
        if self.enabled and (self.checkpoint_path is None or self.base_model is None):
            raise ValueError("checkpoint_path and base_model must be set when enabled is true")
        return self


class FineTuneExecutionConfig(Frozen):
    """Choose where the stages of a fine-tune run.

    Attributes:
        backend: ``in-process`` runs each stage as a process on the worker's machine, ``docker`` in a container.
        image: the full reference of the image; required for ``docker``.
        gpu_enabled: whether the container gets the GPUs.
        memory_limit: the memory of the container, as Docker writes it: a whole number and ``b``, ``k``, ``m`` or ``g``.
        timeout_seconds: the time limit of each stage.
    """

    backend: Literal["in-process", "docker"] = "in-process"
    image: NotBlankStr | None = None
    gpu_enabled: bool = False
    memory_limit: Annotated[NotBlankStr, Field(pattern=r"^[1-9][0-9]*[bkmgBKMG]$")] = "8g"
    timeout_seconds: float = Field(default=7200.0, gt=0.0, le=LONGEST_STAGE_SECONDS)

    @model_validator(mode="after")
    def _image_for_docker(self) -> Self:
        if self.backend == "docker" and self.image is None:
            raise ValueError("image must be set when backend is docker")
        return self
