"""A mem0.Memory that is confined to one agent. Imports mem0: only ``stock_mem0`` imports this, when it is asked to."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from mem0 import Memory
from mem0.vector_stores.qdrant import Qdrant
from qdrant_client.models import Filter

from memcore.backends.mem0.filters import expired, owned
from memcore.backends.mem0.points import Key
from memcore.clock import utc_now
from memcore.embedding.bm25 import Bm25Encoder, SparseVector
from memcore.errors import MemoryCapabilityError
from memcore.models.conversation import SESSION, USER
from memcore.models.memory import MemoryCategory


class AgentMemory(Memory):  # type: ignore[misc]  # mem0 has no types
    """A mem0.Memory with the same calls, whose memories are those of one agent.

    What it adds, memtend finds, and the other way round. Its own update and delete are mem0's: they are in the history,
    but ``undo`` does not know them.
    """

    def confine(self, agent_id: str, encoder: Bm25Encoder) -> None:
        """Let it see and write the memories of this agent alone."""
        self.vector_store: Any = AgentStore(self.vector_store, agent_id=agent_id, encoder=encoder)

    def add(self, messages: Any, *, infer: bool = True, **fields: Any) -> Any:
        """Add memories as mem0 does with ``infer=False``.

        Raises MemoryCapabilityError with ``infer=True``, before anything is written: there is no language model.
        """
        if infer:
            raise MemoryCapabilityError(
                "mem0 has no language model here: call add with infer=False, or add of memtend's Memory"
            )
        return super().add(messages, infer=False, **fields)

    def reset(self) -> None:
        """Refuse: mem0 would drop the collection and the history of the whole company."""
        raise MemoryCapabilityError("reset would remove what every agent of the company has: call delete_all")

    def close(self) -> None:
        """Close the history and the connection to the store, which mem0's own close leaves open."""
        client = self.vector_store.client
        super().close()
        client.close()


class AgentStore(Qdrant):  # type: ignore[misc]  # mem0 has no types
    """mem0's store over a collection of memtend's, confined to the points of one agent that have not expired."""

    def __init__(self, opened: Any, *, agent_id: str, encoder: Bm25Encoder) -> None:
        self.agent_id = agent_id
        super().__init__(
            collection_name=opened.collection_name,
            embedding_model_dims=opened.embedding_model_dims,
            client=opened.client,
        )
        self._bm25_encoder = _SparseTexts(encoder)

    def insert(self, vectors: Any, payloads: Any = None, ids: Any = None) -> None:
        """Write points as memories of the agent, with the keys by which memtend filters and orders."""
        super().insert(vectors, [self._of_agent(payload) for payload in payloads or ()], ids)

    def update(self, vector_id: Any, vector: Any = None, payload: Any = None) -> None:
        """Change a point of the agent's; what the payload does not name stays."""
        before = self._require(vector_id)
        changed: Any = None if payload is None else self._of_agent({**before, **payload})
        super().update(vector_id, vector, changed)

    def delete(self, vector_id: Any) -> None:
        """Delete a point of the agent's."""
        self._require(vector_id)
        super().delete(vector_id)

    def get(self, vector_id: Any) -> Any:
        """Return a point of the agent's, or None."""
        point: Any = super().get(vector_id)
        return point if point is not None and point.payload.get(Key.AGENT_ID) == self.agent_id else None

    def search(self, query: str, vectors: Any, top_k: int = 5, filters: Any = None) -> Any:
        """Return the nearest of the agent's points."""
        return super().search(query, vectors, top_k, self._narrowed(filters))

    def search_batch(
        self,
        queries: Any,
        vectors_list: Any,
        top_k: int = 1,
        filters: Any = None,
    ) -> Any:
        """Return the nearest of the agent's points to each question."""
        return super().search_batch(queries, vectors_list, top_k, self._narrowed(filters))

    def keyword_search(self, query: str, top_k: int = 5, filters: Any = None) -> Any:
        """Return the agent's points with the words of a question."""
        return super().keyword_search(query, top_k, self._narrowed(filters))

    def list(self, filters: Any = None, top_k: int = 100) -> Any:
        """Return the agent's points."""
        return super().list(self._narrowed(filters), top_k)

    def delete_col(self) -> None:
        """Refuse, as AgentMemory.reset does."""
        raise MemoryCapabilityError("the collection belongs to every agent of the company")

    def _create_filter(self, filters: Any) -> Filter | None:
        asked: Filter | None = super()._create_filter({key: value for key, value in filters.items() if key != _WHOLE})
        if _WHOLE not in filters:
            # A part of another filter: mem0 calls this for each.
            return asked
        return owned(self.agent_id, *([] if asked is None else [asked]), but_not=expired(utc_now()))

    def _narrowed(self, filters: Mapping[str, Any] | None) -> dict[str, Any]:
        # mem0 makes no filter of an empty mapping.
        return {_WHOLE: True, **(filters or {})}

    def _of_agent(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        created = _seconds(payload.get(Key.CREATED_AT))
        return {
            Key.USER_ID.value: self.agent_id,
            Key.CATEGORY.value: MemoryCategory.SEMANTIC.value,
            Key.NAMESPACE.value: _namespace(payload, self.agent_id),
            **{key: value for key, value in payload.items() if key != _LEMMATIZED},
            Key.AGENT_ID.value: self.agent_id,
            Key.CREATED_TS.value: created,
            Key.UPDATED_TS.value: _seconds(payload.get(Key.UPDATED_AT), otherwise=created),
        }

    def _require(self, vector_id: Any) -> dict[str, Any]:
        point = self.get(vector_id)
        if point is None:
            raise ValueError("the agent has no memory with this id")
        payload: dict[str, Any] = point.payload
        return payload


#: A key of no payload: it marks the filter of a call, to which the agent is added.
_WHOLE = "\0memtend"

#: Words in the form of another tokenizer; our sparse vectors are made of the text itself.
_LEMMATIZED = "text_lemmatized"


class _SparseTexts:
    """Gives mem0 our sparse vectors in the form that it expects of its own encoder."""

    def __init__(self, encoder: Bm25Encoder) -> None:
        self._encoder = encoder

    def embed(self, texts: Iterable[str]) -> "Iterator[_Numbers]":
        """Yield the sparse vector of each text."""
        return (_Numbers(vector) for vector in self._encoder.encode_documents(list(texts)))


class _Numbers:
    """A sparse vector whose parts have ``tolist``, as arrays have."""

    def __init__(self, vector: SparseVector) -> None:
        self.indices, self.values = _List(vector.indices), _List(vector.values)


class _List(list[Any]):
    def tolist(self) -> list[Any]:
        """Return the plain list."""
        return list(self)


def _namespace(payload: Mapping[str, Any], agent_id: str) -> str:
    # As over HTTP: maintenance never merges what two people said, and a person's memories are found to be erased.
    user_id, run_id = payload.get(Key.USER_ID), payload.get("run_id")
    if isinstance(user_id, str) and user_id != agent_id:
        return f"{USER}{user_id}"
    return f"{SESSION}{run_id}" if isinstance(run_id, str) else "default"


def _seconds(text: Any, *, otherwise: float | None = None) -> float:
    """Return the epoch seconds of a time as mem0 writes it."""
    if not isinstance(text, str):
        return utc_now().timestamp() if otherwise is None else otherwise
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
