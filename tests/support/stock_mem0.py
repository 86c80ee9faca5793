"""A stock mem0.Memory over memtend's collection and history, with our embedder and no language model.

mem0 is imported here and nowhere else: it costs seconds, writes a folder in the home directory and would report to its
makers, unless the environment says otherwise before the import.
"""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import make_url

from memcore.backends.mem0.collection import open_client
from memcore.errors import MemoryCapabilityError, MemoryConfigError

if TYPE_CHECKING:
    from mem0 import Memory

    from memcore.backends.mem0.config import Mem0Config
    from memcore.embedding.protocol import Embedder

#: Names that mem0's validators know and behind which our classes stand while a Memory is built.
_EMBEDDER_SLOT = "huggingface"
_LLM_SLOT = "openai"

#: mem0's registries are the whole process's; two builds at once would find each other's entries.
_BUILDING = threading.Lock()


class InjectedEmbedder:
    """Adapts our embedder, which travels in the ``model_kwargs`` of mem0's configuration, to mem0's interface."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self._embedder: Embedder = config.model_kwargs["embedder"]

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Return one text's vector."""
        if memory_action == "search":
            return _floats(self._embedder.embed_query(text))
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        """Return the vectors of texts to store."""
        del memory_action
        return [_floats(vector) for vector in self._embedder.embed_documents(list(texts))]


class NullLLM:
    """Takes the place of mem0's language model and refuses every call."""

    def __init__(self, config: Any = None) -> None:
        self.config = config

    def generate_response(self, *_args: Any, **_kwargs: Any) -> str:
        """Raise MemoryCapabilityError: without a language model mem0 can only add with infer=False."""
        raise MemoryCapabilityError("mem0 has no language model here: call add with infer=False")


def open_mem0(place: "Mem0Config", embedder: "Embedder", *, folder: Path) -> "Memory":
    """Open a stock mem0.Memory; close it with close_mem0, which also closes its connection to the store.

    Args:
        place: where the data lie; the history must be SQLite, for mem0 reads nothing else.
        embedder: the one that filled the collection.
        folder: where mem0 may write its own configuration file.

    Raises MemoryConfigError when the history is not SQLite, or when mem0 was imported with its telemetry on.
    """
    history = make_url(place.history_url)
    if history.get_backend_name() != "sqlite" or not history.database:
        raise MemoryConfigError("history_url: stock mem0 reads SQLite only, and this history is elsewhere")
    memory_class = _import_mem0(folder)
    client = open_client(place)
    config = {
        "embedder": {"provider": _EMBEDDER_SLOT, "config": {"model_kwargs": {"embedder": embedder}}},
        "llm": {"provider": _LLM_SLOT, "config": {}},
        "vector_store": {
            "provider": "qdrant",
            "config": {
                "client": client,
                "collection_name": place.collection,
                "embedding_model_dims": embedder.dims,
            },
        },
        "history_db_path": history.database,
    }
    try:
        with _BUILDING, _our_classes():
            return memory_class.from_config(config)
    except BaseException:
        client.close()
        raise


def close_mem0(memory: "Memory") -> None:
    """Close a Memory and its connection to the store, which mem0's own close leaves open."""
    client = memory.vector_store.client
    memory.close()
    client.close()


def _import_mem0(folder: Path) -> Any:
    # mem0 reads these once, when it is imported.
    os.environ["MEM0_TELEMETRY"] = "False"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["MEM0_DIR"] = str(folder)
    is_first = "mem0.memory.telemetry" not in sys.modules
    from mem0 import Memory  # noqa: PLC0415  # see above
    from mem0.memory import telemetry  # noqa: PLC0415  # see above

    if not is_first and telemetry.MEM0_TELEMETRY:
        raise MemoryConfigError("mem0 was imported with its telemetry on: set MEM0_TELEMETRY=False before the import")
    return Memory


@contextmanager
def _our_classes() -> Iterator[None]:
    from mem0.configs.llms.base import BaseLlmConfig  # noqa: PLC0415  # after _import_mem0 has set the environment
    from mem0.utils.factory import EmbedderFactory, LlmFactory  # noqa: PLC0415  # see above

    embedders, models = EmbedderFactory.provider_to_class, LlmFactory.provider_to_class
    before = embedders[_EMBEDDER_SLOT], models[_LLM_SLOT]
    embedders[_EMBEDDER_SLOT] = f"{__name__}.{InjectedEmbedder.__name__}"
    models[_LLM_SLOT] = (f"{__name__}.{NullLLM.__name__}", BaseLlmConfig)
    try:
        yield
    finally:
        embedders[_EMBEDDER_SLOT], models[_LLM_SLOT] = before


def _floats(vector: Any) -> list[float]:
    return [float(value) for value in vector]
