"""Where knowledge is shared, and where it is not."""

from pathlib import Path

import pytest
from support.hashing_embedder import HashingEmbedder
from support.publications import reported

from memcore.backends.composite import CompositeBackend
from memcore.backends.factory import create_memory_backend, mem0_config_of
from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.config.memory import CompanyMemoryConfig, MemoryOptionsConfig
from memcore.config.settings import Settings
from memcore.errors import MemoryCapabilityError


class Private(InMemoryBackend):
    """A backend that shares nothing."""

    supports_shared_access = False


@pytest.mark.parametrize("is_on", [True, False])
def test_the_policy_says_whether_mem0_shares(is_on: bool) -> None:
    place = Mem0Config(
        url="http://127.0.0.1:1", history_url="sqlite:///h.db", ledger_url="sqlite:///l.db", collection="c"
    )
    config = CompanyMemoryConfig(options=MemoryOptionsConfig(shared_knowledge_base=is_on))
    backend = create_memory_backend(config, company="c", embedder=HashingEmbedder(), place=place)
    assert isinstance(backend, Mem0Backend)
    assert backend.supports_shared_access is is_on


def test_an_installation_keeps_the_log_in_its_ledger(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {
            "broker_url": "redis://127.0.0.1:1",
            "database_url": "sqlite:///ledger.db",
            "qdrant_url": "http://127.0.0.1:1",
            "home": tmp_path,
        }
    )
    assert mem0_config_of(settings).ledger_url == settings.database_url
    assert "ledger.db" not in repr(mem0_config_of(settings))


async def test_a_composite_shares_what_its_default_child_shares() -> None:
    private, sharing = Private(company="c"), InMemoryBackend(company="c")
    made = CompositeBackend(
        {"private": private, "sharing": sharing}, routes={"office": "sharing"}, default="private", company="c"
    )
    await made.connect()
    assert not made.supports_shared_access
    with pytest.raises(MemoryCapabilityError, match="inmemory"):
        await made.publish("ada", reported(namespace="office"))
    assert await sharing.shared_version() == 0
