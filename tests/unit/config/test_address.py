import pytest

from memcore.config.urls import Address

#: Everything is said once, at whichever sentinel.
SENTINELS = "sentinel://a:26379;sentinel://:pass@b/3;sentinel://c?master_name=queue&sentinel_password=other"


def test_each_sentinel_is_told_everything_for_a_fail_over_goes_on_with_one_of_them_alone() -> None:
    address = Address.of(SENTINELS)
    assert address.url == "sentinel://:pass@a:26379/3;sentinel://:pass@b/3;sentinel://:pass@c/3"
    assert address.options == {"master_name": "queue", "sentinel_kwargs": {"password": "other"}}
    assert address.is_redis


def test_one_sentinel_is_enough() -> None:
    address = Address.of("sentinel://a:26379/?master_name=queue")
    assert (address.url, address.options) == ("sentinel://a:26379/0", {"master_name": "queue"})


@pytest.mark.parametrize(
    ("written", "reported"),
    [
        ("rediss://:pw@host/0", "rediss://:pw@host/0?ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_ca_certs=/ca.pem", "rediss://host/0?ssl_ca_certs=/ca.pem&ssl_cert_reqs=required"),
        ("rediss://host?ssl_cert_reqs=none", "rediss://host?ssl_cert_reqs=none"),
        ("db+postgresql://me@host/results", "db+postgresql+psycopg://me@host/results"),
        ("redis://:pw@host:6379/1", "redis://:pw@host:6379/1"),
    ],
)
def test_what_celery_would_refuse_or_not_find_is_added(written: str, reported: str) -> None:
    assert (Address.of(written).url, Address.of(written).options) == (reported, {})


def test_rabbitmq_is_asked_to_confirm_each_message() -> None:
    address = Address.of("amqp://me@host//")
    assert (address.url, address.options) == (
        "amqp://me@host//",
        {"confirm_publish": True, "read_timeout": 10, "write_timeout": 10},
    )
    assert not address.is_redis


def test_an_address_shows_no_password() -> None:
    assert "pass" not in repr(Address.of(SENTINELS))
    assert "other" not in repr(Address.of(SENTINELS))
