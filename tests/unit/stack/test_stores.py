"""Which stores a stack finds outside itself, and what it says when nobody told it where."""

from pathlib import Path
from typing import Any

import pytest

from memcore.config.memory import MemoryStorageConfig
from memcore.config.settings import Settings
from memcore.errors import MemoryConfigError
from workers.stack.home import create_folders, reserve_addresses
from workers.stack.services import infrastructure, with_external_stores

ENVIRON = {
    "MEMTEND_QDRANT_URL": "http://vectors:6333/",
    "MEMTEND_QDRANT_API_KEY": "outer",
    "MEMTEND_HISTORY_URL": "postgresql://db/history",
}


@pytest.fixture
def own(tmp_path: Path) -> Settings:
    return reserve_addresses(furnished(tmp_path)).settings(tmp_path, tick_seconds=1, sweep_seconds=1)


def furnished(path: Path) -> Path:
    create_folders(path)
    return path


def test_a_stack_keeps_to_its_own_stores_whatever_the_environment_says(own: Settings) -> None:
    assert with_external_stores(own, MemoryStorageConfig(), ENVIRON) == own


def test_a_stack_goes_to_the_stores_that_the_policy_puts_outside(own: Settings, tmp_path: Path) -> None:
    outside = MemoryStorageConfig(vector_store="qdrant-external", history_store="postgresql")

    moved = with_external_stores(own, outside, ENVIRON)

    assert (moved.qdrant_url, moved.history_url) == ("http://vectors:6333", "postgresql://db/history")
    assert moved.qdrant_api_key is not None
    assert moved.qdrant_api_key.get_secret_value() == "outer"
    assert (moved.broker_url, moved.database_url) == (own.broker_url, own.database_url)
    assert with_external_stores(own, outside, {**ENVIRON, "MEMTEND_QDRANT_API_KEY": ""}).qdrant_api_key is None
    home = furnished(tmp_path)
    parts = infrastructure(home, reserve_addresses(home), with_store=False)
    assert [part.name for part in parts] == ["broker"]


@pytest.mark.parametrize(
    ("storage", "environ", "said"),
    [
        ({"vector_store": "qdrant-external"}, {}, "vector_store: qdrant-external .* set MEMTEND_QDRANT_URL"),
        ({"history_store": "postgresql"}, {}, "history_store: postgresql .* set MEMTEND_HISTORY_URL"),
        ({"vector_store": "qdrant-external"}, {"MEMTEND_QDRANT_URL": "vectors:6333"}, "MEMTEND_QDRANT_URL: should be"),
    ],
)
def test_an_address_that_is_missing_or_wrong_is_named(
    own: Settings, storage: dict[str, Any], environ: dict[str, str], said: str
) -> None:
    with pytest.raises(MemoryConfigError, match=said):
        with_external_stores(own, MemoryStorageConfig.model_validate(storage), environ)
