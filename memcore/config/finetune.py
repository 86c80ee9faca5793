"""Whether a fine-tuned embedder is in use, and where the stages of fine-tuning run."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from memcore.config.data_path import DataPath
from memcore.frozen import Frozen, NotBlankStr

#: Longest time of a stage, in seconds (11 hours): its job is given up after twelve.
LONGEST_STAGE_SECONDS = 39_600.0


class EmbeddingFineTuneConfig(Frozen):
    """Name the checkpoint that takes the place of the model.

    Attributes:
        enabled: whether it does; needs checkpoint_path and base_model.
        checkpoint_path: the model that the embedder loads or asks its provider for.
        base_model: what the checkpoint was trained from, for whoever reads the file.
        training_data_dir: the documents it was trained on, for whoever reads the file.
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
    """Say where the stages of a fine-tune run.

    Attributes:
        backend: on this machine, or each stage in a container.
        image: full image reference, taken verbatim; needed for docker.
        gpu_enabled: whether the container gets the GPU.
        memory_limit: of the container, as Docker writes it, such as ``8g`` or ``512m``.
        timeout_seconds: of each stage, above 0, at most 11 hours.
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
