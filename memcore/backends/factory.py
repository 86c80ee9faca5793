"""Builds backends from the configuration: a new, disconnected instance for one company."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from memcore.backends.deletion import Deletion
from memcore.backends.mem0.config import Mem0Config, PointerConfig
from memcore.backends.protocol import BatchBackend, MemoryBackend
from memcore.clock import Clock, utc_now
from memcore.config.memory import CompanyMemoryConfig, EmbedderOverrideConfig
from memcore.config.urls import scheme_of
from memcore.embedding.factory import create_embedder
from memcore.embedding.protocol import Embedder, PromptPrefixes
from memcore.embedding.selection import EmbedderChoice
from memcore.errors import MemoryConfigError

if TYPE_CHECKING:
    from memcore.backends.mem0.collection import StoreConnections
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendParts:
    """The parts from which backends are built, as ``create_memory_backend`` takes them; each takes what it needs.

    A backend that is made of others finds them in the registry.
    """

    config: CompanyMemoryConfig
    company: str
    registry: "BackendRegistry"
    embedder: Embedder | None = None
    place: Mem0Config | None = None
    connections: "StoreConnections | None" = None
    followed: PointerConfig | None = None
    deletion: Deletion | None = None
    is_readers: bool = False
    clock: Clock = utc_now


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendEntry:
    """One backend in the registry; ``build`` makes a disconnected instance, and imports what it needs only then.

    A worker refuses a backend that is local to its process.
    """

    build: Callable[[BackendParts], MemoryBackend]
    is_process_local: bool


class BackendRegistry:
    """The backends by name."""

    def __init__(self, entries: dict[str, BackendEntry]) -> None:
        self._entries = dict(entries)

    @classmethod
    def default(cls) -> "BackendRegistry":
        """Return the registry of memtend's own backends."""
        return cls(
            {
                # Whether a composite is process-local depends on its children.
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
    from memcore.backends.composite import Child, CompositeBackend  # noqa: PLC0415  # only what is used is loaded

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
    from memcore.backends.mem0.backend import Mem0Backend, encoder_of, plans  # noqa: PLC0415  # see above
    from memcore.backends.mem0.hiding import HidingBackend  # noqa: PLC0415  # see above

    # The backend does only the weighted fusion: linear ranks the vectors alone, and rrf fuses the lists of
    # ``retrieve_rankings`` with those of shared memories. Sparse vectors are written whatever the strategy, so that
    # turning keywords on later needs no reindex.
    return (HidingBackend if parts.is_readers else Mem0Backend)(
        parts.place,
        company=parts.company,
        embedder=parts.embedder,
        encoder=encoder_of(parts.config),
        plan_of=plans(parts.config),
        text_template=parts.config.storage.text_template,
        is_sharing=parts.config.options.shared_knowledge_base,
        connections=parts.connections,
        following=parts.followed,
        deletion=parts.deletion,
        clock=parts.clock,
    )


@runtime_checkable
class WorkerBackend(MemoryBackend, BatchBackend, Protocol):
    """A backend that workers can use: both protocols in one."""


def create_memory_backend(
    config: CompanyMemoryConfig,
    *,
    company: str = "default",
    embedder: "Embedder | None" = None,
    place: Mem0Config | None = None,
    connections: "StoreConnections | None" = None,
    followed: PointerConfig | None = None,
    deletion: Deletion | None = None,
    is_readers: bool = False,
    clock: Clock = utc_now,
    registry: BackendRegistry | None = None,
) -> MemoryBackend:
    """Build the backend that ``config.backend`` names; the caller connects it.

    mem0 needs an embedder and a place for its data; ``followed`` is the row that says which of its collections serves,
    None stays with the place's own. Without a ``deletion`` that journals it, what ``delete`` removes is gone for good.
    A backend of readers (``is_readers``) does not show what is being erased.
    Given ``connections`` to the place are those of the process, and stay open; without them a backend opens its own.

    Raises MemoryConfigError when the name is unknown or something that the backend needs is missing.
    """
    registry = registry or BackendRegistry.default()
    parts = BackendParts(
        config=config,
        company=company,
        registry=registry,
        embedder=embedder,
        place=place,
        connections=connections,
        followed=followed,
        deletion=deletion,
        is_readers=is_readers,
        clock=clock,
    )
    return registry.entry(config.backend).build(parts)


def create_configured_embedder(settings: "Settings", policy: "Policy") -> "Embedder | None":
    """Load the embedder that is configured, or None for a backend that needs none; it may be loaded before a fork."""
    if "mem0" not in policy.memory.backends.values():
        return None
    return create_embedder(embedder_choice(settings, policy))


def embedder_choice(settings: "Settings", policy: "Policy") -> EmbedderChoice:
    """Return what the policy and the settings say about the embedder; the policy's provider wins."""
    config = policy.memory.embedder or EmbedderOverrideConfig()
    query, document = config.query_prefix, config.document_prefix
    # A checkpoint was trained without prefixes, whatever those of its base model are.
    is_said = query is not None or document is not None or config.fine_tune.enabled
    return EmbedderChoice(
        provider=config.provider or settings.embedder,
        model=config.asked_model,
        dims=config.asked_dims,
        prompt_prefixes=PromptPrefixes(query_prefix=query or "", document_prefix=document or "") if is_said else None,
        url=settings.embedder_url,
        api_key=settings.embedder_api_key,
        has_gpu=settings.embedder_has_gpu,
    )


def create_engine_backend(
    settings: "Settings",
    policy: "Policy",
    *,
    embedder: "Embedder | None" = None,
    connections: "StoreConnections | None" = None,
    is_readers: bool = False,
    clock: Clock = utc_now,
) -> MemoryBackend:
    """Build the backend of an installation, with the embedder that is configured unless one is given.

    The caller connects it. What its ``delete`` removes is journaled, stays removed and can be undone
    (docs/how-to/undo-and-restore.md); where all memories are kept in the process it is gone at once. Raises
    MemoryConfigError when the policy wants the history in another kind of database than the settings name.
    """
    if policy.memory.storage.history_store == "postgresql" and scheme_of(settings.history_url) == "sqlite":
        raise MemoryConfigError(
            "memory.storage.history_store: is postgresql, and the history's address is SQLite's: "
            "set MEMTEND_HISTORY_URL to postgresql://USER@HOST/NAME"
        )
    return create_memory_backend(
        policy.memory,
        company=settings.company,
        embedder=embedder or create_configured_embedder(settings, policy),
        place=mem0_config_of(settings),
        connections=connections,
        followed=followed_row(settings, policy),
        deletion=_deletion(settings, policy, clock),
        is_readers=is_readers,
        clock=clock,
    )


def _deletion(settings: "Settings", policy: "Policy", clock: Clock) -> Deletion | None:
    if len(_process_local(policy)) == len(policy.memory.backends):
        # No job and no run reaches the memories of one process: a deletion there cannot be undone.
        return None
    return Deletion(settings.ledger_urls, company=settings.company, clock=clock)


def _process_local(policy: "Policy") -> dict[str, str]:
    entry, backends = BackendRegistry.default().entry, policy.memory.backends.items()
    return {key: name for key, name in backends if entry(name, key=key).is_process_local}


def create_worker_backend(
    settings: "Settings",
    policy: "Policy",
    *,
    embedder: "Embedder | None" = None,
    connections: "StoreConnections | None" = None,
    is_readers: bool = False,
    clock: Clock = utc_now,
) -> WorkerBackend:
    """Build the backend for a worker; MemoryConfigError for one that keeps its memories in the process."""
    require_shared_backends(policy)
    backend = create_engine_backend(
        settings, policy, embedder=embedder, connections=connections, is_readers=is_readers, clock=clock
    )
    if not isinstance(backend, WorkerBackend):
        raise MemoryConfigError(f"memory.backend: {policy.memory.backend!r} has no batch protocol, which workers need")
    return backend


def require_shared_backends(policy: "Policy") -> None:
    """Raise MemoryConfigError when a backend keeps its memories inside one process: workers share them."""
    for key, name in _process_local(policy).items():
        raise MemoryConfigError(
            f"{key}: {name!r} keeps memories inside one process, and workers share them: choose mem0"
        )


def followed_row(settings: "Settings", policy: "Policy") -> PointerConfig:
    """Return the row that says which collection serves an installation, and how any embedder in it is loaded."""
    choice = embedder_choice(settings, policy)
    server = {"url": choice.url, "api_key": choice.api_key, "has_gpu": choice.has_gpu}
    return PointerConfig(
        choice=choice.without_server,
        load=lambda wanted: create_embedder(wanted.model_copy(update=server)),
    )


def mem0_config_of(settings: "Settings") -> Mem0Config:
    """Return where an installation keeps the memories of its company."""
    return Mem0Config(
        url=settings.qdrant_url,
        api_key=settings.qdrant_api_key,
        history_url=settings.history_url,
        ledger_url=settings.database_url,
        collection=Mem0Config.collection_of(settings.company),
    )
