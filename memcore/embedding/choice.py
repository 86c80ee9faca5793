"""What is configured about the embedder, put together from the policy and the settings."""

from typing import Self

from pydantic import SecretStr

from memcore.embedding.sides import Sides
from memcore.frozen import Frozen, NotBlankStr

#: The embedder of the embedded stack unless one is named (SPEC decision 15).
DEFAULT_EMBEDDER = "static"


class EmbedderChoice(Frozen):
    """Say which embedder is wanted; its repr shows no key.

    Attributes:
        provider: one of the factory's names.
        model: a folder for onnx, and for static that of a trained table; a name or folder for sentence-transformers; a
            server's name for its model.
        dims: the length that is expected; None takes what the model has.
        sides: the prefixes of questions and documents.
        url: the server's base address; None is the provider's usual one.
        api_key: its key.
        has_gpu: whether the operator says that the server has a GPU.
    """

    provider: NotBlankStr = DEFAULT_EMBEDDER
    model: NotBlankStr | None = None
    dims: int | None = None
    sides: Sides = Sides()
    url: NotBlankStr | None = None
    api_key: SecretStr | None = None
    has_gpu: bool | None = None

    @property
    def without_server(self) -> Self:
        """The same without what belongs to a server's place and key, fit to be written down."""
        return self.model_copy(update={"url": None, "api_key": None, "has_gpu": None})
