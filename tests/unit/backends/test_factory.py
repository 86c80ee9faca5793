"""Backends by name, and what building one loads."""

from pathlib import Path
from typing import Any

import pytest
from support.hashing_embedder import HashingEmbedder

from memcore.backends.composite import CompositeBackend
from memcore.backends.factory import (
    BackendRegistry,
    create_engine_backend,
    create_memory_backend,
    create_worker_backend,
    mem0_config_of,
)
from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.backends.mem0.search import SearchPlan
from memcore.config.memory import CompanyMemoryConfig
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.embedding.protocol import EmbedderKind
from memcore.errors import MemoryConfigError

PLACE = Mem0Config(url="http://127.0.0.1:1", history_url="sqlite:///never.db", collection="memtend_c")


def settings(tmp_path: Path) -> Settings:
    return Settings.model_validate(
        {
            "broker_url": "redis://127.0.0.1:1/0",
            "database_url": "postgresql://127.0.0.1/memtend",
            "qdrant_url": "http://127.0.0.1:1",
            "qdrant_api_key": "the-key",
            "company": "acme",
            "home": tmp_path,
        }
    )


def policy(**memory: Any) -> Policy:
    return Policy.model_validate({"memory": memory})


def test_each_call_builds_a_new_disconnected_backend() -> None:
    config = CompanyMemoryConfig()
    first = create_memory_backend(config, company="c", embedder=HashingEmbedder(), place=PLACE)
    second = create_memory_backend(config, company="c", embedder=HashingEmbedder(), place=PLACE)
    assert isinstance(first, Mem0Backend)
    assert first is not second
    assert not first.is_connected


async def test_the_limit_of_the_policy_holds_in_the_process() -> None:
    config = CompanyMemoryConfig.model_validate({"backend": "inmemory", "options": {"max_memories_per_agent": 7}})
    backend = create_memory_backend(config, company="c")
    assert isinstance(backend, InMemoryBackend)
    assert backend.max_memories_per_agent == 7


@pytest.mark.parametrize(
    ("retrieval", "plan"),
    [
        ({}, SearchPlan(is_hybrid=True, dense_weight=0.4)),
        ({"dense_weight": 0.7}, SearchPlan(is_hybrid=True, dense_weight=0.7)),
        ({"sparse": False}, SearchPlan(is_hybrid=False, dense_weight=0.4, has_keywords=False)),
        ({"fusion_strategy": "linear"}, SearchPlan(is_hybrid=False, dense_weight=0.4)),
        ({"fusion_strategy": "rrf"}, SearchPlan(is_hybrid=False, dense_weight=0.4)),
    ],
)
def test_the_policy_decides_how_text_is_searched(retrieval: dict[str, Any], plan: SearchPlan) -> None:
    config = CompanyMemoryConfig.model_validate({"retrieval": retrieval})
    backend = create_memory_backend(config, company="c", embedder=HashingEmbedder(), place=PLACE)
    assert isinstance(backend, Mem0Backend)
    assert backend._plan_of(EmbedderKind.STATIC, None) == plan


def test_mem0_needs_an_embedder_and_a_place() -> None:
    with pytest.raises(MemoryConfigError, match="embedder"):
        create_memory_backend(CompanyMemoryConfig(), company="c", place=PLACE)
    with pytest.raises(MemoryConfigError, match="place"):
        create_memory_backend(CompanyMemoryConfig(), company="c", embedder=HashingEmbedder())


def test_a_worker_refuses_a_backend_that_no_other_process_sees(tmp_path: Path) -> None:
    with pytest.raises(MemoryConfigError, match=r"memory\.backend: 'inmemory'.*choose mem0"):
        create_worker_backend(settings(tmp_path), policy(backend="inmemory"))


COMPOSITE = {"default": "mem0", "routes": {"scratch": "inmemory"}}


async def test_a_composite_is_built_of_the_backends_that_its_routes_name() -> None:
    config = CompanyMemoryConfig.model_validate(
        {"backend": "composite", "composite": COMPOSITE, "options": {"max_memories_per_agent": 7}}
    )
    backend = create_memory_backend(config, company="c", embedder=HashingEmbedder(), place=PLACE)
    assert isinstance(backend, CompositeBackend)
    assert (backend.supports_vector_search, backend.max_memories_per_agent) == (True, 7)

    with pytest.raises(MemoryConfigError, match="needs an embedder"):
        create_memory_backend(config, company="c", place=PLACE)


def test_a_composite_of_what_the_registry_lacks_is_refused_by_its_key() -> None:
    config = CompanyMemoryConfig.model_validate({"backend": "composite", "composite": COMPOSITE})
    registry = BackendRegistry({name: BackendRegistry.default().entry(name) for name in ("composite", "mem0")})
    with pytest.raises(MemoryConfigError, match=r"memory\.composite\.routes\.scratch: 'inmemory' is not available"):
        create_memory_backend(config, company="c", embedder=HashingEmbedder(), place=PLACE, registry=registry)


@pytest.mark.parametrize(
    ("composite", "key"), [(COMPOSITE, "routes.scratch"), ({"routes": {"work": "mem0"}}, "default")]
)
def test_a_worker_refuses_a_composite_of_which_it_would_see_a_part(
    tmp_path: Path, composite: dict[str, Any], key: str
) -> None:
    with pytest.raises(MemoryConfigError, match=rf"memory\.composite\.{key}: 'inmemory' keeps .*: choose mem0"):
        create_worker_backend(settings(tmp_path), policy(backend="composite", composite=composite))


def test_a_worker_takes_a_composite_that_every_process_sees(tmp_path: Path) -> None:
    composite = {"default": "mem0", "routes": {"work": "mem0"}}
    backend = create_worker_backend(settings(tmp_path), policy(backend="composite", composite=composite))
    assert isinstance(backend, CompositeBackend)


def test_a_history_that_the_policy_wants_on_postgresql_is_not_kept_in_a_file(tmp_path: Path) -> None:
    on_file = settings(tmp_path).model_copy(update={"history_url": f"sqlite:///{tmp_path}/history.db"})
    wanted = policy(storage={"history_store": "postgresql", "vector_store": "qdrant-external"})
    with pytest.raises(MemoryConfigError, match=r"history_store: is postgresql, .*MEMTEND_HISTORY_URL"):
        create_worker_backend(on_file, wanted)
    assert isinstance(create_worker_backend(settings(tmp_path), wanted), Mem0Backend)


def test_a_worker_gets_mem0_with_the_settings_addresses(tmp_path: Path) -> None:
    backend = create_worker_backend(settings(tmp_path), policy())
    assert isinstance(backend, Mem0Backend)
    place = mem0_config_of(settings(tmp_path))
    assert (place.url, place.collection) == ("http://127.0.0.1:1", "memtend_acme")
    assert place.history_url == "postgresql://127.0.0.1/memtend"
    assert "the-key" not in repr(place)
    assert "postgresql" not in repr(place)


@pytest.mark.parametrize(
    ("memory", "journals"),
    [
        ({}, True),
        ({"backend": "composite", "composite": {"routes": {"n": "mem0"}, "default": "inmemory"}}, True),
        # Nothing outside of the process can bring these back.
        ({"backend": "inmemory"}, False),
        ({"backend": "composite", "composite": {"routes": {}, "default": "inmemory"}}, False),
    ],
)
def test_an_engine_deletes_through_the_journal_wherever_workers_reach(
    tmp_path: Path, memory: dict[str, Any], *, journals: bool
) -> None:
    backend: Any = create_engine_backend(settings(tmp_path), policy(**memory), embedder=HashingEmbedder())
    assert (backend._deletion is not None) == journals
