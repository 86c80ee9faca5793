"""Selection of a server's model when the policy names none (SPEC E1, decision 15), and the embedder's choice.

The order is that of LMEB, a benchmark of memory retrieval: how a model does on web search (MTEB) says nothing about it,
the two correlate at -0.1. Figures are its overall NDCG@10.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Self

from pydantic import Field, SecretStr

from memcore.embedding.protocol import PromptPrefixes
from memcore.models.base import Frozen, NotBlankStr, is_unsaid

#: Providers of servers, and the base address that each has out of the box; None where there is no usual one.
SERVERS: dict[str, str | None] = {
    "openai-compatible": None,
    "openai": "https://api.openai.com/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "lm-studio": "http://127.0.0.1:1234/v1",
    "vllm": "http://127.0.0.1:8000/v1",
}

#: Providers whose servers run on the operator's own machines; all others have GPUs of any size.
LOCAL_PROVIDERS = frozenset({"ollama", "lm-studio", "vllm"})


class Tier(StrEnum):
    """What a model needs to run on."""

    #: A data centre's GPU: models of 7 billion parameters and more.
    GPU_FULL = "gpu_full"
    #: A GPU with 8 to 24 GB.
    GPU_CONSUMER = "gpu_consumer"
    #: No GPU.
    CPU = "cpu"


#: The models by their published names, without the owner, and what each needs. Best first.
RANKING = {
    "bge-multilingual-gemma2": Tier.GPU_FULL,  # 61.41
    "NV-Embed-v2": Tier.GPU_FULL,  # 60.25
    "Qwen3-Embedding-4B": Tier.GPU_CONSUMER,  # 58.00
    "e5-mistral-7b-instruct": Tier.GPU_FULL,  # 57.08
    "EmbeddingGemma-300M": Tier.CPU,  # 56.03
    "multilingual-e5-large-instruct": Tier.CPU,  # 55.33
}


def tier_of(provider: str, *, has_gpu: bool | None) -> Tier:
    """Return the tier of a provider: a local one without a GPU is `cpu`, with one or unsaid (None) `gpu_consumer`."""
    if provider not in LOCAL_PROVIDERS:
        return Tier.GPU_FULL
    return Tier.CPU if has_gpu is False else Tier.GPU_CONSUMER


def best_offered(tier: Tier, offered: Iterable[str]) -> str | None:
    """Return the best model of the tier that is offered, else the best of any tier, else None.

    A server's name for a model matches without its owner, its tag (``:latest``), its size (``-300m``), and whatever the
    case.
    """
    known = {_bare(name): name for name in reversed(list(offered))}
    for model in sorted(RANKING, key=lambda model: RANKING[model] is not tier):
        family = next((known[name] for name in known if _family(name) == _family(_bare(model))), None)
        if found := known.get(_bare(model)) or family:
            return found
    return None


def _bare(name: str) -> str:
    return name.rpartition("/")[2].partition(":")[0].lower()


def _family(bare: str) -> str:
    # The size is the last part that is a number of millions or billions: "qwen3-embedding-4b" matches "...-8b".
    return "-".join(part for part in bare.split("-") if not (part[:-1].replace(".", "").isdigit() and part[-1] in "mb"))


#: The embedder of the embedded stack unless one is named (SPEC decision 15).
DEFAULT_EMBEDDER = "static"


class EmbedderChoice(Frozen):
    """The configured embedder; its repr shows no key.

    Attributes:
        model: a folder for onnx, and for static that of a trained table; a name or folder for sentence-transformers; a
            server's name for its model.
        dims: the length that is expected; None takes what the model has.
        prompt_prefixes: None takes those of the model's own files, where it has some.
        url: the server's base address; None is the provider's usual one.
        has_gpu: whether the operator says that the server has a GPU.
    """

    provider: NotBlankStr = DEFAULT_EMBEDDER
    model: NotBlankStr | None = None
    dims: int | None = None
    # A row of an earlier release says that there are none: its embedder stays what it was.
    prompt_prefixes: PromptPrefixes | None = Field(default=None, exclude_if=is_unsaid)
    url: NotBlankStr | None = None
    api_key: SecretStr | None = None
    has_gpu: bool | None = None

    @property
    def without_server(self) -> Self:
        """The same without what belongs to a server's place and key, fit to be written down."""
        return self.model_copy(update={"url": None, "api_key": None, "has_gpu": None})
