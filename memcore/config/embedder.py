"""Which embedder is used, when the choice is not left to the stack."""

from typing import Self

from pydantic import Field, model_validator

from memcore.frozen import Frozen, NotBlankStr


class EmbedderOverrideConfig(Frozen):
    """Name the embedder; every field left out is chosen for you.

    ``provider: static`` alone names the embedder that needs no model server and no torch.

    Attributes:
        provider: ``static``, ``onnx``, ``sentence-transformers``, or the name of a server's provider.
        model: a model of that provider; needs dims.
        dims: length of the model's vectors; needs model.
    """

    provider: NotBlankStr | None = None
    model: NotBlankStr | None = None
    dims: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _model_with_dims(self) -> Self:
        if self.model is not None and self.dims is None:
            raise ValueError("dims must be set when model is set")
        if self.dims is not None and self.model is None:
            raise ValueError("model must be set when dims is set")
        return self
