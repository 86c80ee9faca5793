"""Whether a fine-tuned embedder is in use, and where fine-tuning runs."""

from typing import Literal, Self

from pydantic import Field, model_validator

from memcore.config.data_path import DataPath
from memcore.frozen import Frozen, NotBlankStr


class EmbeddingFineTuneConfig(Frozen):
    """Name the checkpoint that replaces the base model.

    Attributes:
        enabled: whether it does; needs checkpoint_path and base_model.
        checkpoint_path: the model that the embedder loads or asks its provider for.
        base_model: what the checkpoint was trained from.
        training_data_dir: the documents it was trained on.
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
        memory_limit: of the container, as Docker writes it.
        timeout_seconds: of each stage, above 0.
    """

    backend: Literal["in-process", "docker"] = "in-process"
    image: NotBlankStr | None = None
    gpu_enabled: bool = False
    memory_limit: NotBlankStr = "8g"
    timeout_seconds: float = Field(default=7200.0, gt=0.0)

    @model_validator(mode="after")
    def _image_for_docker(self) -> Self:
        if self.backend == "docker" and self.image is None:
            raise ValueError("image must be set when backend is docker")
        return self
