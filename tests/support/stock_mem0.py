"""A stock mem0.Memory over memtend's collection and history, confined to nothing, with our embedder and no model."""

from pathlib import Path
from typing import TYPE_CHECKING

from memcore.memory.stock_mem0 import build, import_mem0, mem0_config

if TYPE_CHECKING:
    from mem0 import Memory

    from memcore.backends.mem0.config import Mem0Config
    from memcore.embedding.protocol import Embedder


def open_mem0(place: "Mem0Config", embedder: "Embedder", *, folder: Path) -> "Memory":
    """Open a mem0.Memory; close it with close_mem0, which also closes its connection to the store.

    Args:
        place: where the data lie; the history must be SQLite, for mem0 reads nothing else.
        embedder: the one that filled the collection.
        folder: where mem0 may write its own configuration file.
    """
    memory_class = import_mem0(folder)
    memory: Memory = build(memory_class, mem0_config(place, place.collection, embedder))
    return memory


def close_mem0(memory: "Memory") -> None:
    """Close a Memory and its connection to the store, which mem0's own close leaves open."""
    client = memory.vector_store.client
    memory.close()
    client.close()
