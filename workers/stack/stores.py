"""Stores that the policy puts outside the embedded stack: the environment says where they are."""

from collections.abc import Mapping

from memcore.config.settings import Settings
from memcore.config.storage import MemoryStorageConfig
from memcore.errors import MemoryConfigError


def has_own_store(storage: MemoryStorageConfig) -> bool:
    """Say whether the stack starts a store server for its vectors."""
    return storage.vector_store == "qdrant"


def with_external_stores(settings: Settings, storage: MemoryStorageConfig, environ: Mapping[str, str]) -> Settings:
    """Return the stack's settings with the stores that ``memory.storage`` puts outside it.

    ``vector_store: qdrant-external`` takes MEMTEND_QDRANT_URL and MEMTEND_QDRANT_API_KEY, ``history_store: postgresql``
    MEMTEND_HISTORY_URL. Raises MemoryConfigError when an address is not set, or is wrong.
    """
    outside: dict[str, str | None] = {}
    if not has_own_store(storage):
        outside["qdrant_url"] = _named(environ, "MEMTEND_QDRANT_URL", "vector_store: qdrant-external")
        outside["qdrant_api_key"] = environ.get("MEMTEND_QDRANT_API_KEY") or None
    if storage.history_store == "postgresql":
        outside["history_url"] = _named(environ, "MEMTEND_HISTORY_URL", "history_store: postgresql")
    return settings.moved(outside)


def _named(environ: Mapping[str, str], variable: str, choice: str) -> str:
    if url := environ.get(variable):
        return url
    raise MemoryConfigError(f"memory.storage.{choice} needs the server's address: set {variable} and start again")
