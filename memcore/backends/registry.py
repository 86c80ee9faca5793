"""Backends by the name that the configuration uses."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from memcore.backends.deletion import Deletion
from memcore.backends.mem0.followed import Followed
from memcore.backends.mem0.place import Mem0Place
from memcore.backends.protocol import MemoryBackend
from memcore.clock import Clock, utc_now
from memcore.config.company import CompanyMemoryConfig
from memcore.embedding.protocol import Embedder
from memcore.errors import MemoryConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendParts:
    """What a backend is built of; which of it a backend needs is its own affair.

    Attributes:
        config: the company's ``memory`` section.
        company: the company.
        embedder: makes dense vectors.
        place: where the mem0 backend's data lie.
        followed: how mem0 follows the row that says which collection serves; None stays with the place's own.
        deletion: journals what engines delete; None where there is no ledger.
        clock: the time.
        registry: where a backend that is made of others finds them.
    """

    config: CompanyMemoryConfig
    company: str
    registry: "BackendRegistry"
    embedder: Embedder | None = None
    place: Mem0Place | None = None
    followed: Followed | None = None
    deletion: Deletion | None = None
    clock: Clock = utc_now


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendEntry:
    """One backend in the registry.

    Attributes:
        build: makes a disconnected instance; imports what it needs only then.
        is_process_local: whether another process sees none of its memories; a worker refuses such a backend.
    """

    build: Callable[[BackendParts], MemoryBackend]
    is_process_local: bool


class BackendRegistry:
    """Know backends by name.

    Args:
        entries: the backends.
    """

    def __init__(self, entries: dict[str, BackendEntry]) -> None:
        self._entries = dict(entries)

    @classmethod
    def default(cls) -> "BackendRegistry":
        """Return the registry of memtend's own backends."""
        return cls(
            {
                # Whether a composite is process-local is its children's affair.
                "composite": BackendEntry(build=_composite, is_process_local=False),
                "inmemory": BackendEntry(build=_inmemory, is_process_local=True),
                "mem0": BackendEntry(build=_mem0, is_process_local=False),
            }
        )

    def entry(self, name: str, *, key: str = "memory.backend") -> BackendEntry:
        """Return the backend of this name; MemoryConfigError says under which key, and names those that exist."""
        if name not in self._entries:
            known = ", ".join(sorted(self._entries))
            raise MemoryConfigError(f"{key}: {name!r} is not available, choose one of {known}")
        return self._entries[name]


def _composite(parts: BackendParts) -> MemoryBackend:
    from memcore.backends.composite.backend import CompositeBackend  # noqa: PLC0415  # only what is used is loaded
    from memcore.backends.composite.child import Child  # noqa: PLC0415  # see above

    composite = parts.config.composite
    if composite is None:
        raise MemoryConfigError("memory.composite: must be given when backend is composite")
    # The composite deletes by its own batch calls, which reach every child.
    for_child = replace(parts, deletion=None)
    children: dict[str, Child] = {}
    for key, name in composite.names.items():
        if name in children:
            continue
        child = parts.registry.entry(name, key=key).build(for_child)
        if not isinstance(child, Child):
            raise MemoryConfigError(f"{key}: {name!r} has no batch protocol, which a composite needs of its children")
        children[name] = child
    return CompositeBackend(
        children,
        routes=composite.routes,
        default=composite.default,
        company=parts.company,
        deletion=parts.deletion,
        clock=parts.clock,
    )


def _inmemory(parts: BackendParts) -> MemoryBackend:
    from memcore.backends.inmemory import InMemoryBackend  # noqa: PLC0415  # only the backend that is used is loaded

    return InMemoryBackend(
        company=parts.company,
        max_memories=parts.config.options.max_memories_per_agent,
        deletion=parts.deletion,
        clock=parts.clock,
    )


def _mem0(parts: BackendParts) -> MemoryBackend:
    if parts.embedder is None:
        raise MemoryConfigError("memory.backend: mem0 needs an embedder, and none was given")
    if parts.place is None:
        raise MemoryConfigError("memory.backend: mem0 needs a vector store and a history, and no place was given")
    # qdrant-client alone takes a third of a second to import, which the other backends should not pay.
    from memcore.backends.mem0.build import build_mem0  # noqa: PLC0415  # see above

    return build_mem0(
        parts.config,
        parts.place,
        company=parts.company,
        embedder=parts.embedder,
        followed=parts.followed,
        deletion=parts.deletion,
        clock=parts.clock,
    )
