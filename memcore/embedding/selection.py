"""Selection of a server's model when the policy names none (SPEC E1, decision 15), and the embedder's choice.

The order is that of LMEB, a benchmark of memory retrieval: how a model does on web search (MTEB) says nothing about it,
the two correlate at -0.1. Figures are its overall NDCG@10.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from pydantic import SecretStr

from memcore.embedding.protocol import PromptPrefixes
from memcore.models.base import Frozen, NotBlankStr

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedModel:
    """A model with its place in the order.

    Attributes:
        name: the model's published name, without its owner.
        tier: what it needs.
        ndcg: LMEB's overall NDCG@10, 0 to 100.
        dims: length of its vectors as published; what counts is measured.
    """

    name: str
    tier: Tier
    ndcg: float
    dims: int


#: Best first.
RANKING = (
    RankedModel(name="bge-multilingual-gemma2", tier=Tier.GPU_FULL, ndcg=61.41, dims=3_584),
    RankedModel(name="NV-Embed-v2", tier=Tier.GPU_FULL, ndcg=60.25, dims=4_096),
    RankedModel(name="Qwen3-Embedding-4B", tier=Tier.GPU_CONSUMER, ndcg=58.00, dims=2_560),
    RankedModel(name="e5-mistral-7b-instruct", tier=Tier.GPU_FULL, ndcg=57.08, dims=4_096),
    RankedModel(name="EmbeddingGemma-300M", tier=Tier.CPU, ndcg=56.03, dims=768),
    RankedModel(name="multilingual-e5-large-instruct", tier=Tier.CPU, ndcg=55.33, dims=1_024),
)


def tier_of(provider: str | None, *, has_gpu: bool | None) -> Tier:
    """Return the tier of a provider: a local one without a GPU is `cpu`, with one or unsaid `gpu_consumer`.

    Args:
        provider: the provider's name; None counts as a local one with a GPU.
        has_gpu: what the operator declares; None when nothing was said.
    """
    if provider is None:
        return Tier.GPU_CONSUMER
    if provider not in LOCAL_PROVIDERS:
        return Tier.GPU_FULL
    return Tier.CPU if has_gpu is False else Tier.GPU_CONSUMER


def best_offered(tier: Tier, offered: Iterable[str]) -> str | None:
    """Return the best model of the tier that is offered, else the best of any tier, else None.

    A server's name for a model matches without its owner, its tag (``:latest``), its size (``-300m``), and whatever the
    case.
    """
    known = {_bare(name): name for name in reversed(list(offered))}
    ranked = [each for each in RANKING if each.tier is tier] + [each for each in RANKING if each.tier is not tier]
    for model in ranked:
        exact = next((known[name] for name in known if name == _bare(model.name)), None)
        family = next((known[name] for name in known if _family(name) == _family(_bare(model.name))), None)
        if found := exact or family:
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
        provider: one of the factory's names.
        model: a folder for onnx, and for static that of a trained table; a name or folder for sentence-transformers; a
            server's name for its model.
        dims: the length that is expected; None takes what the model has.
        prompt_prefixes: the prefixes of questions and documents.
        url: the server's base address; None is the provider's usual one.
        api_key: its key.
        has_gpu: whether the operator says that the server has a GPU.
    """

    provider: NotBlankStr = DEFAULT_EMBEDDER
    model: NotBlankStr | None = None
    dims: int | None = None
    prompt_prefixes: PromptPrefixes = PromptPrefixes()
    url: NotBlankStr | None = None
    api_key: SecretStr | None = None
    has_gpu: bool | None = None

    @property
    def without_server(self) -> Self:
        """The same without what belongs to a server's place and key, fit to be written down."""
        return self.model_copy(update={"url": None, "api_key": None, "has_gpu": None})
