"""Memories that agents publish in tests, and backends that take them."""

from memcore.backends.composite import CompositeBackend
from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.mem0.backend import Mem0Backend
from memcore.models.memory import MemoryCategory, MemoryStoreRequest

#: The backends that share knowledge.
Sharing = InMemoryBackend | CompositeBackend | Mem0Backend


def reported(content: str = "the canteen closes at two", **more: object) -> MemoryStoreRequest:
    """Return a request to publish; every field has a default."""
    return MemoryStoreRequest.model_validate({"category": MemoryCategory.SEMANTIC, "content": content, **more})
