"""``MemtendRetriever``: memories as the documents of a LangChain chain."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from memcore.adapters.protocol import requiring
from memcore.models.memory import MemoryEntry

with requiring("langchain-core"):
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

if TYPE_CHECKING:
    from langchain_core.callbacks.manager import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun


class MemtendRetriever(BaseRetriever):
    """Find an agent's memories for a question, best first.

    ::

        retriever = MemtendRetriever(memory=memory, agent_id="oncall", k=5)
        documents = retriever.invoke("when does payments page?")

    Each document has the text of a memory, its id, and as metadata what is known of it: ``id``, ``score`` (0 to 1, it
    compares between questions), ``scores`` by kind, ``category``, ``namespace``, ``created_at``, ``source``, ``tags``,
    ``key`` and ``attributes``. Raises what ``Memory.search`` raises.

    Attributes:
        memory: a ``Memory``, or what ``Memory.connect`` returns. It stays open.
        agent_id: whose memories are searched.
        k: most documents, 1 to 1000.
        filters: as ``Memory.search`` takes them: ``categories``, ``namespaces``, ``attributes``, ``min_scores``, ...
    """

    memory: Any = Field(exclude=True, repr=False)
    agent_id: str
    k: int = Field(default=4, ge=1, le=1_000)
    filters: Mapping[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(self, query: str, *, run_manager: "CallbackManagerForRetrieverRun") -> list[Document]:
        del run_manager  # nothing happens below that it could report
        return self._found(query)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: "AsyncCallbackManagerForRetrieverRun"
    ) -> list[Document]:
        del run_manager  # as above
        return await asyncio.to_thread(self._found, query)

    def _found(self, query: str) -> list[Document]:
        return [document_of(entry) for entry in self.memory.search(self.agent_id, query, limit=self.k, **self.filters)]


def document_of(entry: MemoryEntry) -> Document:
    """Return a memory as a document."""
    scores = {} if entry.scores is None else entry.scores.model_dump(exclude_none=True)
    metadata = {
        "id": entry.id,
        "agent_id": entry.agent_id,
        "score": entry.relevance_score,
        "scores": scores,
        "category": str(entry.category),
        "namespace": entry.namespace,
        "created_at": entry.created_at.isoformat(),
        "source": entry.metadata.source,
        "tags": list(entry.metadata.tags),
        "key": entry.key,
        "attributes": dict(entry.attributes),
    }
    return Document(id=entry.id, page_content=entry.content, metadata=metadata)
