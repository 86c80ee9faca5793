"""Broker and store behind TLS with an authority of one's own: the certificates are checked, and the work is done."""

import json
from collections.abc import Generator
from urllib.parse import urlsplit

import pytest
from support.plain_processes import Fleet, fleet
from support.store_servers import store_server
from support.tls_proxy import tls_proxy
from support.valkey_servers import valkey_server

from memcore.client import MemoryClient
from memcore.errors import MemoryConnectionError
from memcore.jobs import Queue
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from workers.broker import waiting

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Generator[Fleet]:
    folder = tmp_path_factory.mktemp("tls")
    (folder / "store").mkdir()
    with (
        valkey_server(folder / "broker") as broker,
        store_server(folder / "store") as store,
        tls_proxy(broker.port, folder / "broker") as broker_proxy,
        tls_proxy(urlsplit(store.url).port or 0, folder / "store") as store_proxy,
        fleet(
            folder / "home",
            broker_url=f"rediss://:{broker.password}@localhost:{broker_proxy.port}/0?ssl_ca_certs={broker_proxy.ca_file}",
            database_url=f"sqlite:///{folder / 'ledger.db'}",
            history_url=f"sqlite:///{folder / 'history.db'}",
            qdrant_url=f"https://localhost:{store_proxy.port}",
            qdrant_api_key=store.api_key,
        ) as made,
    ):
        # The standard way to name an authority to Python's TLS, which the store's client reads too.
        made.extra["SSL_CERT_FILE"] = str(store_proxy.ca_file)
        made.memtend("migrate")
        made.start_all("worker-store")
        yield made


def test_a_memory_is_stored_and_found_over_tls(guarded: Fleet) -> None:
    guarded.memtend("store", "keeper", "the lighthouse keeper has a dog")
    assert "lighthouse" in guarded.memtend("search", "keeper", "dog")
    queues = json.loads(guarded.memtend("status", "--json"))["queues"]
    assert set(queues) == set(map(str, Queue))
    assert set(queues.values()) == {0}


def test_a_broker_with_a_outsiders_certificate_is_not_spoken_to(guarded: Fleet) -> None:
    settings = guarded.settings
    outsider = settings.model_copy(update={"broker_url": settings.broker_url.partition("?")[0]})
    assert set(waiting(outsider).values()) == {None}
    request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="nobody should hear this")
    with MemoryClient.from_settings(outsider) as client, pytest.raises(MemoryConnectionError):
        client.store("keeper", request)


def test_a_store_with_a_outsiders_certificate_is_not_spoken_to(guarded: Fleet) -> None:
    trusted = guarded.extra.pop("SSL_CERT_FILE")
    try:
        guarded.memtend("search", "keeper", "dog", code=1)
    finally:
        guarded.extra["SSL_CERT_FILE"] = trusted
