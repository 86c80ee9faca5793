"""The broker that engines' clients send to."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.valkey_servers import BrokerAddress, valkey_server


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerAddress]:
    with valkey_server(tmp_path) as running:
        yield running
