"""memcore: what a memory is, and what may happen to it. The library that agent engines and workers share.

The names below are the public face; each loads its module when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memcore.backends.protocol import BatchBackend, MemoryBackend, MemoryCapabilities
    from memcore.client import AsyncMemoryClient, JobReceipt, JobState, JobStatus, MemoryClient, Scope, StoreReceipt
    from memcore.errors import (
        FineTuneCancelledError,
        FineTuneDependencyError,
        LeaseLostError,
        MaintenancePausedError,
        MemoryCapabilityError,
        MemoryConfigError,
        MemoryConnectionError,
        MemoryEmbeddingError,
        MemoryError,  # noqa: A004  # the reference fixes the name
        MemoryInputError,
        MemoryNotFoundError,
        MemoryQueueFullError,
        MemoryRetrievalError,
        MemoryStoreError,
    )
    from memcore.models import (
        ConsolidationInterval,
        MemoryCategory,
        MemoryEntry,
        MemoryLevel,
        MemoryMetadata,
        MemoryQuery,
        MemoryStoreRequest,
    )

__all__ = [
    "AsyncMemoryClient",
    "BatchBackend",
    "ConsolidationInterval",
    "FineTuneCancelledError",
    "FineTuneDependencyError",
    "JobReceipt",
    "JobState",
    "JobStatus",
    "LeaseLostError",
    "MaintenancePausedError",
    "MemoryBackend",
    "MemoryCapabilities",
    "MemoryCapabilityError",
    "MemoryCategory",
    "MemoryClient",
    "MemoryConfigError",
    "MemoryConnectionError",
    "MemoryEmbeddingError",
    "MemoryEntry",
    "MemoryError",
    "MemoryInputError",
    "MemoryLevel",
    "MemoryMetadata",
    "MemoryNotFoundError",
    "MemoryQuery",
    "MemoryQueueFullError",
    "MemoryRetrievalError",
    "MemoryStoreError",
    "MemoryStoreRequest",
    "Scope",
    "StoreReceipt",
]

_MODULES = ("memcore.models", "memcore.errors", "memcore.client", "memcore.backends.protocol")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            found = getattr(import_module(module), name, None)
            if found is not None:
                return found
    msg = f"module 'memcore' has no attribute {name!r}"
    raise AttributeError(msg)
