"""A stock mem0.Memory over memtend's collection and history, with our embedder.

mem0 is imported here and in ``mem0_agent``, and only when somebody asks for it: it costs seconds, writes a folder in
the home directory, and would report to its makers unless the environment says otherwise before the import.
"""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from memcore.errors import MemoryCapabilityError, MemoryConfigError
from memcore.extras import require_extra
from memcore.models.memory import require_new_agent_id, require_path_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mem0 import Memory

    from memcore.backends.mem0.config import Mem0Config
    from memcore.backends.protocol import MemoryBackend
    from memcore.config.settings import Settings
    from memcore.embedding.protocol import Embedder

#: Opens a mem0.Memory over a connected backend, for an agent.
Mem0Opener: TypeAlias = "Callable[[MemoryBackend, str], Memory]"

#: Names that mem0's validators know and behind which our classes stand while a Memory is built.
EMBEDDER_SLOT, MODEL_SLOT = "huggingface", "openai"

#: mem0's registries are the whole process's; two builds at once would find each other's entries.
_BUILDING = threading.Lock()


class InjectedEmbedder:
    """Adapts our embedder, which travels in the ``model_kwargs`` of mem0's configuration, to mem0's interface."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self._embedder: Embedder = config.model_kwargs["embedder"]

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Return one text's vector; a question's where mem0 searches."""
        if memory_action == "search":
            return _floats(self._embedder.embed_query(text))
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        """Return the vectors of texts to store."""
        del memory_action
        return [_floats(vector) for vector in self._embedder.embed_documents(list(texts))]


class RefusingModel:
    """Takes the place of mem0's language model and refuses every call."""

    def __init__(self, config: Any = None) -> None:
        self.config = config

    def generate_response(self, *_args: Any, **_kwargs: Any) -> str:
        """Raise MemoryCapabilityError: without a language model mem0 can only add with infer=False."""
        raise MemoryCapabilityError("mem0 has no language model here: call add with infer=False")


def required_opener(opener: "Mem0Opener | None") -> Mem0Opener:
    """Return the opener. Raises MemoryConfigError where the memory was made without one."""
    if opener is None:
        raise MemoryConfigError("mem0: this memory was made without settings: make it with from_settings")
    return opener


def open_configured_mem0(settings: "Settings", backend: "MemoryBackend", agent_id: str) -> "Memory":
    """Open a mem0.Memory where the settings say that the data lie; raises as open_agent_mem0."""
    from memcore.backends.factory import mem0_config_of  # noqa: PLC0415  # its libraries are an extra's

    return open_agent_mem0(mem0_config_of(settings), backend, agent_id)


def open_agent_mem0(place: "Mem0Config", backend: "MemoryBackend", agent_id: str) -> "Memory":
    """Open a mem0.Memory that reads and writes the memories of one agent alone.

    Args:
        place: where the data lie; the history must be SQLite, for mem0 reads nothing else.
        backend: the connected backend; its embedder and its collection are used, so open anew after a reindex.
        agent_id: whose memories they are.

    Raises:
        MemoryInputError: nothing can be stored under this agent id.
        MemoryConfigError: the package mem0ai is missing or was imported with its telemetry on, the history is not
            SQLite, or the backend is not mem0.
    """
    from memcore.backends.mem0.backend import Mem0Backend  # noqa: PLC0415  # its libraries are an extra's

    require_path_name(require_new_agent_id(agent_id))
    require_extra("mem0")
    if not isinstance(backend, Mem0Backend):
        raise MemoryConfigError(f"memory.backend: stock mem0 opens the data of mem0, not of {backend.backend_name}")
    import_mem0()
    # After import_mem0 has set the environment.
    from memcore.memory.mem0_agent import AgentMemory  # noqa: PLC0415  # see above

    serving = backend.serving
    config = mem0_config(place, serving.collection, serving.indexing.embedder)
    memory = build(AgentMemory, config)
    memory.confine(agent_id, serving.indexing.encoder)
    return memory


def mem0_config(place: "Mem0Config", collection: str, embedder: "Embedder") -> dict[str, Any]:
    """Return mem0's configuration of a collection, with an open client of the store.

    Raises MemoryConfigError when the history is not SQLite.
    """
    from sqlalchemy.engine import make_url  # noqa: PLC0415  # an extra's library

    from memcore.backends.mem0.collection import open_client  # noqa: PLC0415  # see above

    history = make_url(place.history_url)
    if history.get_backend_name() != "sqlite" or not history.database:
        raise MemoryConfigError("history_url: stock mem0 reads SQLite only, and this history is elsewhere")
    return {
        "embedder": {"provider": EMBEDDER_SLOT, "config": {"model_kwargs": {"embedder": embedder}}},
        "llm": {"provider": MODEL_SLOT, "config": {}},
        "vector_store": {
            "provider": "qdrant",
            "config": {
                "client": open_client(place),
                "collection_name": collection,
                "embedding_model_dims": embedder.dims,
            },
        },
        "history_db_path": history.database,
    }


def build(memory_class: Any, config: dict[str, Any]) -> Any:
    """Return a Memory of a class and a configuration; the client in it is closed when that fails."""
    try:
        with _BUILDING, our_classes():
            return memory_class.from_config(config)
    except BaseException:
        config["vector_store"]["config"]["client"].close()
        raise


def import_mem0(folder: "Path | None" = None) -> Any:
    """Import mem0 with its telemetry and its downloads off, and return its Memory class.

    ``folder`` is where mem0 writes a configuration file of its own; its default, in the home directory, when left out.
    Raises MemoryConfigError when mem0 was imported before with its telemetry on.
    """
    # mem0 reads these once, when it is imported.
    os.environ["MEM0_TELEMETRY"] = "False"
    os.environ["HF_HUB_OFFLINE"] = "1"
    if folder is not None:
        os.environ["MEM0_DIR"] = str(folder)
    is_first = "mem0.memory.telemetry" not in sys.modules
    from mem0 import Memory  # noqa: PLC0415  # see above
    from mem0.memory import telemetry  # noqa: PLC0415  # see above

    if not is_first and telemetry.MEM0_TELEMETRY:
        raise MemoryConfigError("mem0 was imported with its telemetry on: set MEM0_TELEMETRY=False before the import")
    return Memory


@contextmanager
def our_classes() -> Iterator[None]:
    """Let mem0 build our embedder and the model that refuses, under names that its validators know."""
    from mem0.configs.llms.base import BaseLlmConfig  # noqa: PLC0415  # after import_mem0 has set the environment
    from mem0.utils.factory import EmbedderFactory, LlmFactory  # noqa: PLC0415  # see above

    embedders, models = EmbedderFactory.provider_to_class, LlmFactory.provider_to_class
    before = embedders[EMBEDDER_SLOT], models[MODEL_SLOT]
    embedders[EMBEDDER_SLOT] = f"{__name__}.{InjectedEmbedder.__name__}"
    models[MODEL_SLOT] = (f"{__name__}.{RefusingModel.__name__}", BaseLlmConfig)
    try:
        yield
    finally:
        embedders[EMBEDDER_SLOT], models[MODEL_SLOT] = before


def _floats(vector: Any) -> list[float]:
    return [float(value) for value in vector]
