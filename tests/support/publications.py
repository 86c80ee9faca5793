"""What agents publish in tests, and where."""

from memcore.backends.composite import CompositeBackend
from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.mem0.backend import Mem0Backend
from memcore.models.memory import MemoryCategory, MemoryStoreRequest

#: The backends that share knowledge.
Sharing = InMemoryBackend | CompositeBackend | Mem0Backend


def reported(content: str = "the canteen closes at two", **more: object) -> MemoryStoreRequest:
    """Return what is to be published; nothing must be said about it."""
    return MemoryStoreRequest.model_validate({"category": MemoryCategory.SEMANTIC, "content": content, **more})
