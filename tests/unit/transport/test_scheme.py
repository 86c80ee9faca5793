import ssl
from typing import Any

import pytest
from kombu.connection import Connection
from kombu.transport import redis

from workers.transport import SCHEME, TLS_SCHEME, register, reliable_url
from workers.transport.transport import Transport


@pytest.mark.parametrize(
    ("url", "ours"),
    [
        ("redis://:secret@localhost:6379/1", "memtend-redis://:secret@localhost:6379/1"),
        ("rediss://localhost/0", "memtend-rediss://localhost/0"),
        ("redis+socket:///run/valkey.sock", "memtend-redis+socket:///run/valkey.sock"),
        ("amqp://localhost//", "amqp://localhost//"),
        ("sentinel://:pw@a:1/0;sentinel://:pw@b:2/0", "memtend-sentinel://:pw@a:1/0;memtend-sentinel://:pw@b:2/0"),
        ("memtend-redis://localhost/0", "memtend-redis://localhost/0"),
    ],
)
def test_redis_urls_become_ours_and_others_stay(url: str, ours: str) -> None:
    assert reliable_url(url) == ours


def test_the_parts_of_a_url_arrive_whole() -> None:
    register()

    connection = Connection(f"{SCHEME}://:secret@broker.example:6380/3")

    assert isinstance(connection.transport, Transport)
    assert (connection.hostname, connection.port, connection.password) == ("broker.example", 6380, "secret")
    assert connection.virtual_host == "3"
    assert connection.transport_options == {"unacked_restore_interval": 5}


def test_the_stock_scheme_stays_stock() -> None:
    register()

    assert type(Connection("redis://localhost").transport) is redis.Transport


def test_options_of_the_user_win() -> None:
    register()
    connection = Connection(f"{SCHEME}://localhost", transport_options={"unacked_restore_interval": 2})

    assert connection.transport.client.transport_options["unacked_restore_interval"] == 2


def test_tls_checks_the_certificate_unless_told_otherwise() -> None:
    register()
    strict = Connection(f"{TLS_SCHEME}://localhost")
    options: Any = {"ssl_cert_reqs": ssl.CERT_NONE}
    lax = Connection(f"{TLS_SCHEME}://localhost", ssl=options)

    assert strict.transport.client.ssl == {"ssl_cert_reqs": ssl.CERT_REQUIRED}
    assert lax.transport.client.ssl == {"ssl_cert_reqs": ssl.CERT_NONE}
