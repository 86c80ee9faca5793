"""A data folder with everything that keeps bytes in it."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.erasure_world import ErasureWorld, erasure_world
from support.ledger_records import copied_urls
from support.store_servers import store_server
from support.valkey_servers import valkey_server


@pytest.fixture
async def world(tmp_path: Path, ledger_template: Path, history_template: Path) -> AsyncIterator[ErasureWorld]:
    """A store, a broker and databases, each with files of its own."""
    data = tmp_path / "data"
    urls = copied_urls(ledger_template, data)
    history = shutil.copy(history_template, data / "history.db")
    with store_server(data / "vectors") as store, valkey_server(data / "broker") as broker:
        async with erasure_world(
            tmp_path, urls, history_url=f"sqlite:///{history}", store=store, broker_url=broker.url
        ) as made:
            yield made
