from collections.abc import Generator

import pytest
from support.store_servers import StoreAddress, store_server


@pytest.fixture(scope="session")
def small_store(tmp_path_factory: pytest.TempPathFactory) -> Generator[StoreAddress]:
    """A server with little in it: on one that others have filled, a vacuum begins while a test waits for an answer."""
    with store_server(tmp_path_factory.mktemp("small-store")) as address:
        yield address
