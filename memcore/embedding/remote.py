"""Embedders of a model server: its usual address, and the model that is taken when none is named."""

from memcore.embedding.cache import CachedEmbedder
from memcore.embedding.choice import EmbedderChoice
from memcore.embedding.json_post import JsonPost
from memcore.embedding.micro_batch import MicroBatchedEmbedder
from memcore.embedding.openai_compatible import OpenAiCompatibleEmbedder
from memcore.embedding.protocol import Embedder
from memcore.embedding.tiers import best_offered, tier_of
from memcore.errors import MemoryConfigError, MemoryEmbeddingError

#: Providers and the base address that each has out of the box; None where there is no usual one.
SERVERS: dict[str, str | None] = {
    "openai-compatible": None,
    "openai": "https://api.openai.com/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "lm-studio": "http://127.0.0.1:1234/v1",
    "vllm": "http://127.0.0.1:8000/v1",
}


def remote_embedder(choice: EmbedderChoice) -> Embedder:
    """Return the embedder of a server, with a cache and micro-batches, both of which spare requests.

    Raises:
        MemoryConfigError: no address, no model, or a wrong key.
        MemoryEmbeddingError: the server had to be asked and does not answer.
    """
    url = choice.url or SERVERS[choice.provider]
    if url is None:
        raise MemoryConfigError(f"embedder: {choice.provider!r} needs an address: set MEMTEND_EMBEDDER_URL")
    server = JsonPost(url, key=choice.api_key)
    model = choice.model or _chosen_model(choice, server)
    asked = OpenAiCompatibleEmbedder(server, model=model, dims=choice.dims, sides=choice.sides)
    return CachedEmbedder(MicroBatchedEmbedder(asked))


def _chosen_model(choice: EmbedderChoice, server: JsonPost) -> str:
    answer = server.get("/models")
    try:
        offered = [str(each["id"]) for each in answer["data"]]
    except (KeyError, TypeError) as error:
        raise MemoryEmbeddingError(
            f"the embedding server at {server.shown_url} lists its models in no known form"
        ) from error
    tier = tier_of(choice.provider, has_gpu=choice.has_gpu)
    found = best_offered(tier, offered)
    if found is None:
        raise MemoryConfigError(
            f"memory.embedder.model: {server.shown_url} offers no model that is known to do well on memories: name one"
        )
    return found
