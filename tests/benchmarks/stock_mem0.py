"""Stock mem0 on its own default store: ``Memory.add(infer=False)`` with the same embedder, into Qdrant's local mode."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.meter import Measurement, measured
from benchmarks.texts import Texts
from support.stock_mem0 import close_mem0

from memcore.embedding.protocol import Embedder
from memcore.memory.stock_mem0 import EMBEDDER_SLOT, MODEL_SLOT, import_mem0, our_classes

#: Whose memories they are.
_AGENT = "agent-0"


class StockMem0:
    """A mem0.Memory as its manual builds it; only the embedder and the folders are ours."""

    def __init__(self, folder: Path, embedder: Embedder, texts: Texts) -> None:
        memory_class = import_mem0(folder)
        config = {
            "embedder": {"provider": EMBEDDER_SLOT, "config": {"model_kwargs": {"embedder": embedder}}},
            "llm": {"provider": MODEL_SLOT, "config": {}},
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": str(folder / "qdrant"), "embedding_model_dims": embedder.dims},
            },
            "history_db_path": str(folder / "history.db"),
        }
        with our_classes():
            self._memory = memory_class.from_config(config)
        self._texts = texts
        self._turn = 0
        self._written = 0

    def run(self, count: int) -> Measurement:
        """Add that many fresh memories, one after the other."""
        self._turn += 1
        memories = self._texts.requests(count, mark=f"mem0 {self._turn}")
        with measured(dict) as measurement:
            for memory in memories:
                self.add(memory.content)
        found = self._memory.vector_store.client.count(self._memory.vector_store.collection_name).count
        self._written += count
        if found != self._written:
            raise AssertionError(f"mem0 wrote {found} of {self._written}")
        return measurement

    def add(self, text: str) -> int:
        """Add a memory as it is; return how many were added."""
        return len(self._memory.add(text, agent_id=_AGENT, infer=False)["results"])

    def search(self, text: str, *, limit: int) -> int:
        """Return how many memories a search finds, however little they say."""
        return len(self._memory.search(text, filters={"agent_id": _AGENT}, top_k=limit, threshold=0.0)["results"])

    def close(self) -> None:
        """Close both databases."""
        close_mem0(self._memory)


@contextmanager
def stock_mem0(embedder: Embedder, texts: Texts) -> Iterator[StockMem0]:
    """Open a Memory in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="memtend-bench-mem0-"))
    peer = StockMem0(folder, embedder, texts)
    try:
        yield peer
    finally:
        peer.close()
        shutil.rmtree(folder, ignore_errors=True)
