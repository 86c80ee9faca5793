from collections.abc import Iterator

import pytest
from support.embedding_server import EmbeddingServer, embedding_server

from memcore.embedding.factory import create_embedder
from memcore.embedding.selection import RANKING, EmbedderChoice, Tier, best_offered, tier_of
from memcore.errors import MemoryConfigError


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        yield running


@pytest.mark.parametrize(
    ("provider", "has_gpu", "tier"),
    [
        ("ollama", False, Tier.CPU),
        ("ollama", True, Tier.GPU_CONSUMER),
        ("lm-studio", None, Tier.GPU_CONSUMER),
        ("vllm", False, Tier.CPU),
        ("openai", False, Tier.GPU_FULL),
    ],
)
def test_the_operator_says_whether_there_is_a_gpu(provider: str, has_gpu: bool | None, tier: Tier) -> None:
    assert tier_of(provider, has_gpu=has_gpu) is tier


def test_every_tier_has_a_model() -> None:
    assert set(RANKING.values()) == set(Tier)


@pytest.mark.parametrize(
    ("tier", "offered", "chosen"),
    [
        (Tier.CPU, ["embeddinggemma:latest", "qwen3-embedding:4b", "llama3:8b"], "embeddinggemma:latest"),
        (Tier.CPU, ["intfloat/multilingual-e5-large-instruct"], "intfloat/multilingual-e5-large-instruct"),
        (Tier.GPU_CONSUMER, ["embeddinggemma", "Qwen/Qwen3-Embedding-8B"], "Qwen/Qwen3-Embedding-8B"),
        (Tier.GPU_CONSUMER, ["Qwen/Qwen3-Embedding-8B", "Qwen/Qwen3-Embedding-4B"], "Qwen/Qwen3-Embedding-4B"),
        (Tier.GPU_FULL, ["nvidia/NV-Embed-v2", "BAAI/bge-multilingual-gemma2"], "BAAI/bge-multilingual-gemma2"),
        (Tier.GPU_FULL, ["EmbeddingGemma-300M"], "EmbeddingGemma-300M"),
        (Tier.CPU, ["llama3:8b", "", "7b"], None),
        (Tier.CPU, [], None),
    ],
)
def test_the_best_of_its_tier_is_taken_else_the_best_of_all(tier: Tier, offered: list[str], chosen: str | None) -> None:
    assert best_offered(tier, offered) == chosen


def test_a_server_whose_model_is_not_named_gets_the_best_of_its_tier(server: EmbeddingServer) -> None:
    server.models = ["Qwen/Qwen3-Embedding-4B", "google/embeddinggemma-300m"]
    embedder = create_embedder(EmbedderChoice(provider="ollama", url=server.url, has_gpu=False))
    assert (embedder.name, embedder.dims) == ("google/embeddinggemma-300m", 16)


def test_a_server_without_a_known_model_wants_one_named(server: EmbeddingServer) -> None:
    server.models = ["llama3:8b"]
    with pytest.raises(MemoryConfigError, match=r"memory\.embedder\.model: .*name one"):
        create_embedder(EmbedderChoice(provider="ollama", url=server.url))
