"""Which embedder is used, when the choice is not left to the stack."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from memcore.config.added import Added
from memcore.config.finetune import EmbeddingFineTuneConfig
from memcore.frozen import Frozen, NotBlankStr

#: Longest prefix in characters; instructions are a sentence or two.
MAX_PREFIX_CHARS = 1_000

_INSTRUCTED = "some models were trained with an instruction before each text"


class EmbedderOverrideConfig(Frozen):
    """Name the embedder; a key that is left out is chosen for you.

    ``provider: static`` alone names the embedder that needs no model server and no torch.

    Attributes:
        provider: ``static``, ``static-mean``, ``minilm``, ``onnx``, ``sentence-transformers``, ``openai-compatible``,
            ``openai``, ``ollama``, ``lm-studio`` or ``vllm``.
        model: a model of that provider; for ``onnx`` and ``static`` the folder of its files. Needs dims.
        dims: the length of the model's vectors; needs model.
        query_prefix: the text that the model wants before a question, such as ``"query: "``; white space is kept.
        document_prefix: the text that the model wants before a memory, such as ``"passage: "``; white space is kept. A
            change needs ``memtend reindex``.
        fine_tune: the checkpoint that replaces model.
    """

    provider: NotBlankStr | None = None
    model: NotBlankStr | None = None
    dims: int | None = Field(default=None, ge=1)
    query_prefix: Annotated[str | None, Added(_INSTRUCTED)] = Field(default=None, max_length=MAX_PREFIX_CHARS)
    document_prefix: Annotated[str | None, Added(_INSTRUCTED)] = Field(default=None, max_length=MAX_PREFIX_CHARS)
    fine_tune: Annotated[EmbeddingFineTuneConfig, Added("the reference has this model, but no key for it")] = (
        EmbeddingFineTuneConfig()
    )

    @property
    def asked_model(self) -> str | None:
        """The model to load or to ask for: the checkpoint where one is enabled."""
        return self.fine_tune.checkpoint_path if self.fine_tune.enabled else self.model

    @property
    def asked_dims(self) -> int | None:
        """Its length; None takes what it has."""
        return None if self.fine_tune.enabled else self.dims

    @model_validator(mode="after")
    def _model_with_dims(self) -> Self:
        if self.model is not None and self.dims is None:
            raise ValueError("dims must be set when model is set")
        if self.dims is not None and self.model is None:
            raise ValueError("model must be set when dims is set")
        return self
